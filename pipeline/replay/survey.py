"""Which requests of a range are asked again, and which are not, and why. Pure: records and time are passed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pipeline.errors import TallystreamError
from pipeline.events import InferenceRequest, Mode
from pipeline.kafka.dead_letters import Source
from pipeline.replay.where import Where
from pipeline.scheduling.expand import created_at_of, own_deadline_ms
from pipeline.settings import LimitSettings

RequestPlace = tuple[int, int]
"""Partition and offset on requests."""

_BEGINNING = 80
"""Characters of a question that are kept to be shown."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a replay is asked to do.

    Attributes:
        since, until: requests whose record the broker stamped at or after, and before, this time (ms).
        run: the number under which they are asked again; ``None``: it is only asked what would be.
        deliver: their callbacks are asked for again, too.
        limit: requests at most, the oldest first; those that were asked before count.
        name: goes into every record as its ``replay_id``.
    """

    since: int
    until: int
    where: Where = field(default_factory=Where)
    run: int | None = None
    deliver: bool = False
    limit: int | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A request of the range, without its text.

    Attributes:
        at: broker's time of its record, ms.
        size: bytes of the record's value.
        begins: how its question begins.
        fits: whether it will still fit the topic.
        session: whether it belongs to a conversation.
    """

    place: RequestPlace
    at: int
    request_id: str
    run: int
    tenant: str
    priority: int
    mode: Mode
    callback: bool
    size: int
    begins: str
    fits: bool = True
    session: bool = False


@dataclass(frozen=True, slots=True)
class Planned:
    """A candidate, and why it is not asked again, if it is not.

    Attributes:
        done: it was asked under this number before.
    """

    candidate: Candidate
    reason: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What a replay does: requests by the time of their record, and records that are none.

    Attributes:
        run: the number; the first that is free for all of them when none was asked for.
        unreadable: origins of the records that no batcher would take, by the code of the error.
        beyond: requests beyond the limit.
    """

    items: tuple[Planned, ...]
    run: int
    unreadable: Mapping[str, tuple[str, ...]]
    beyond: int

    @property
    def to_ask(self) -> tuple[Candidate, ...]:
        return tuple(item.candidate for item in self.items if not item.reason)

    @property
    def done(self) -> int:
        return sum(item.done for item in self.items)

    @property
    def refused(self) -> tuple[Planned, ...]:
        return tuple(item for item in self.items if item.reason and not item.done)


@dataclass(slots=True)
class _Known:
    """All that the topic says of one id: its highest run, whether the wanted one is there, and its last deadline."""

    run: int
    asked: bool
    deadline_at: int


class Survey:
    """Takes in the records of ``requests`` from the beginning of the range to the end of the topic.

    All of them, because a run that a replay has asked stands behind what it was made of, perhaps behind the range.

    Args:
        fits: whether what a request is asked again by fits the topic.
    """

    def __init__(
        self, choice: Choice, limits: LimitSettings, fits: Callable[[Source, InferenceRequest], bool]
    ) -> None:
        self._choice, self._limits, self._fits = choice, limits, fits
        self._known: dict[str, _Known] = {}
        self._found: dict[str, Candidate] = {}
        self._unreadable: dict[str, list[str]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def take(self, source: Source, request: InferenceRequest) -> None:
        """A request; of several records of one id, that of the lowest run is asked again, the oldest of its like."""
        run, at = request.run, source.timestamp
        asked = run == self._choice.run
        deadline_at = created_at_of(request, at) + (
            request.deadline_ms or own_deadline_ms(request.mode, self._limits)
        )
        known = self._known.setdefault(request.request_id, _Known(run, asked, deadline_at))
        known.run, known.asked = max(known.run, run), known.asked or asked
        known.deadline_at = max(known.deadline_at, deadline_at)
        if not (self._in_range(source) and self._choice.where.takes(request)):
            return
        place = source.partition, source.offset
        best = self._found.get(request.request_id)
        if best is None or (run, at, place) < (best.run, best.at, best.place):
            self._found[request.request_id] = Candidate(
                place=place,
                at=at,
                request_id=request.request_id,
                run=run,
                tenant=request.tenant,
                priority=request.priority,
                mode=request.mode,
                callback=request.callback is not None,
                size=len(source.value or b""),
                begins=(request.messages[-1].content if request.messages else request.prompt)[:_BEGINNING],
                fits=self._fits(source, request),
                session=request.session is not None,
            )

    def refuse(self, source: Source, error: TallystreamError) -> None:
        """A record that no batcher would take."""
        if self._in_range(source):
            self._unreadable.setdefault(error.code, []).append(source.origin)

    def may_run(self, now: int) -> Mapping[str, tuple[int, int]]:
        """Ids of the range whose last run is not over by its deadline: that run, and when they were asked (ms)."""
        return {
            request_id: (known.run, self._found[request_id].at)
            for request_id, known in self._known.items()
            if request_id in self._found and known.deadline_at > now and not known.asked
        }

    def plan(self, running: frozenset[str]) -> Plan:
        """What is to be done.

        Args:
            running: ids whose last run has no final result yet.
        """
        found = sorted(self._found.values(), key=lambda each: (each.at, each.place))
        taken = found[: self._choice.limit]
        free = 1 + max((self._known[each.request_id].run for each in taken), default=0)
        run = free if self._choice.run is None else self._choice.run
        items = tuple(self._planned(each, run, running) for each in taken)
        unreadable = {code: tuple(origins) for code, origins in self._unreadable.items()}
        return Plan(items, run, unreadable, len(found) - len(taken))

    def _in_range(self, source: Source) -> bool:
        return self._choice.since <= source.timestamp < self._choice.until

    def _planned(self, each: Candidate, run: int, running: frozenset[str]) -> Planned:
        known = self._known[each.request_id]
        if known.asked:
            return Planned(each, f"run {run} was asked before", done=True)
        if known.run >= run:
            return Planned(each, f"run {known.run} was asked; the number must be above it")
        if each.request_id in running:
            return Planned(each, f"run {known.run} has no final result yet")
        if each.session:
            return Planned(each, "is a turn of a conversation, whose history is not what it was then")
        if not each.fits:
            return Planned(each, "does not fit the topic any more")
        return Planned(each)
