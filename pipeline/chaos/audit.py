"""The audit: is anything lost, twice, stuck or wrong? Pure, and independent of the code that it judges.

It knows the topics, the documented identities and the documented vote, and nothing of how agents keep their
promises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from pipeline.chaos.audit_deliveries import check_deliveries
from pipeline.chaos.audit_offsets import check_offsets
from pipeline.chaos.evidence import Evidence, Record, RunKey, TaskKey
from pipeline.chaos.findings import Finding, Wrong
from pipeline.chaos.recount import disagreement, recount
from pipeline.events import Mode, Opened, Result, Sample, Status

_K = TypeVar("_K", str, RunKey, TaskKey)


def audit(evidence: Evidence) -> list[Finding]:
    """Every finding; empty when all is well."""
    return [
        *_records(evidence),
        *_once(evidence),
        *_requests(evidence),
        *_results(evidence),
        *check_deliveries(evidence),
        *check_offsets(evidence),
    ]


def _records(evidence: Evidence) -> Iterator[Finding]:
    for letter in evidence.dead_letters:
        yield Finding(Wrong.DEAD_LETTER, "a record was parked", letter)
    for where in evidence.unreadable:
        yield Finding(Wrong.ILLEGAL, "a record is not an event", where)


def _once(evidence: Evidence) -> Iterator[Finding]:
    """Whatever has an identity stands in its topic at most once."""
    yield from _repeated(evidence.requests, "a request stands on requests more than once")
    yield from _repeated(evidence.opened, "a request was opened more than once")
    yield from _repeated(evidence.samples, "a sample was published more than once")
    yield from _repeated(evidence.tasks, "two batches hold the same task")
    yield from _repeated(
        {key: evidence.finals(key) for key in evidence.results}, "a request has more than one final result"
    )


def _repeated(found: Mapping[_K, Sequence[object]], what: str) -> Iterator[Finding]:
    for key, records in found.items():
        if len(records) > 1:
            yield Finding(Wrong.DUPLICATED, what, _text(key))


def _requests(evidence: Evidence) -> Iterator[Finding]:
    """Every accepted request ends, by a vote and not by its deadline."""
    for request_id in sorted(evidence.accepted):
        key = request_id, 0
        final = evidence.final(key)
        missing = _missing(evidence, key)
        if final is None:
            yield Finding(*(missing or (Wrong.STUCK, "a request has no final result yet")), request_id)
        elif isinstance(final.event, Result) and _ended_by_time(final.event):
            yield Finding(*(missing or (Wrong.STUCK, "a request ended by its deadline")), request_id)
    for request_id, run in evidence.results:
        if request_id not in evidence.requests:
            yield Finding(Wrong.ILLEGAL, "a result answers no request", _text((request_id, run)))


def _ended_by_time(result: Result) -> bool:
    code = result.error.code if result.error else ""
    return result.status is Status.PARTIAL_DONE or code == "deadline_exceeded"


def _missing(evidence: Evidence, key: RunKey) -> tuple[Wrong, str] | None:
    """What of a request is gone for ever: its input will not come again and its output is not there."""
    asked = evidence.requests.get(key[0])
    if not asked:
        return Wrong.LOST, "an acknowledged request is not on requests"
    through = evidence.end.passed(asked[0])
    opened = evidence.opened.get(key)
    if not opened:
        return (Wrong.LOST, "a request was passed over and not opened") if through else None
    assert isinstance(opened[0].event, Opened)
    tasks = [(*key, index) for index in range(opened[0].event.expected)]
    if through and not all(task in evidence.tasks for task in tasks):
        return Wrong.LOST, "a task of a request is in no batch"
    drawn = [task for task in tasks if task in evidence.samples]
    if any(_passed_over(evidence, task) for task in tasks if task not in evidence.samples):
        return Wrong.LOST, "a task was passed over and has no sample"
    if evidence.final(key) is not None:
        return None
    inputs = [opened[0], *(evidence.samples[task][0] for task in drawn)]
    if len(drawn) == len(tasks) and all(evidence.end.passed(record) for record in inputs):
        return Wrong.LOST, "a complete vote was passed over and has no result"
    return None


def _passed_over(evidence: Evidence, task: TaskKey) -> bool:
    holders = evidence.tasks.get(task, ())
    return bool(holders) and all(evidence.end.passed(record, bit) for record, bit in holders)


def _results(evidence: Evidence) -> Iterator[Finding]:
    for key, records in evidence.results.items():
        if what := _illegal_chain(records):
            yield Finding(Wrong.ILLEGAL, what, _text(key))
        for record in records:
            if isinstance(record.event, Result):
                yield from _vote(evidence, key, record.event)


def _illegal_chain(records: Sequence[Record]) -> str:
    """Mode deep: a first answer (0) at most, then the final result (1). Every other mode: the final result (0)."""
    chain = [record.event for record in records if isinstance(record.event, Result)]
    shape = [(result.revision, result.status is Status.FIRST_ANSWER) for result in chain]
    legal = (
        [[(1, False)], [(0, True), (1, False)], [(0, True)]] if chain[0].mode is Mode.DEEP else [[(0, False)]]
    )
    repeats = [pair for at, pair in enumerate(shape) if pair not in shape[:at]]
    return "" if repeats in legal else "revisions of a result are out of order"


def _vote(evidence: Evidence, key: RunKey, result: Result) -> Iterator[Finding]:
    """The published vote is that of the samples it names, and those that came later would not change it."""
    counted: list[Sample] = []
    for chain in result.reasoning:
        records = evidence.samples.get((*key, chain.sample_index), ())
        if len(records) != 1:
            yield Finding(
                Wrong.WRONG_VOTE, "a sample that counted is not on samples exactly once", _text(key)
            )
            return
        assert isinstance(records[0].event, Sample)
        counted.append(records[0].event)
        if records[0].event.text != chain.text:
            yield Finding(Wrong.WRONG_VOTE, "a result quotes another text than its sample's", _text(key))
    if what := disagreement(result, counted):
        yield Finding(Wrong.WRONG_VOTE, what, _text(key))
    if result.status is Status.DONE and len(counted) < result.usage.samples_expected:
        told = recount(list({s.sample_index: s for s in evidence.samples_of[key]}.values()), result.mode)
        if not told.groups or told.groups[0].answer != result.answer:
            yield Finding(Wrong.WRONG_VOTE, "samples after an early stop would change the answer", _text(key))
    answered = result.status in (Status.DONE, Status.PARTIAL_DONE, Status.FIRST_ANSWER)
    if answered != (result.answer is not None):
        yield Finding(Wrong.WRONG_VOTE, "status and answer do not fit", _text(key))


def _text(key: str | tuple[str | int, ...]) -> str:
    return key if isinstance(key, str) else ":".join(map(str, key))
