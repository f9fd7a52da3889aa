"""The pipeline as the picture shows it: what the view counts, and how the agents of this machine are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.web.traffic import Passing
from pipeline.health import HealthStatus
from pipeline.health_server import AgentHealth
from pipeline.store.tasks import LaneLoad, Load

_FEW = 8
"""A lane's bar is full at so many, or at the longest lane's number."""
_MOST_PIPS = 32
_TONES: Mapping[str, str] = {
    HealthStatus.OK: "good",
    HealthStatus.STARTING: "wait",
    HealthStatus.STALLED: "bad",
}


@dataclass(frozen=True, slots=True)
class Lane:
    """One priority; widths of its bar in percent.

    Attributes:
        oldest_s: seconds that its oldest has waited; ``None`` where nothing waits.
    """

    priority: int
    waiting: int
    running: int
    oldest_s: float | None
    running_width: float
    waiting_width: float


@dataclass(frozen=True, slots=True)
class Agent:
    """One process of this machine.

    Attributes:
        word: how it is, in one word.
        why: if it is not well.
        rows: that its engine uses, and has; a worker's.
        lag: records that it has not read.
    """

    name: str
    role: str
    tone: str
    word: str
    why: str
    rows: tuple[int, int] | None
    lag: int

    @property
    def pips(self) -> list[bool]:
        """A row each, in use or not; none where they would be too many to see."""
        in_use, total = self.rows or (0, 0)
        return [place < in_use for place in range(total)] if total <= _MOST_PIPS else []


@dataclass(frozen=True, slots=True)
class Flow:
    """All of the picture; rates are per second.

    Attributes:
        unread: requests that the view has not read yet.
        agents: by role; ``None``: who asks may not know.
    """

    lanes: tuple[Lane, ...]
    unread: int
    waiting: int
    running: int
    rates: Mapping[Passing, float]
    agents: Mapping[str, Sequence[Agent]] | None


def flow_of(
    load: Load, rates: Mapping[Passing, float], agents: Iterable[AgentHealth] | None, now: int
) -> Flow:
    """Args: ``now``: ms; ``agents``: ``None`` for who may not see them."""
    fullest = max(_FEW, *(lane.waiting + lane.running for lane in load.lanes))
    by_role: dict[str, list[Agent]] = {}
    for health in agents or ():
        agent = _agent(health)
        by_role.setdefault(agent.role, []).append(agent)
    return Flow(
        tuple(_lane(priority, lane, fullest, now) for priority, lane in enumerate(load.lanes)),
        load.unread,
        load.waiting,
        sum(lane.running for lane in load.lanes),
        rates,
        None if agents is None else by_role,
    )


def _lane(priority: int, lane: LaneLoad, fullest: int, now: int) -> Lane:
    oldest = None if lane.oldest_at is None else max(0, now - lane.oldest_at) / 1000
    running, waiting = (round(100 * count / fullest, 2) for count in (lane.running, lane.waiting))
    return Lane(priority, lane.waiting, lane.running, oldest, running, waiting)


def _agent(health: AgentHealth) -> Agent:
    body: Mapping[str, Any] = health.body
    role = health.name.rpartition("-")[0]
    if not body:
        return Agent(health.name, role, "bad", "silent", "it does not answer", None, 0)
    status = str(body.get("status", "unknown"))  # of a version that is not this one it may be any
    away = status == HealthStatus.OK and body.get("kafka", "reachable") != "reachable"
    rows = body.get("rows")
    return Agent(
        health.name,
        role,
        "part" if away else _TONES.get(status, "bad"),
        "no Kafka" if away else status,
        "Kafka does not answer" if away else body.get("reason", ""),
        (rows["in_use"], rows["total"]) if rows else None,
        sum(each["lag"] or 0 for each in body.get("partitions", ())),
    )
