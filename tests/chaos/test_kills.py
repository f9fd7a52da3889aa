"""Each role killed with SIGKILL, twice, while requests flow: nothing lost, nothing twice.

The audit trusts nothing of the agents: it reads the topics with read_committed and counts.
"""

from __future__ import annotations

import os
import random
import signal
from collections import Counter

import pytest

from pipeline.events import Batch, Callback, Delivery, DeliveryState, Mode, Opened, Result, Sample, Status
from pipeline.kafka.clients import value_of
from pipeline.kafka.codec import Codec
from pipeline.kafka.read_back import read_back
from pipeline.settings import Settings
from pipeline.stack import AGENTS
from pipeline.topics import LANES
from tests.integration.asker import Asker
from tests.integration.running import Running

pytestmark = pytest.mark.integration

_ROUNDS = 2
_TRACE = {"batcher": Opened, "worker": Sample, "aggregator": Result, "webhook": Result}
"""What the last request must have led to before the kill: its input is not committed then, so it comes again."""
_REQUESTS_A_KILL = 15


def test_killing_every_role_loses_nothing_and_doubles_nothing(asker: Asker, running: Running) -> None:
    chance = random.Random(11)
    asked: list[str] = []
    for agent in AGENTS * _ROUNDS:
        for _ in range(_REQUESTS_A_KILL):
            callback = Callback(running.receiver.url) if chance.random() < 0.5 else None
            mode, priority = chance.choice(list(Mode)), chance.randrange(6)
            asked.append(asker.ask("answers=7,7,7,7,8", mode=mode, priority=priority, callback=callback))
        last, trace = asked[-1], _TRACE[agent]
        asker.until(lambda last=last, trace=trace: last in {e.request_id for e in asker.of(trace)}, "a trace")
        before = running.supervisor.pids[f"{agent}-0"]
        os.kill(before, signal.SIGKILL)
        for _ in range(_REQUESTS_A_KILL):
            asked.append(asker.ask("answers=7,7,7,7,8", mode=Mode.STANDARD, priority=chance.randrange(6)))
        asker.until(
            lambda agent=agent, before=before: _restarted(running, agent, before), f"{agent} to come back"
        )
    finals = asker.finals(asked)
    assert {result.status for result in finals.values()} == {Status.DONE}
    _audit_results(asker)
    _audit_tasks(asker.settings, set(asked))
    _audit_callbacks(asker, running)


def _restarted(running: Running, agent: str, before: int) -> bool:
    return running.supervisor.pids.get(f"{agent}-0", before) != before


def _audit_results(asker: Asker) -> None:
    assert max(Counter((r.request_id, r.run, r.revision) for r in asker.results()).values()) == 1
    finals = Counter(r.request_id for r in asker.results() if r.status.terminal)
    assert max(finals.values()) == 1
    samples = Counter((s.request_id, s.run, s.sample_index) for s in asker.of(Sample))
    assert max(samples.values()) == 1
    for result in asker.results():
        for chain in result.reasoning:
            assert samples[result.request_id, result.run, chain.sample_index] == 1


def _audit_tasks(settings: Settings, asked: set[str]) -> None:
    """No batch holds a task that another holds."""
    codec, held = Codec(), Counter[tuple[str, int, int]]()
    for message in read_back(settings, [(lane, shard) for lane in LANES for shard in range(settings.shards)]):
        batch = codec.decode(value_of(message))
        assert isinstance(batch, Batch)
        held.update((g.request_id, g.run, t.sample_index) for g in batch.groups for t in g.tasks)
    assert {request_id for request_id, _, _ in held} >= asked
    assert max(held.values()) == 1


def _audit_callbacks(asker: Asker, running: Running) -> None:
    wanted = {r.request_id for r in asker.results() if r.status.terminal and r.callback}

    def recorded() -> bool:
        return wanted <= {d.request_id for d in asker.of(Delivery) if d.state is DeliveryState.DELIVERED}

    asker.until(recorded, "every callback to be recorded as delivered")
    assert all(running.receiver.verified(request_id, "done") for request_id in wanted)
    ids = {(d.request_id, d.revision): d.delivery_id for d in asker.of(Delivery)}
    assert len({d.delivery_id for d in asker.of(Delivery)}) == len(ids)
