"""Sending dead letters again: each at most once, however often a replay is killed and repeated.

The order, and what a crash after each step leaves behind:

1. fence: every other replay is over, and what it left open is aborted  (nothing is sent)
2. read dead-letters: the letters, and the marks of those that were sent  (nothing is sent)
3. the record and the letter's mark, in one transaction                  (both are there, or neither)

So a letter whose record was sent has its mark, and step 2 of the next replay leaves it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from pipeline.errors import DecodeError, WrongPartitionError
from pipeline.events import InferenceRequest
from pipeline.kafka.codec import Codec
from pipeline.kafka.command_writer import Command, CommandWriter, Unit
from pipeline.kafka.dead_letters import REPLAYED, Cause, Source, without_ours
from pipeline.kafka.records import Headers, Output, Place, size_of
from pipeline.replay.letters import (
    Letter,
    LetterPlace,
    Selection,
    letter_of,
    mark_of,
    marked_offset,
    read_records,
)
from pipeline.settings import Settings
from pipeline.topics import REQUESTS, declared_topics, largest_record, request_partition


class NotReplayableError(Exception):
    """A letter that can not be sent again; says why."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A letter and where it goes, or why it can not go anywhere."""

    letter: Letter
    target: Place | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a replay does: letters by the time they were parked, and how many were replayed before."""

    letters: tuple[Planned, ...]
    replayed: int

    @property
    def sendable(self) -> dict[LetterPlace, Place]:
        return {item.letter.place: item.target for item in self.letters if item.target is not None}


class Replay:
    """Plans replays, and carries them out."""

    def __init__(self, settings: Settings, codec: Codec) -> None:
        self._settings, self._codec = settings, codec
        self._partitions = {spec.name: spec.partitions for spec in declared_topics(settings.shards, "")}

    def plan(self, selection: Selection, limit: int | None = None) -> Plan:
        """Look, and send nothing.

        Args:
            limit: letters at most, the oldest first.

        Raises:
            BrokerDownError: dead-letters can not be read.
            RegistryDownError: where a letter belongs can not be said now.
        """
        found = self.survey(selection, self._planned)
        waiting = [item for item in found if item.letter.replayed_at is None]
        return Plan(tuple(waiting[:limit]), len(found) - len(waiting))

    def survey(
        self, selection: Selection, look: Callable[[Letter, Source], Planned] | None = None
    ) -> list[Planned]:
        """Letters of a selection, replayed ones too, by the time they were parked."""
        found: dict[LetterPlace, Planned] = {}
        for source in read_records(self._settings, selection.since or 0):
            offset = marked_offset(source)
            letter = letter_of(source)
            if letter is not None and selection.takes(letter):
                found[letter.place] = look(letter, source) if look else Planned(letter, None)
            elif offset is not None and (item := found.get((source.partition, offset))) is not None:
                sent = replace(item.letter, replayed_at=source.timestamp)
                found[source.partition, offset] = replace(item, letter=sent)
        return sorted(found.values(), key=lambda item: (item.letter.parked_at, item.letter.place))

    def apply(self, selection: Selection, limit: int | None, told: Callable[[Plan, int], None]) -> Plan:
        """Send again what is selected and was not sent before.

        Args:
            told: called with the plan and the number of records sent so far, after each transaction.

        Raises:
            FencedError: another replay has begun; what this one has sent is sent.
            BrokerDownError: Kafka is away; repeat it.
        """
        with CommandWriter(
            self._settings,
            Command.REPLAY_LETTERS,
            fenced="another replay has begun and goes on with what is left",
            down="repeat it: nothing is sent twice",
        ) as writer:
            plan = self.plan(selection, limit)
            told(plan, 0)
            for sent in writer.write(self._records(plan.sendable, selection.since or 0)):
                told(plan, sent)
            return plan

    def _records(self, sendable: Mapping[LetterPlace, Place], since_ms: int) -> Iterator[Unit]:
        """Records, each with its mark."""
        for source in read_records(self._settings, since_ms) if sendable else ():
            target = sendable.get((source.partition, source.offset))
            cause = Cause.of(source.headers)
            if target is not None and cause is not None:
                yield _record(source, cause, target), mark_of(source, target)

    def _planned(self, letter: Letter, source: Source) -> Planned:
        try:
            target = self._target(letter, source)
            _record(source, letter.cause, target)
        except NotReplayableError as error:
            return Planned(letter, None, str(error))
        return Planned(letter, target)

    def _target(self, letter: Letter, source: Source) -> Place:
        """Where a letter belongs: where it came from, unless that was what was wrong with it."""
        cause = letter.cause
        if cause.whole_size:
            raise NotReplayableError(
                f"only the beginning of {cause.whole_size:,} bytes is kept here; see {letter.origin}"
            )
        if not 0 <= cause.partition < self._partitions.get(cause.topic, 0):
            raise NotReplayableError(
                f"{cause.topic}[{cause.partition}] is none of this pipeline's partitions"
            )
        if cause.code != WrongPartitionError.code:
            return cause.topic, cause.partition
        try:
            request = self._codec.decode(source.value or b"")
        except DecodeError as error:
            raise NotReplayableError(f"can not be decoded any more: {error.message}") from error
        if not isinstance(request, InferenceRequest):
            raise NotReplayableError("is no request")
        return REQUESTS, request_partition(request.request_id, request.priority, self._settings.shards)


def _record(source: Source, cause: Cause, target: Place) -> Output:
    """The record as it came, and what must not be forgotten should it fail again."""
    own, most = without_ours(source.headers), largest_record(target[0])
    history = (
        ("attempts", str(cause.attempts)),
        ("first_seen", str(cause.first_seen)),
        ("from", source.origin),
    )
    with_history: Headers = (*own, *((REPLAYED + name, text.encode()) for name, text in history))
    for headers in (with_history, own):
        size = size_of(source.key, source.value, headers)
        if size <= most:
            return Output(target[0], target[1], source.key, source.value, (), headers)
    raise NotReplayableError(f"{size:,} bytes; {target[0]} takes at most {most:,}")
