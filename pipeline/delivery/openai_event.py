"""A callback in the form of OpenAI's webhooks, which its client's ``webhooks.unwrap`` reads."""

from __future__ import annotations

import json

from pipeline.events import FinishReason, Result, Status

OPENAI = "openai"
"""Among a callback's events: its end is told in this form."""
_STATUSES = {
    Status.PENDING: "queued",
    Status.DONE: "completed",
    Status.NEEDS_CLARIFICATION: "completed",
    Status.PARTIAL_DONE: "incomplete",
    Status.FAILED: "failed",
    Status.CANCELLED: "cancelled",
}


def response_id(request_id: str) -> str:
    return f"resp_{request_id}"


def response_status(status: Status, result: Result | None) -> str:
    """The status of a response: an answer that was cut at its length is incomplete."""
    told = _STATUSES.get(status, "in_progress")
    return "incomplete" if told == "completed" and result is not None and is_cut(result) else told


def is_cut(result: Result) -> bool:
    """Whether the chosen sample has reached its number of tokens."""
    return any(
        chain.sample_index == result.chosen_sample and chain.finish_reason is FinishReason.LENGTH
        for chain in result.reasoning
    )


def event_body(kind: str, delivery_id: str, subject: str, at: int) -> bytes:
    """The JSON body.

    Args:
        kind: e.g. ``response.completed``.
        subject: id of the response or the batch.
        at: ms.
    """
    document = {
        "id": f"evt_{delivery_id.rpartition('_')[2]}",
        "object": "event",
        "created_at": at // 1000,
        "type": kind,
        "data": {"id": subject},
    }
    return json.dumps(document, separators=(",", ":")).encode()
