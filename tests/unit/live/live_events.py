"""Records of one task as the topics tell them, for the tests of live events."""

from __future__ import annotations

from dataclasses import replace

from pipeline.events import (
    Callback,
    Chain,
    Delivery,
    DeliveryState,
    FinishReason,
    HopTimings,
    InferenceRequest,
    Kind,
    Mode,
    Progress,
    ProgressKind,
    Result,
    Role,
    Status,
    Usage,
    Vote,
)
from pipeline.live.record import Heard, Record
from pipeline.topics import DELIVERIES, PROGRESS, REQUESTS, RESULTS, SAMPLES
from tests.unit.window_events import sample

TOPIC = {
    "Sample": SAMPLES,
    "Opened": SAMPLES,
    "Result": RESULTS,
    "Delivery": DELIVERIES,
    "Progress": PROGRESS,
}
CALLBACK = Callback("http://127.0.0.1:1/", events=("done",))
SAMPLE = sample(0, "7")


def record(event: Heard, offset: int, at: int | None = None) -> Record:
    topic = TOPIC.get(type(event).__name__, REQUESTS)
    return Record(topic, 0, offset, offset if at is None else at, event)


def request(run: int = 0, **fields: object) -> InferenceRequest:
    return InferenceRequest("q", "What?", run=run, **fields)  # pyright: ignore[reportArgumentType]


def tokens(index: int, text: str, *, run: int = 0, request_id: str = "q") -> Progress:
    return Progress(request_id, run, ProgressKind.TOKENS, 1, sample_index=index, text=text)


def votes(*counts: int, run: int = 0) -> Progress:
    found = tuple(Vote(str(number), count, 0.5, 0.5, ()) for number, count in enumerate(counts))
    return Progress("q", run, ProgressKind.VOTES, 1, Status.RUNNING, votes=found)


def state(status: Status, run: int = 0) -> Progress:
    return Progress("q", run, ProgressKind.STATE, 1, status)


def result(
    status: Status = Status.DONE,
    *,
    revision: int = 0,
    run: int = 0,
    callback: Callback | None = None,
    samples: tuple[int, ...] = (),
) -> Result:
    chains = [Chain(index, Role.ANSWER, "direct", "", "7", 1.0, FinishReason.STOP) for index in samples]
    return Result(
        request_id="q",
        run=run,
        revision=revision,
        status=status,
        tenant="default",
        priority=3,
        mode=Mode.STANDARD,
        kind=Kind.ANSWER,
        answer="7",
        chosen_sample=0,
        confidence=0.9,
        votes=(),
        reasoning=tuple(chains),
        usage=Usage(1, 1, 0, 3, 2),
        timings=HopTimings(0, 1, 2, 3, 4),
        callback=callback,
    )


def delivery(attempt: int, *, revision: int = 0, run: int = 0) -> Delivery:
    state = DeliveryState.DELIVERED if attempt else DeliveryState.PENDING
    return Delivery(
        "dlv_1",
        "q",
        run,
        revision,
        "done",
        "http://127.0.0.1:1/",
        "default",
        state,
        attempt,
        0,
        0,
        None,
        b"{}",
    )


def said(index: int, text: str, *, run: int = 0) -> Heard:
    return replace(SAMPLE, sample_index=index, text=text, run=run)
