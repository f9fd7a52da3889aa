"""No committed offset was ever ahead of unfinished work.

At each snapshot: what is behind a committed position must have left its output in the log before. The broker
stamps outputs when they are appended, which is before their input's offset can be committed, so the comparison
needs no slack. A record is looked at once, at the first snapshot that is past it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count, pairwise, takewhile

from pipeline.chaos.audit_deliveries import wants_callback
from pipeline.chaos.evidence import Committed, Evidence, Place, Record, RunKey, Snapshot, TaskKey, tasks_in
from pipeline.chaos.findings import Finding, Wrong
from pipeline.events import Batch, InferenceRequest, Opened, Result, Sample

_BEFORE_ALL = Snapshot(0, {})


def check_offsets(evidence: Evidence) -> Iterator[Finding]:
    for place, position in evidence.end.positions.items():
        if position.offset > evidence.ends.get(place, position.offset):
            yield Finding(
                Wrong.AHEAD,
                "a committed offset is behind the end of its partition",
                f"{place[0]}[{place[1]}]",
            )
    by_place: defaultdict[Place, list[Record]] = defaultdict(list)
    for record in evidence.records:
        by_place[record.place].append(record)
    for earlier, snapshot in pairwise((_BEFORE_ALL, *evidence.snapshots)):
        for place in snapshot.positions:
            for record in _newly_passed(by_place[place], earlier, snapshot):
                if what := _unfinished(evidence, record, earlier, snapshot):
                    yield Finding(Wrong.AHEAD, what, f"{record.topic}[{record.partition}]@{record.offset}")


def _newly_passed(records: Sequence[Record], earlier: Snapshot, snapshot: Snapshot) -> Iterator[Record]:
    """Records that are, in whole or in part, behind this snapshot's position and were not behind the one before."""
    if not records:
        return
    before = earlier.positions.get(records[0].place, Committed(0))
    now = snapshot.positions[records[0].place]
    start = bisect_left(records, before.offset, key=lambda record: record.offset)
    for record in records[start:]:
        if record.offset < now.offset or record.offset in now.finished:
            yield record
        elif record.offset > max(now.finished, default=now.offset):
            return


def _unfinished(evidence: Evidence, record: Record, earlier: Snapshot, snapshot: Snapshot) -> str:
    event = record.event
    if isinstance(event, Batch):
        fresh = [
            key
            for bit, key in enumerate(tasks_in(event))
            if snapshot.passed(record, bit) and not earlier.passed(record, bit)
        ]
        over = any(not _finished(evidence, key, event, snapshot.at) for key in fresh)
        return "the worker's offset is ahead of a task without a sample" if over else ""
    if not snapshot.passed(record):
        return ""
    if isinstance(event, InferenceRequest):
        return _routed(evidence, event, snapshot.at)
    if isinstance(event, Opened | Sample):
        return _counted(evidence, (event.request_id, event.run), snapshot)
    if isinstance(event, Result):
        return _delivered(evidence, event, snapshot.at)
    return ""


def _finished(evidence: Evidence, key: TaskKey, batch: Batch, now: int) -> bool:
    """Drawn, or not needed any more: its request was decided or out of time."""
    deadline = next(group.deadline_at for group in batch.groups if group.request_id == key[0])
    return (
        _by(evidence.samples.get(key, ()), now)
        or evidence.final_at.get(key[:2], now + 1) <= now
        or deadline <= now
    )


def _routed(evidence: Evidence, request: InferenceRequest, now: int) -> str:
    key = request.request_id, request.run
    opened = evidence.opened.get(key, ())
    if not _by(opened, now):
        return "the batcher's offset is ahead of a request that was not opened"
    assert isinstance(opened[0].event, Opened)
    tasks = [(*key, index) for index in range(opened[0].event.expected)]
    if not all(_by([record for record, _ in evidence.tasks.get(task, ())], now) for task in tasks):
        return "the batcher's offset is ahead of a task in no batch"
    return ""


def _counted(evidence: Evidence, key: RunKey, snapshot: Snapshot) -> str:
    """When all inputs of a vote are behind the position, those of its review round among them, so is its result."""
    opened = evidence.opened.get(key, ())
    if not opened or not snapshot.passed(opened[0]):
        return ""
    assert isinstance(opened[0].event, Opened)
    answers = opened[0].event.expected
    reviews = takewhile(lambda index: (*key, index) in evidence.tasks, count(answers))
    samples = [evidence.samples.get((*key, index), ()) for index in (*range(answers), *reviews)]
    complete = all(records and snapshot.passed(records[0]) for records in samples)
    if complete and evidence.final_at.get(key, snapshot.at + 1) > snapshot.at:
        return "the aggregator's offset is ahead of a complete vote without a result"
    return ""


def _delivered(evidence: Evidence, result: Result, now: int) -> str:
    if not wants_callback(result):
        return ""
    identity = result.request_id, result.run, result.revision
    if not _by(evidence.deliveries_of.get(identity, ()), now):
        return "the webhook agent's offset is ahead of a callback that was not recorded"
    return ""


def _by(records: Sequence[Record], now: int) -> bool:
    return any(record.at <= now for record in records)
