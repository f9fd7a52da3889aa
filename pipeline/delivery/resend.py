"""Asking for what has ended to be sent again, and for a disabled endpoint to be tried again.

Nothing is sent from here: the record is written that says so, and the agent that owns its shard takes it up,
now or when it starts. The order, and what a crash after each step leaves behind:

1. fence: every other command that writes here is over     (nothing is asked)
2. read deliveries: the newest record of each              (nothing is asked)
3. the new records, by the lot, in transactions            (what is committed is asked, and waits)

So what one command has asked for, the next one finds waiting or ended, and does not ask for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from pipeline.delivery.asked import ASKED
from pipeline.delivery.history import (
    Kept,
    RecordPlace,
    Selection,
    endpoint_named,
    endpoints,
    newest,
    read_records,
)
from pipeline.delivery.schedule import send_again
from pipeline.events import Delivery, DeliveryState
from pipeline.kafka.codec import Codec
from pipeline.kafka.command_writer import Command, CommandWriter, Unit
from pipeline.kafka.records import Output
from pipeline.settings import Settings
from pipeline.topics import DELIVERIES

Change = Callable[[Delivery], Delivery]


@dataclass(frozen=True, slots=True)
class Planned:
    """A delivery, and why it is not sent again, if it is not.

    Attributes:
        needless: it waits, or has arrived.
    """

    kept: Kept
    reason: str = ""
    needless: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What a resend does: deliveries by the time of their newest record, and ids that are not there."""

    deliveries: tuple[Planned, ...]
    missing: tuple[str, ...]

    @property
    def sendable(self) -> tuple[Planned, ...]:
        return tuple(item for item in self.deliveries if not item.reason)

    @property
    def refused(self) -> tuple[Planned, ...]:
        return tuple(item for item in self.deliveries if item.reason and not item.needless)


def plan(found: Mapping[str, Kept], selection: Selection, limit: int | None = None) -> Plan:
    """What a resend of these would do. Pure.

    Args:
        found: the newest record of every delivery.
        selection: its state says what may be sent again: ``failed``, or ``delivered`` for what has arrived.
            Deliveries that are named by id are planned whatever their state.
        limit: deliveries at most, the oldest first.
    """
    wide = replace(selection, state=None) if selection.ids else selection
    known = endpoints(found.values())
    items: list[Planned] = []
    for kept in found.values():
        if not wide.takes(kept):
            continue
        if kept.delivery.state is not selection.state:
            waits = kept.delivery.state is DeliveryState.PENDING
            items.append(Planned(kept, "it waits already" if waits else f"it is {kept.delivery.state}", True))
        elif kept.place[0] in known[kept.endpoint].disabled:
            items.append(Planned(kept, f"{kept.endpoint} is disabled"))
        else:
            items.append(Planned(kept))
    items.sort(key=lambda item: (item.kept.delivery.updated_at, item.kept.place))
    return Plan(tuple(items[:limit]), tuple(sorted(selection.ids - found.keys())))


class Resend:
    """Plans, and asks for, what is sent again."""

    def __init__(self, settings: Settings, codec: Codec, now_ms: Callable[[], int]) -> None:
        self._settings, self._codec, self._now_ms = settings, codec, now_ms

    def plan(self, selection: Selection, limit: int | None = None) -> Plan:
        """Look, and ask for nothing.

        Raises:
            BrokerDownError: deliveries can not be read.
        """
        return plan(self._found(), selection, limit)

    def apply(self, selection: Selection, limit: int | None, told: Callable[[int], None]) -> Plan:
        """Ask for what is selected to be sent again.

        Args:
            told: called with the number of deliveries asked for so far, after each transaction.

        Raises:
            FencedError: another command has begun; what this one has asked for is asked for.
            BrokerDownError: Kafka is away; repeat it.
        """
        with self._writer() as writer:
            made = self.plan(selection, limit)
            now = self._now_ms()
            changes: dict[RecordPlace, Change] = {
                item.kept.place: lambda delivery: send_again(delivery, now) for item in made.sendable
            }
            for sent in writer.write(self._records(changes)):
                told(sent)
            return made

    def enable(self, endpoint: str) -> int:
        """Let a disabled endpoint be tried again; returns on how many shards it was disabled.

        Raises:
            FencedError: another command has begun; this can be repeated.
            BrokerDownError: Kafka is away; repeat it.
        """
        with self._writer() as writer:
            known = endpoints(self._found().values()).get(endpoint_named(endpoint))
            places = [known.newest[shard].place for shard in known.disabled] if known else []
            for _ in writer.write(self._records(dict.fromkeys(places, self._enabled))):
                pass
            return len(places)

    def _enabled(self, delivery: Delivery) -> Delivery:
        """The record again, which now says that its endpoint is well, and is newer than what it said before."""
        return replace(delivery, failing_since=None, updated_at=max(self._now_ms(), delivery.updated_at + 1))

    def _writer(self) -> CommandWriter:
        return CommandWriter(
            self._settings,
            Command.RESEND_DELIVERIES,
            fenced="another command writes to deliveries; repeat this one",
            down="repeat it: nothing is asked for twice",
        )

    def _found(self) -> dict[str, Kept]:
        return newest(read_records(self._settings, self._codec))

    def _records(self, changes: Mapping[RecordPlace, Change]) -> Iterator[Unit]:
        """The bodies are read a second time instead of all being held."""
        for place, delivery in read_records(self._settings, self._codec) if changes else ():
            if (change := changes.get(place)) is not None:
                value = self._codec.encode(change(delivery))
                yield (Output(DELIVERIES, place[0], delivery.delivery_id.encode(), value, (), ASKED),)
