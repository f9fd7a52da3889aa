"""Reviews, questions back and programs, through real agents and a real Kafka."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from pipeline.events import (
    Control,
    ControlAction,
    Kind,
    Mode,
    Outcome,
    Role,
    Sample,
    SamplingOverrides,
    Status,
)
from pipeline.fusion.review import Pair
from pipeline.telemetry import now_ms
from pipeline.topics import CONTROL, DEAD_LETTERS, RESULTS, SAMPLES
from tests.integration.asker import Asker
from tests.integration.running import Running
from tests.integration.sandbox_ways import needs_sandbox

pytestmark = pytest.mark.integration

PROGRAMS = [
    "```python\ndef double(x):\n    return x * x\n```",
    "```python\ndef double(x):\n    return x + x\n```",
    "```python\ndef double(n):\n    return n * n\n```",
]


def test_two_answers_that_are_level_are_judged_in_both_orders(asker: Asker) -> None:
    """Samples 0 to 3 answer; 4 sees the leader first and prefers the other, 5 sees them the other way round."""
    request_id = asker.ask("answers=7,7,8,8,B,A", mode=Mode.DEEP, sampling=SamplingOverrides(n=4))
    result = asker.finals([request_id])[request_id]

    def reviews_of() -> dict[int, Sample]:
        mine = (s for s in asker.of(Sample) if (s.request_id, s.role) == (request_id, Role.REVIEW))
        return {s.sample_index: s for s in mine}

    asker.until(lambda: len(reviews_of()) == 2, "both reviews")  # another topic, perhaps read later
    reviews = reviews_of()
    shown, swapped = (Pair.of(reviews[index].path) for index in (4, 5))
    assert shown is not None and swapped == Pair(shown.b, shown.a)
    assert (result.status, result.chosen_sample, result.revision) == (Status.DONE, shown.b, 1)
    assert result.answer == {0: "7", 1: "7", 2: "8", 3: "8"}[shown.b]
    assert [vote.review for vote in result.votes] == [1.0, 0.0]
    assert [chain.outcome for chain in result.reasoning][4:] == [Outcome.REVIEW] * 2
    assert result.usage.samples_expected == 4
    seen = Counter((s.request_id, s.sample_index) for s in asker.of(Sample))
    assert max(seen.values()) == 1


def test_a_review_that_names_neither_leaves_the_vote(asker: Asker) -> None:
    request_id = asker.ask("answers=7,7,8,8,9,9", mode=Mode.DEEP, sampling=SamplingOverrides(n=4))
    result = asker.finals([request_id])[request_id]
    assert (result.status, len(result.reasoning)) == (Status.DONE, 6)
    assert result.answer in ("7", "8") and result.votes[0].review is None


def test_answers_that_all_differ_are_asked_back_about(asker: Asker) -> None:
    english, chinese = asker.ask("answers=1,2,3"), asker.ask("请回答这个问题 answers=1,2,3")
    results = asker.finals([english, chinese])
    for request_id, words in ((english, "is the answer"), (chinese, "答案是")):
        result = results[request_id]
        assert (result.status, result.answer, result.chosen_sample) == (
            Status.NEEDS_CLARIFICATION,
            None,
            None,
        )
        question = result.clarifying_question or ""
        assert words in question and all(answer in question for answer in "123")
        assert {chain.group for chain in result.reasoning} == {0, 1, 2}


@needs_sandbox
def test_the_program_that_passes_wins_against_two_that_agree(asker: Asker) -> None:
    request_id = asker.ask(
        "Write double. " + json.dumps({"answers": PROGRAMS}),
        kind=Kind.CODE,
        tests="assert double(3) == 6\nassert double(0) == 0",
    )
    result = asker.finals([request_id])[request_id]
    assert (result.status, result.chosen_sample) == (Status.DONE, 1)
    assert result.answer == "def double(x):\n    return x + x"
    assert [vote.samples for vote in result.votes] == [(1,), (0, 2)]
    assert result.why.startswith("passes 2 of 2 tests")
    assert "passed 1 of 2 tests" in result.reasoning[0].note


def test_a_closed_window_tells_the_workers_to_stop(running: Running) -> None:
    with Asker(running.settings, follow=(CONTROL, SAMPLES, RESULTS, DEAD_LETTERS)) as asker:
        late = asker.ask("answers=1", created_at=now_ms() - 60_000, deadline_ms=1_000)
        asker.until(
            lambda: any(c.request_id == late for c in asker.of(Control)), "the word that it is decided"
        )
        (word,) = (c for c in asker.of(Control) if c.request_id == late)
        assert word.action is ControlAction.DECIDED
