"""Taking votes again from the samples on their topic, without a model.

The order of ``apply``, and what a crash after each step leaves behind:

1. fence: every other revote is over, and what it left open is aborted    (nothing is published)
2. read samples and results, and vote again                              (nothing is published)
3. the new revisions, a lot of them in one transaction                   (all of the lot are there, or none)

Step 2 reads what an earlier revote has published: there the vote has come out as it does now, so a revote that
is repeated goes on with the rest. The aggregator is not fenced, and does not need to be: it publishes nothing more
of a run whose final result is out, and only such runs are voted on again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pipeline.errors import DecodeError
from pipeline.events import Kind, Opened, Result, Sample, Status
from pipeline.fitting import fitted
from pipeline.kafka.clients import value_of
from pipeline.kafka.codec import Codec
from pipeline.kafka.command_writer import Command, CommandWriter
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Output, result_identity
from pipeline.replay.published import published
from pipeline.replay.recast import Recast, counted, recast
from pipeline.replay.revote_policy import RevotePolicy
from pipeline.settings import Settings
from pipeline.topics import LARGEST_RESULT, RESULTS, SAMPLES, shard_of
from pipeline.windows import without_logprobs

_EVERY = 1_000

RunKey = tuple[str, int]
Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Range:
    """Requests whose window opened at or after ``since`` and before ``until`` (broker's ms), ``limit`` at most."""

    since: int
    until: int
    limit: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What a revote found.

    Attributes:
        recast: every vote that could be taken again, the oldest request first.
        unfinished: requests without a final result on the topic: still open, or its result is deleted.
        without_samples: results whose samples are deleted.
        programs: results of kind code, whose programs would have to be run again.
        more: there are requests beyond the limit; the next begins at this time (broker's ms).
    """

    recast: tuple[Recast, ...]
    unfinished: int
    without_samples: int
    programs: int
    more: int | None

    @property
    def changed(self) -> tuple[Recast, ...]:
        return tuple(each for each in self.recast if each.changed)


@dataclass(slots=True)
class _Asked:
    """One request in the range: when its marker was written (broker's ms), and its samples by index."""

    at: int
    opened: Opened
    samples: dict[int, Sample] = field(default_factory=dict[int, Sample])


class Revote:
    """Plans revotes, and carries them out."""

    def __init__(self, settings: Settings, codec: Codec, policy: RevotePolicy) -> None:
        self._settings, self._codec, self._policy = settings, codec, policy

    def plan(self, asked: Range, told: Told) -> Plan:
        """Vote again, and publish nothing.

        Raises:
            BrokerDownError: the topics can not be read.
        """
        found, more = self._asked(asked, told)
        finals = self._finals(found, asked.since, told) if found else {}
        told("voting again …")
        recasts: list[Recast] = []
        unfinished = without_samples = programs = 0
        for (request_id, run), one in sorted(found.items(), key=lambda item: (item[1].at, item[0])):
            result = finals.get(request_id)
            if result is None or not result.status.terminal or result.run < run:
                unfinished += 1
            elif result.kind is Kind.CODE:
                programs += 1
            elif result.run == run and result.status is not Status.CANCELLED:
                samples = counted(result, one.samples)
                if samples is None:
                    without_samples += 1
                else:
                    policy = self._policy.of(result.mode, result.kind)
                    recasts.append(recast(one.opened, result, samples, policy))
        return Plan(tuple(recasts), unfinished, without_samples, programs, more)

    def apply(self, asked: Range, told: Told) -> Plan:
        """Publish a new revision of every result whose answer or state has changed.

        Raises:
            FencedError: another revote has begun; what this one has published is published.
            BrokerDownError: Kafka is away; repeat it.
        """
        with CommandWriter(
            self._settings,
            Command.REVOTE,
            fenced="another revote has begun and goes on with what is left",
            down="repeat it: nothing is published twice",
        ) as writer:
            plan = self.plan(asked, told)
            for done in writer.write([self._revision(each.now)] for each in plan.changed):
                told(f"{done} of {len(plan.changed)} published …")
            return plan

    def _asked(self, asked: Range, told: Told) -> tuple[dict[RunKey, _Asked], int | None]:
        """The requests of the range with their samples, and where those beyond the limit begin."""
        found: dict[RunKey, _Asked] = {}
        beyond: list[int] = []
        places = [(SAMPLES, shard) for shard in range(self._settings.shards)]
        for count, message in enumerate(read_back(self._settings, places, since_ms=asked.since), 1):
            if count % _EVERY == 0:
                told(f"{count:,} records of samples read, {len(found):,} requests …")
            try:
                event = self._codec.decode(value_of(message))
            except DecodeError:
                continue
            at = message.timestamp()[1]
            if isinstance(event, Opened) and at < asked.until:
                if len(found) < asked.limit:
                    found.setdefault((event.request_id, event.run), _Asked(at, event))
                else:
                    beyond.append(at)
            elif isinstance(event, Sample) and (one := found.get((event.request_id, event.run))) is not None:
                one.samples.setdefault(event.sample_index, without_logprobs(event))
        return found, min(beyond, default=None)

    def _finals(self, found: dict[RunKey, _Asked], since: int, told: Told) -> dict[str, Result]:
        """The newest result of each of these requests: the topic is compacted by request, so a run that has a
        successor must not be published again behind it."""
        wanted = {request_id for request_id, _ in found}
        newest: dict[str, Result] = {}
        shards = sorted({shard_of(request_id, self._settings.shards) for request_id in wanted})
        for count, result in enumerate(published(self._settings, self._codec, shards, since), 1):
            if count % _EVERY == 0:
                told(f"{count:,} records of results read …")
            known = newest.get(result.request_id)
            if result.request_id in wanted and (
                known is None or (result.run, result.revision) > (known.run, known.revision)
            ):
                newest[result.request_id] = result
        return newest

    def _revision(self, result: Result) -> Output:
        value = fitted(result, self._codec.encode, LARGEST_RESULT)
        identity = result_identity(result.request_id, result.run, result.revision)
        shard = shard_of(result.request_id, self._settings.shards)
        return Output(RESULTS, shard, result.request_id.encode(), value, (identity,))
