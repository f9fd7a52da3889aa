"""Every callback: one webhook-id for one result, each attempt recorded once, an end, and seen by its receiver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pipeline.chaos.evidence import Evidence, Reception, Record
from pipeline.chaos.findings import Finding, Wrong
from pipeline.events import Delivery, DeliveryState, Result, Status

_SLACK_MS = 1_000
"""Between a reception, as the receiver saw it, and the fault that kept it from being recorded."""
_REPEATS_PER_FAULT = 2
"""What the victim had under way, and what its successor had when the victim woke up."""


def check_deliveries(evidence: Evidence) -> Iterator[Finding]:
    if evidence.rejected:
        yield Finding(Wrong.ILLEGAL, "callbacks with a bad signature", str(evidence.rejected))
    asked = {
        (event.request_id, event.run, event.revision): record
        for records in evidence.results.values()
        for record in records
        if isinstance(event := record.event, Result) and wants_callback(event)
    }
    for identity, record in asked.items():
        if identity not in evidence.deliveries_of:
            passed = evidence.end.passed(record)
            what = "a callback was passed over" if passed else "a callback is not recorded yet"
            yield Finding(Wrong.LOST if passed else Wrong.STUCK, what, ":".join(map(str, identity)))
    for identity, records in evidence.deliveries_of.items():
        name = ":".join(map(str, identity))
        if identity not in asked:
            yield Finding(Wrong.ILLEGAL, "a callback for a result that nobody asked for", name)
        if len({record.event.delivery_id for record in records if isinstance(record.event, Delivery)}) > 1:
            yield Finding(Wrong.DUPLICATED, "a result has more than one webhook-id", name)
    for webhook_id, records in evidence.deliveries.items():
        yield from _one(evidence, webhook_id, records)
    for webhook_id in evidence.received:
        if webhook_id not in evidence.deliveries:
            yield Finding(Wrong.ILLEGAL, "a callback came that is not recorded", webhook_id)


def wants_callback(result: Result) -> bool:
    """Whether its request asked to be called for this result."""
    event = "first_answer" if result.status is Status.FIRST_ANSWER else "done"
    return result.callback is not None and event in result.callback.events


def _one(evidence: Evidence, webhook_id: str, records: Sequence[Record]) -> Iterator[Finding]:
    chain = [record.event for record in records if isinstance(record.event, Delivery)]
    attempts = [delivery.attempt for delivery in chain]
    if len(set(attempts)) < len(attempts):
        yield Finding(Wrong.DUPLICATED, "an attempt at a callback is recorded more than once", webhook_id)
    elif attempts != list(range(len(attempts))):
        yield Finding(Wrong.LOST, "an attempt at a callback is not recorded", webhook_id)
    ends = [delivery.state is not DeliveryState.PENDING for delivery in chain]
    if not any(ends):
        yield Finding(Wrong.STUCK, "a callback has no end yet", webhook_id)
    elif ends.index(True) != len(ends) - 1:
        yield Finding(Wrong.DUPLICATED, "a callback went on after its end", webhook_id)
    came = evidence.received.get(webhook_id, ())
    if any(ends) and not came:
        yield Finding(Wrong.LOST, "a callback ended and never came", webhook_id)
    if len({reception.body for reception in came}) > 1:
        yield Finding(Wrong.ILLEGAL, "a callback came with different bodies", webhook_id)
    if not _explained(evidence, len(came) - max(attempts), came):
        yield Finding(
            Wrong.UNEXPLAINED_REPEAT,
            "a callback came more often than attempts and faults explain",
            f"{webhook_id}: {max(attempts)} attempts recorded, came at {[reception.at for reception in came]}",
        )


def _explained(evidence: Evidence, surplus: int, came: Sequence[Reception]) -> bool:
    """Whether so many attempts that nobody recorded can be due to faults between the first and the last."""
    if surplus <= 0:
        return True
    first, last = came[0].at - _SLACK_MS, came[-1].at + _SLACK_MS
    faults = sum(fault.begin <= last and fault.end >= first for fault in evidence.disturbances)
    return surplus <= faults * _REPEATS_PER_FAULT
