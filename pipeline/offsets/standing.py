"""What Kafka knows of one agent's consumer group, as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.kafka.in_flight import Position
from pipeline.kafka.records import Place


@dataclass(frozen=True, slots=True)
class Member:
    """One process in a group.

    Attributes:
        name: its static id, or else its client's.
        partitions: how many it has.
    """

    name: str
    host: str
    partitions: int


@dataclass(frozen=True, slots=True)
class Committed:
    """Where a group stands in one partition.

    Attributes:
        position: ``None``: it has committed nothing, and begins with the first record.
        first, end: the offsets of the first record and of the next one.
        stable: no open transaction is about to change it.
    """

    place: Place
    position: Position | None
    first: int
    end: int
    stable: bool = True

    @property
    def lag(self) -> int:
        """Offsets that are not behind the group; markers of transactions count."""
        return self.end - (self.first if self.position is None else max(self.position.offset, self.first))

    @property
    def finished(self) -> Mapping[int, int]:
        """Offset to the bitmap of the tasks at or above the position that are finished.

        Empty for metadata that is not ours.
        """
        try:
            return self.position.finished() if self.position else {}
        except ValueError:
            return {}


@dataclass(frozen=True, slots=True)
class Group:
    """The consumer group of one role."""

    role: str
    name: str
    members: tuple[Member, ...]
    offsets: tuple[Committed, ...]
