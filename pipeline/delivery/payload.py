"""What a callback says: which result is which event, its id, and the body's bytes, made once."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial

from pipeline.delivery.openai_event import OPENAI, event_body, response_id, response_status
from pipeline.events import Callback, Delivery, DeliveryState, Result, Status, Vote
from pipeline.fitting import fitted
from pipeline.topics import DELIVERIES, largest_record

DONE = "done"
FIRST_ANSWER = "first_answer"
LARGEST_BODY = largest_record(DELIVERIES) - 65_536
"""Bytes; the rest of the record has room for the URL and the last attempt's error."""


def event_of(result: Result) -> str | None:
    """The event that a result is: "done" for every terminal status; None when it is none."""
    if result.status is Status.FIRST_ANSWER:
        return FIRST_ANSWER
    return DONE if result.status.terminal else None


def wanted(result: Result) -> bool:
    """Whether the request asked to be called for this result."""
    event = event_of(result)
    return result.callback is not None and (event in result.callback.events or _for_openai(result, event))


def _for_openai(result: Result, event: str | None) -> bool:
    return event == DONE and result.callback is not None and OPENAI in result.callback.events


def delivery_id(request_id: str, run: int, revision: int, url: str) -> str:
    """The ``webhook-id``: the same for a result and endpoint over all attempts, crashes and resends."""
    identity = json.dumps([request_id, run, revision, url]).encode()
    return "dlv_" + hashlib.sha256(identity).hexdigest()[:32]


def new_delivery(result: Result, now_ms: int, trace: str = "") -> Delivery | None:
    """The pending delivery of a result, due at once; None when nobody asked for it.

    Args:
        trace: the result's, that the callback goes on with.
    """
    event = event_of(result)
    callback = result.callback
    if event is None or callback is None or not wanted(result):
        return None
    identity = delivery_id(result.request_id, result.run, result.revision, callback.url)
    if _for_openai(result, event):
        event = f"response.{response_status(result.status, result)}"
        body = event_body(event, identity, response_id(result.request_id), result.timings.finished_at)
    else:
        body = body_of(result, event)
    of = (result.request_id, result.run, result.revision)
    return replace(due_now(identity, of, callback, event, body, now_ms), trace=trace)


def due_now(
    identity: str, of: tuple[str, int, int], callback: Callback, event: str, body: bytes, now_ms: int
) -> Delivery:
    """A callback of which no attempt was made.

    Args:
        identity: as ``delivery_id`` makes it.
        of: request, run and revision.
    """
    request_id, run, revision = of
    return Delivery(
        delivery_id=identity,
        request_id=request_id,
        run=run,
        revision=revision,
        event=event,
        url=callback.url,
        secret_id=callback.secret_id,
        state=DeliveryState.PENDING,
        attempt=0,
        created_at=now_ms,
        updated_at=now_ms,
        next_due_at=now_ms,
        body=body,
    )


def body_of(result: Result, event: str) -> bytes:
    """The JSON body, UTF-8: the same result gives the same bytes, and they fit a delivery's record.

    Of the chains only the chosen one's text goes out; the others are in the result itself.
    """
    return fitted(result, partial(_body, event), LARGEST_BODY)


def _body(event: str, result: Result) -> bytes:
    chosen = [chain.text for chain in result.reasoning if chain.sample_index == result.chosen_sample]
    finished = datetime.fromtimestamp(result.timings.finished_at / 1000, UTC)
    document = {
        "type": f"tallystream.result.{event}",
        "timestamp": finished.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "data": {
            "request_id": result.request_id,
            "run": result.run,
            "revision": result.revision,
            "status": result.status,
            "answer": result.answer,
            "confidence": _number(result.confidence),
            "chosen_text": chosen[0] if chosen else None,
            "clarifying_question": result.clarifying_question,
            "votes": [_vote(vote) for vote in result.votes],
            "usage": asdict(result.usage),
            "timings": asdict(result.timings),
            "error": asdict(result.error) if result.error else None,
            "metadata": dict(sorted(result.metadata.items())),
            "mode": result.mode,
            "kind": result.kind,
            "priority": result.priority,
            "tenant": result.tenant,
        },
    }
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    # A model's text can hold half a surrogate pair, which UTF-8 can not.
    return text.encode("utf-8", "replace")


def _number(value: float | None) -> float | None:
    # JSON has no NaN and no infinity; receivers' parsers fail on Python's spelling of them.
    return value if value is not None and math.isfinite(value) else None


def _vote(vote: Vote) -> dict[str, object]:
    return {**asdict(vote), "confidence": _number(vote.confidence), "score": _number(vote.score)}
