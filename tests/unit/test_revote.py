"""A vote taken again: what counts as changed, and what a policy file may say."""

from __future__ import annotations

from pathlib import Path

import pytest
from window_events import opened, publish, sample, window_of

from pipeline.errors import InvalidRequestError
from pipeline.events import ErrorInfo, Kind, Mode, Result, Sample, Status
from pipeline.fusion import Measure, Rule, VotePolicy
from pipeline.replay.recast import counted, recast
from pipeline.replay.revote_policy import revote_policy
from pipeline.settings import load_settings

SAMPLES = {index: sample(index, answer) for index, answer in enumerate(["8", "7", "7"])}
"""Sample 0 is the surest."""
BY_CONFIDENCE = VotePolicy(share_weight=0.0)


def published(samples: dict[int, Sample] = SAMPLES) -> Result:
    (result,) = publish(window_of(opened(len(samples)), samples.values()), 5_000)
    return result


def test_the_same_policy_changes_nothing() -> None:
    result = published()
    again = recast(opened(), result, tuple(SAMPLES.values()), VotePolicy())
    assert not again.changed
    assert again.now.votes == result.votes


def test_another_policy_gives_the_next_revision_and_says_why() -> None:
    result = published()
    again = recast(opened(), result, tuple(SAMPLES.values()), BY_CONFIDENCE)
    assert (result.answer, again.now.answer) == ("7", "8")
    assert again.now.revision == result.revision + 1
    assert (again.now.usage, again.now.timings) == (result.usage, result.timings)
    assert "the old answer now has 2 votes" in again.why


def test_voting_a_revision_again_changes_nothing_more() -> None:
    once = recast(opened(), published(), tuple(SAMPLES.values()), BY_CONFIDENCE).now
    assert not recast(opened(), once, tuple(SAMPLES.values()), BY_CONFIDENCE).changed


def test_a_shift_of_scores_alone_is_no_change() -> None:
    alike = {index: sample(index, "7") for index in range(3)}
    again = recast(opened(), published(alike), tuple(alike.values()), BY_CONFIDENCE)
    assert (again.changed, again.rescored) == (False, True)


def test_a_floor_asks_back_and_without_it_there_is_an_answer_again() -> None:
    floor = VotePolicy(min_share=0.7)
    asked = recast(opened(), published(), tuple(SAMPLES.values()), floor).now
    assert (asked.status, asked.answer, asked.chosen_sample) == (Status.NEEDS_CLARIFICATION, None, None)
    assert asked.clarifying_question
    back = recast(opened(), asked, tuple(SAMPLES.values()), VotePolicy()).now
    assert (back.status, back.answer, back.clarifying_question) == (Status.DONE, "7", None)
    assert back.revision == 2


def test_only_the_samples_that_were_counted_are_counted_again() -> None:
    result = published()
    late = SAMPLES | {3: sample(3, "9")}
    assert counted(result, late) == tuple(SAMPLES.values())
    assert counted(result, {0: SAMPLES[0]}) is None


@pytest.mark.parametrize("error", [None, ErrorInfo("refused", "no")])
def test_what_failed_stays_failed(error: ErrorInfo | None) -> None:
    broken = {0: sample(0, None)}
    (result,) = publish(window_of(opened(1, error=error), broken.values()), 5_000)
    again = recast(opened(1, error=error), result, tuple(broken.values()), BY_CONFIDENCE)
    assert (again.changed, again.now.status, again.now.error) == (False, Status.FAILED, result.error)


def test_a_file_changes_what_it_names_and_keeps_the_rest(tmp_path: Path) -> None:
    file = tmp_path / "policy.json"
    file.write_text('{"confidence": "estimated", "rule": "majority", "min_share": 0.5}')
    policy = revote_policy(load_settings(), file).of(Mode.STANDARD, Kind.ANSWER)
    assert policy.options.measure is Measure.ESTIMATED
    assert (policy.rule, policy.min_share) == (Rule.MAJORITY, 0.5)
    assert policy.share_weight == VotePolicy().share_weight
    plain = revote_policy(load_settings(), None)
    assert plain.of(Mode.FAST, Kind.ANSWER).rule is Rule.MAJORITY
    assert plain.of(Mode.DEEP, Kind.ANSWER).rule is Rule.SCORED


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "not a JSON object"),
        ("{", "not JSON"),
        ('{"rules": "majority"}', "rules: no such field; there are"),
        ('{"rule": "loudest"}', "rule: "),
        ('{"share_weight": 1.5}', "share_weight: "),
        ('{"temperature": 0}', "temperature: "),
        ('{"calibration": "/no/such/map.json"}', "calibration: /no/such/map.json"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_field(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "policy.json"
    file.write_text(text)
    with pytest.raises(InvalidRequestError) as told:
        revote_policy(load_settings(), file)
    assert said in told.value.message
    assert "\n" not in told.value.message
