"""The second act's board: single samples, the vote and greedy decoding are counted each for itself."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from window_events import opened, publish, sample, window_of

from pipeline.commands.demo_abacus import QUESTIONS, SAMPLES, AbacusBoard
from pipeline.events import Result
from pipeline.topics import RESULTS


def answered(request_id: str, answers: list[str]) -> Result:
    drawn = [sample(index, answer) for index, answer in enumerate(answers)]
    (result,) = publish(window_of(opened(len(answers)), drawn), 5_000)
    return replace(result, request_id=request_id)


def test_every_kind_of_answer_is_counted() -> None:
    board = AbacusBoard(1_000)
    assert len(board.requests) == 2 * QUESTIONS
    assert not board.complete()
    for pair in board._pairs:
        truth = str(pair.problem.answer)
        assert pair.voting.sampling.n == SAMPLES
        assert pair.greedy.sampling.temperature == 0
        voted = answered(pair.voting.request_id, [truth, "998", truth])
        assert list(board.note(RESULTS, voted))
        assert not list(board.note(RESULTS, answered(pair.greedy.request_id, ["999"])))
    assert board.complete()
    found = board.summary()
    assert (found["samples"], found["samples_right"]) == (3 * QUESTIONS, 2 * QUESTIONS)
    assert (found["votes_right"], found["greedy_right"]) == (QUESTIONS, 0)
    console = Console(file=io.StringIO(), width=140)
    console.print(board)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "designed in" in text
    assert "1× 998" in text
    assert "999 ✗" in text
    assert "67% of 24 single samples, 8 of 8 votes, 0 of 8 by greedy" in board.verdict_line()
