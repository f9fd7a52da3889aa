"""The whole way of a request, through real agents and a real Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from pipeline.events import (
    CachePolicy,
    Callback,
    Delivery,
    DeliveryState,
    InferenceRequest,
    Mode,
    Opened,
    Result,
    Sample,
    Status,
)
from pipeline.ids import new_request_id
from pipeline.telemetry import now_ms
from pipeline.topics import RESULTS, SAMPLES, shard_of
from tests.integration.asker import Asker
from tests.integration.running import Running

pytestmark = pytest.mark.integration
ROOT = Path(__file__).resolve().parents[2]


def test_every_mode_and_priority_ends_with_one_result(asker: Asker) -> None:
    asked = {
        asker.ask(f"question {mode} {priority}: answers=7,7,7,7,8", mode=mode, priority=priority): mode
        for mode in Mode
        for priority in range(6)
    }
    finals = asker.finals(asked)
    for request_id, mode in asked.items():
        result = finals[request_id]
        assert (result.status, result.answer) == (Status.DONE, "7")
        assert result.revision == (1 if mode is Mode.DEEP else 0)
        assert result.votes[0].answer == "7"
        assert {chain.sample_index for chain in result.reasoning} >= set(result.votes[0].samples)
    results = Counter((r.request_id, r.run, r.revision) for r in asker.results())
    samples = Counter((s.request_id, s.run, s.sample_index) for s in asker.of(Sample))
    assert max(results.values()) == 1
    assert max(samples.values()) == 1


def test_deep_gives_a_first_answer_and_then_the_vote(asker: Asker) -> None:
    """The first sample is drawn in a better lane; where it comes first, it is published at once."""
    request_id = asker.ask("answers=8,7,7,7,7", mode=Mode.DEEP, priority=3)
    final = asker.finals([request_id])[request_id]
    assert (final.answer, final.revision) == ("7", 1)
    for early in (r for r in asker.results() if r.request_id == request_id and not r.status.terminal):
        assert (early.status, early.revision, early.answer) == (Status.FIRST_ANSWER, 0, "8")


def test_a_request_keeps_its_shard_all_the_way(asker: Asker) -> None:
    asked = [asker.ask(priority=2) for _ in range(8)]
    asker.finals(asked)
    for topic, partition, event in asker.events:
        if topic in (SAMPLES, RESULTS) and isinstance(event, Opened | Sample | Result):
            assert partition == shard_of(event.request_id, asker.settings.shards)
    assert {shard_of(request_id, 2) for request_id in asked} <= {0, 1}


def test_the_same_request_twice_is_the_same_request(asker: Asker) -> None:
    request = InferenceRequest(new_request_id(now_ms()), "answers=5")
    asker.put(request)
    asker.put(request)
    after = asker.ask("answers=6", priority=request.priority)
    asker.finals([request.request_id, after])
    asker.put(request)
    asker.finals([asker.ask("answers=6", priority=request.priority)])
    assert Counter(r.request_id for r in asker.results())[request.request_id] == 1
    seen = Counter((s.request_id, s.sample_index) for s in asker.of(Sample))
    assert max(seen.values()) == 1


def test_a_question_that_was_answered_is_answered_from_memory_if_that_is_allowed(asker: Asker) -> None:
    question, allowed = "answers=5 and a question of its own", {"mode": Mode.FAST, "cache": CachePolicy.ALLOW}
    drawn = asker.ask(question, **allowed)
    assert asker.finals([drawn])[drawn].usage.cached_samples == 0
    asked = [asker.ask(question, **allowed), asker.ask(question, mode=Mode.FAST)]
    told, fresh = (asker.finals(asked)[name] for name in asked)
    assert (told.answer, told.usage.cached_samples, told.usage.completion_tokens) == ("5", 1, 0)
    assert "from the answer cache" in told.why
    assert (fresh.answer, fresh.usage.cached_samples) == ("5", 0) and fresh.usage.completion_tokens > 0


def test_callbacks_are_signed_and_recorded(asker: Asker, running: Running) -> None:
    asked = [
        asker.ask(
            f"求 {n} 元的 50% 🙂 answers={n}",
            mode=Mode.DEEP,
            callback=Callback(running.receiver.url, events=("first_answer", "done")),
        )
        for n in range(5)
    ]
    finals = asker.finals(asked)

    def recorded() -> bool:
        states = {(d.request_id, d.event): d.state for d in asker.of(Delivery)}
        wanted = {(r.request_id, "done" if r.status.terminal else "first_answer") for r in asker.results()}
        return all(states.get(each) is DeliveryState.DELIVERED for each in wanted if each[0] in finals)

    asker.until(recorded, "every delivery to be recorded as delivered")
    assert all(running.receiver.verified(request_id, "done") for request_id in asked)
    assert running.receiver.counts()[2] == 0
    deliveries = {(d.request_id, d.event): d.delivery_id for d in asker.of(Delivery)}
    assert len(set(deliveries.values())) == len(deliveries)


def test_a_forbidden_callback_fails_for_good_and_alone(asker: Asker) -> None:
    bad = asker.ask("answers=1", mode=Mode.FAST, callback=Callback("http://user:pw@127.0.0.1/x"))
    asker.finals([bad])

    def refused() -> bool:
        return any(
            d.request_id == bad
            and d.state is DeliveryState.FAILED
            and d.error
            and d.error.code == "forbidden_url"
            for d in asker.of(Delivery)
        )

    asker.until(refused, "the delivery to be refused")


def test_a_deadline_that_has_passed_ends_the_request(asker: Asker) -> None:
    late = asker.ask("answers=1", created_at=now_ms() - 60_000, deadline_ms=1_000)
    result = asker.finals([late])[late]
    assert result.status is Status.FAILED
    assert result.error is not None
    assert result.error.code == "deadline_exceeded"


def test_a_clock_of_the_far_future_moves_nothing(asker: Asker) -> None:
    future = asker.ask("answers=1", created_at=4_070_908_800_000)
    usual = asker.ask("answers=2")
    results = asker.finals([future, usual])
    assert {r.status for r in results.values()} == {Status.DONE}
    assert results[future].timings.created_at <= now_ms() + 60_000


def test_an_upstream_needs_nothing_of_this_project(asker: Asker) -> None:
    """The example of the README, run as another system would run it."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "produce_request.py")],
        env={
            "PATH": os.environ["PATH"],
            "TALLYSTREAM_BOOTSTRAP": asker.settings.bootstrap,
            "TALLYSTREAM_SHARDS": str(asker.settings.shards),
        },
        cwd=ROOT / "examples",
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    request_id = done.stdout.split()[-1]
    assert asker.finals([request_id])[request_id].status is Status.DONE


def test_the_readme_shows_the_example_that_is_tested() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    block = (
        readme.partition("<!-- examples/produce_request.py -->")[2]
        .partition("```python\n")[2]
        .partition("```")[0]
    )
    assert block == (ROOT / "examples" / "produce_request.py").read_text("utf-8")
