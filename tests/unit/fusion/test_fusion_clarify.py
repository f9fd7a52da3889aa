from __future__ import annotations

import pytest
from fusion_samples import samples

from pipeline.events import Kind, Mode, Vote
from pipeline.fusion import Calibration, VoteOptions, VotePolicy, vote
from pipeline.fusion.clarify import LONGEST_NAMED, clarifying_question
from pipeline.language import Language

FLOORS = VoteOptions(min_share=0.4)


def votes(*answers: str) -> tuple[Vote, ...]:
    return tuple(Vote(answer, 1, 0.5, 0.5, (index,)) for index, answer in enumerate(answers))


def test_the_question_names_what_the_candidates_differ_in() -> None:
    assert clarifying_question(votes("12", "14", "9"), Language.ENGLISH) == (
        "The question can be read in different ways: is the answer 12, 14 or 9? Can you say more exactly what is asked?"
    )
    assert "答案是12、14还是9？" in clarifying_question(votes("12", "14", "9"), Language.CHINESE)
    assert "not sure enough" in clarifying_question(votes("12"), Language.ENGLISH)
    assert "12" in clarifying_question(votes("12"), Language.CHINESE)
    assert "(3 more differ as well)" in clarifying_question(votes(*"1234567"), Language.ENGLISH)


def test_long_candidates_are_shown_where_they_differ() -> None:
    same = "a" * 5_000
    question = clarifying_question(votes(f"{same} cat", f"{same} dog"), Language.ENGLISH)
    assert "cat" in question and "dog" in question
    assert len(question) < 4 * LONGEST_NAMED


@pytest.mark.parametrize(
    ("texts", "clear"),
    [
        (["1", "1", "2"], True),
        (["1", "2", "3"], False),
        (["1", "2"], True),
        (["1"], True),
        (["1", "", ""], True),
        (["1", "1", "2", "3", "4"], True),
        (["1", "2", "3", "4", "5"], False),
    ],
)
@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.DEEP])
def test_who_is_asked_back(texts: list[str], clear: bool, mode: Mode) -> None:
    assert vote(samples(texts), VotePolicy.for_mode(mode, Kind.ANSWER, FLOORS)).clear is clear


@pytest.mark.parametrize("kind", [Kind.OPEN, Kind.CODE])
def test_texts_and_programs_are_never_asked_back_about(kind: Kind) -> None:
    assert vote(samples(["a b", "c d", "e f"]), VotePolicy.for_mode(Mode.STANDARD, kind, FLOORS)).clear


def test_a_floor_of_confidence_holds_for_calibrated_confidence_alone() -> None:
    doubt = Calibration(((0.0, 0.1), (1.0, 0.2)))
    for calibration, clear in ((None, True), (doubt, False)):
        options = VoteOptions(min_confidence=0.5, calibration=calibration)
        assert (
            vote(samples(["1", "1"]), VotePolicy.for_mode(Mode.STANDARD, Kind.ANSWER, options)).clear is clear
        )
