"""Topics by hand: a small run in which all is well, to be spoilt by a test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pipeline.chaos.audit import audit
from pipeline.chaos.evidence import Committed, Disturbance, Evidence, Place, Reception, Record, Snapshot
from pipeline.chaos.findings import Finding
from pipeline.events import (
    Batch,
    Callback,
    Chain,
    Delivery,
    DeliveryState,
    ErrorInfo,
    Event,
    FinishReason,
    HopTimings,
    InferenceRequest,
    Kind,
    Message,
    Mode,
    Opened,
    Result,
    Role,
    Sample,
    SampleTask,
    SampleTimings,
    Status,
    TaskGroup,
    Usage,
    Vote,
)

ID = "request-1"
CALLBACK = Callback("http://127.0.0.1/callbacks")
END = 100
REQUESTS, LANE, SAMPLES = ("requests", 6), ("batches.3", 0), ("samples", 0)
RESULTS, DELIVERIES = ("results", 0), ("deliveries", 0)


@dataclass
class World:
    """One request of three samples (7, 7, 8), its result and its callback; every record's time is its offset + 1."""

    accepted: set[str] = field(default_factory=lambda: {ID})
    topics: dict[Place, list[Event]] = field(default_factory=dict[Place, list[Event]])
    times: dict[tuple[Place, int], int] = field(default_factory=dict[tuple[Place, int], int])
    snapshots: list[Snapshot] = field(default_factory=list[Snapshot])
    received: dict[str, list[Reception]] = field(default_factory=dict[str, list[Reception]])
    disturbances: list[Disturbance] = field(default_factory=list[Disturbance])
    dead_letters: list[str] = field(default_factory=list[str])
    unreadable: list[str] = field(default_factory=list[str])
    rejected: int = 0
    passed: dict[Place, Committed] = field(default_factory=dict[Place, Committed])

    def findings(self) -> list[Finding]:
        records = [
            Record(*place, offset, self.times.get((place, offset), offset + 1), event)
            for place, events in self.topics.items()
            for offset, event in enumerate(events)
        ]
        ends = {place: len(events) for place, events in self.topics.items()}
        positions = {place: Committed(end) for place, end in ends.items() if place != DELIVERIES}
        return audit(
            Evidence(
                accepted=frozenset(self.accepted),
                records=records,
                dead_letters=self.dead_letters,
                unreadable=self.unreadable,
                snapshots=[*self.snapshots, Snapshot(END, positions | self.passed)],
                ends=ends,
                received=self.received,
                rejected=self.rejected,
                disturbances=self.disturbances,
            )
        )

    def kinds(self) -> set[str]:
        return {finding.wrong.value for finding in self.findings()}

    def said(self) -> set[str]:
        return {finding.what for finding in self.findings()}


def well() -> World:
    """Nothing is wrong here."""
    final = result()
    return World(
        topics={
            REQUESTS: [InferenceRequest(ID, "What?", callback=CALLBACK)],
            LANE: [batch()],
            SAMPLES: [opened(), sample(0, 7, -0.1), sample(1, 7, -0.2), sample(2, 8, -0.3)],
            RESULTS: [final],
            DELIVERIES: [delivery(0), delivery(1, 500), delivery(2, 204)],
        },
        received={"dlv": [Reception(10, "body"), Reception(20, "body")]},
    )


def batch(*indices: int) -> Batch:
    tasks = tuple(SampleTask(index) for index in indices or (0, 1, 2))
    group = TaskGroup(
        ID,
        0,
        "t",
        3,
        Mode.STANDARD,
        Kind.ANSWER,
        "direct",
        (Message("user", "What?"),),
        0.5,
        1.0,
        9,
        0,
        10**9,
        tasks,
    )
    return Batch("batch", 3, 0, (group,))


def opened(expected: int = 3) -> Opened:
    return Opened(ID, 0, "t", 3, Mode.STANDARD, Kind.ANSWER, 0, 0, 10**9, expected, CALLBACK)


def sample(index: int, answer: int | None, logprob: float | None, error: ErrorInfo | None = None) -> Sample:
    text = "" if answer is None else f"The answer is {answer}"
    reason = FinishReason.ERROR if error else FinishReason.STOP
    timings = SampleTimings(0, 0, 0, 0)
    return Sample(
        ID, 0, index, Role.ANSWER, "direct", text, reason, 1, 4, logprob, None, 0.5, timings, "w", error
    )


def delivery(attempt: int, status: int | None = None) -> Delivery:
    state = DeliveryState.DELIVERED if status == 204 else DeliveryState.PENDING
    return Delivery(
        "dlv", ID, 0, 0, "done", CALLBACK.url, "default", state, attempt, 0, 0, 0, b"body", status
    )


def result() -> Result:
    """The vote of 7 (confidences exp -0.1 and exp -0.2) over 8 (exp -0.3), worked out by hand."""
    seven = (math.exp(-0.1) + math.exp(-0.2)) / 2
    eight = math.exp(-0.3)
    worth = (
        1 + 1 - math.exp(-0.2) ** 4
    )  # the likelier one whole, its repetition of four tokens for what it adds
    votes = (
        Vote("7", 2, seven, 0.7 * worth / (worth + 1) + 0.3 * seven, (0, 1)),
        Vote("8", 1, eight, 0.7 / (worth + 1) + 0.3 * eight, (2,)),
    )
    return Result(
        request_id=ID,
        run=0,
        revision=0,
        status=Status.DONE,
        tenant="t",
        priority=3,
        mode=Mode.STANDARD,
        kind=Kind.ANSWER,
        answer="7",
        chosen_sample=0,
        confidence=0.7 * (worth + 1) / (worth + 1 + 2) + 0.3 * seven,
        votes=votes,
        reasoning=chains((0, 7), (1, 7), (2, 8)),
        usage=Usage(1, 4, 0, 3, 3),
        timings=HopTimings(0, 0, 0, 0, 0),
        callback=CALLBACK,
    )


def chains(*said: tuple[int, int]) -> Sequence[Chain]:
    return tuple(
        Chain(index, Role.ANSWER, "direct", f"The answer is {answer}", str(answer), 0.0, FinishReason.STOP)
        for index, answer in said
    )


def changed(world: World, **fields: object) -> None:
    """Publish the final result with other fields."""
    final = world.topics[RESULTS][0]
    assert isinstance(final, Result)
    world.topics[RESULTS][0] = replace(final, **fields)
