"""Asking requests again under a new run number: each once, however often a replay is killed and repeated.

The order, and what a crash after each step leaves behind:

1. fence: every other replay is over, and what it left open is aborted   (nothing is asked)
2. read requests: those of the range, and which runs there are           (nothing is asked)
3. the new records, a few of them in one transaction, at a rate          (those that are committed are asked)

A request that was asked under the number stands on the topic under it, and step 2 of the next replay leaves it
out. What arrives meanwhile is behind the range.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from pipeline.errors import DecodeError, InvalidRequestError
from pipeline.events import InferenceRequest
from pipeline.kafka.codec import Codec
from pipeline.kafka.command_writer import Command, CommandWriter, Unit
from pipeline.kafka.dead_letters import REPLAYED, Source, decode_record, without_ours
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Output, size_of
from pipeline.replay.pace import Pace
from pipeline.replay.published import published
from pipeline.replay.survey import Choice, Plan, RequestPlace, Survey
from pipeline.scheduling.validate import check_routed
from pipeline.settings import Settings
from pipeline.topics import PRIORITIES, REQUESTS, largest_record, shard_of

_EVERY = 1_000

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Done:
    """What a replay has done: fewer than planned were asked where retention has deleted some meanwhile."""

    plan: Plan
    asked: int


class AskAgain:
    """Plans replays of requests, and carries them out."""

    def __init__(self, settings: Settings, codec: Codec, now_ms: Callable[[], int]) -> None:
        self._settings, self._codec, self._now_ms = settings, codec, now_ms

    def plan(self, choice: Choice, told: Told) -> Plan:
        """Look, and ask nothing.

        Raises:
            BrokerDownError: the topics can not be read.
            RegistryDownError: the records can not be judged now.
        """
        survey = Survey(choice, self._settings.limits, partial(self._fits, choice))
        for count, source in enumerate(self._records(choice), 1):
            if count % _EVERY == 0:
                told(f"{count:,} records of {REQUESTS} read, {len(survey):,} requests …")
            try:
                request = self._request(source)
            except (DecodeError, InvalidRequestError) as error:
                survey.refuse(source, error)
            else:
                survey.take(source, request)
        return survey.plan(self._running(survey, told))

    def apply(self, choice: Choice, pace: Pace, told: Told) -> Done:
        """Ask again what is chosen, as far as that was not done before.

        Args:
            choice: with its run.

        Raises:
            FencedError: another replay has begun; what this one has asked is asked.
            BrokerDownError: Kafka is away; repeat it.
        """
        with CommandWriter(
            self._settings,
            Command.REPLAY_REQUESTS,
            fenced="another replay has begun; repeat this one when that has ended",
            down="repeat it: nothing is asked twice",
        ) as writer:
            plan = self.plan(choice, told)
            total, asked = len(plan.to_ask), 0
            for done in writer.write(self._units(plan, choice), pace.lot):
                told(f"{done:,} of {total:,} requests asked again …")
                wait = pace.after(done - asked, time.monotonic())
                asked = done
                if asked < total:
                    time.sleep(wait)
            return Done(plan, asked)

    def _records(self, choice: Choice) -> Iterator[Source]:
        places = [(REQUESTS, partition) for partition in range(PRIORITIES * self._settings.shards)]
        for message in read_back(self._settings, places, since_ms=choice.since):
            source = Source.of(message)
            if source.value is not None:
                yield source

    def _request(self, source: Source) -> InferenceRequest:
        event = decode_record(self._codec, source)
        return check_routed(event, source.partition, self._settings.shards)

    def _running(self, survey: Survey, told: Told) -> frozenset[str]:
        """Whose last run may still publish: a result behind that of the new run would take its place."""
        left = dict(survey.may_run(self._now_ms()))
        if not left:
            return frozenset()
        told("looking which requests have ended …")
        shards = sorted({shard_of(request_id, self._settings.shards) for request_id in left})
        since = min(at for _, at in left.values())
        for result in published(self._settings, self._codec, shards, since):
            run, _ = left.get(result.request_id, (0, 0))
            if result.status.terminal and result.run >= run:
                left.pop(result.request_id, None)
        return frozenset(left)

    def _fits(self, choice: Choice, source: Source, request: InferenceRequest) -> bool:
        out = self._again(source, request, choice, choice.run or request.run + 1)
        return size_of(out.key, out.value, out.headers) <= largest_record(REQUESTS)

    def _units(self, plan: Plan, choice: Choice) -> Iterator[Unit]:
        """The records are read a second time instead of all being held."""
        left: set[RequestPlace] = {candidate.place for candidate in plan.to_ask}
        for source in self._records(choice) if left else ():
            place = source.partition, source.offset
            if place in left:
                yield (self._again(source, self._request(source), choice, plan.run),)
                left.discard(place)
                if not left:
                    return

    def _again(self, source: Source, request: InferenceRequest, choice: Choice, run: int) -> Output:
        """The record as it came, but for what makes it a new run: its clock starts when it is written."""
        asked = replace(
            request,
            run=run,
            created_at=0,
            callback=request.callback if choice.deliver else None,
            replay_id=choice.name,
        )
        headers = (*without_ours(source.headers), (REPLAYED + "from", source.origin.encode()))
        key = request.request_id.encode()
        return Output(REQUESTS, source.partition, key, self._codec.encode(asked), (), headers)
