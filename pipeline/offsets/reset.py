"""Where a group is set to, which groups may be, and what follows from it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pipeline.errors import GroupInUseError, InvalidRequestError
from pipeline.kafka.records import Place
from pipeline.offsets.standing import Committed, Group


class Edge(StrEnum):
    """An end of a partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Time:
    """The first record at or after this time (broker's ms)."""

    ms: int


Target = Edge | Time | int
"""An ``int`` is an offset, which makes sense in one partition only."""

REFUSED: Mapping[str, str] = {
    "aggregator": (
        "the aggregator's windows are kept beside its offset and belong to it. Set back, it would vote again on "
        "requests whose results are deleted or compacted away, and publish and deliver them a second time; set "
        "forward, it would pass over what its open windows wait for. Votes are taken again by `tallystream revote`, "
        "and requests asked again by `tallystream replay`"
    )
}


@dataclass(frozen=True, slots=True)
class Effect:
    """What a person should know before a group of a role is set."""

    back: str
    forward: str


EFFECTS: Mapping[str, Effect] = {
    "batcher": Effect(
        back="Requests come again. What they led to is found on samples and in the lanes, and is not written twice; "
        "only tasks of requests older than a day, which the lanes have lost, are, and their deadlines are over. "
        "To ask again, use `tallystream replay`.",
        forward="Requests that are passed over get no result, not even a failed one.",
    ),
    "worker": Effect(
        back="Samples whose deadline is not over are drawn again and stand twice on samples; votes count the first. "
        "Which samples of a batch were finished is forgotten.",
        forward="Samples that are passed over are not drawn: their requests end at their deadline. "
        "Which samples of a batch were finished is forgotten.",
    ),
    "webhook": Effect(
        back="Callbacks of these results are sent again under the ids that they had; a receiver that drops repeats by "
        "webhook-id notices nothing. To send chosen ones again, use `tallystream deliveries resend`.",
        forward="Callbacks of results that are passed over are never sent. What waits on deliveries goes on.",
    ),
}


@dataclass(frozen=True, slots=True)
class Move:
    """One partition that is set."""

    before: Committed
    to: int

    @property
    def place(self) -> Place:
        return self.before.place

    @property
    def by(self) -> int:
        """Offsets forward; negative: back. From the first record, where nothing is committed."""
        return self.before.lag - (self.before.end - self.to)

    @property
    def needless(self) -> bool:
        """Whether it stands there already, with nothing finished above it."""
        position = self.before.position
        return position is not None and position.offset == self.to and not position.metadata


def chosen(group: Group, topic: str | None, partition: int | None) -> tuple[Committed, ...]:
    """The partitions that are meant.

    Raises:
        InvalidRequestError: there is none such.
    """
    found = tuple(
        each
        for each in group.offsets
        if topic in (None, each.place[0]) and partition in (None, each.place[1])
    )
    if not found:
        topics = ", ".join(sorted({each.place[0] for each in group.offsets}))
        raise InvalidRequestError(
            f"{group.name} reads no such partition; its topics: {topics}", field="topic"
        )
    return found


def moves(found: Sequence[Committed], target: Target, at_time: Mapping[Place, int]) -> tuple[Move, ...]:
    """Where each partition is set to.

    Args:
        at_time: the offset of a ``Time`` in each partition.

    Raises:
        InvalidRequestError: an offset that is not in its partition, or for several of them.
    """
    if isinstance(target, int):
        if len(found) > 1:
            raise InvalidRequestError(
                f"an offset is one partition's, and {len(found)} are chosen: add --topic and --partition",
                field="to",
            )
        first, end = found[0].first, found[0].end
        if not first <= target <= end:
            raise InvalidRequestError(f"the offset must be {first} to {end}, not {target}", field="to")
    return tuple(Move(each, _offset(each, target, at_time)) for each in found)


def check_idle(group: Group, found: Sequence[Committed], session_timeout_ms: int) -> None:
    """
    Raises:
        GroupInUseError: a member or an open transaction would undo it; names them, and what to do.
    """
    if group.members:
        names = ", ".join(f"{each.name} at {each.host}" for each in group.members)
        raise GroupInUseError(
            f"{group.name} is in use by {names}: stop these agents first; one that was killed counts until its "
            f"session time-out ({session_timeout_ms / 1000:.0f} s) is over"
        )
    if open_places := [f"{each.place[0]}[{each.place[1]}]" for each in found if not each.stable]:
        raise GroupInUseError(
            f"{group.name} has an open transaction in {', '.join(open_places)}: repeat this when it has timed out"
        )


def _offset(each: Committed, target: Target, at_time: Mapping[Place, int]) -> int:
    if isinstance(target, Time):
        return at_time[each.place]
    if isinstance(target, Edge):
        return each.first if target is Edge.EARLIEST else each.end
    return target
