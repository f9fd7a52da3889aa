"""What ``tallystream explain`` shows of a result, and what it leaves out when a result does not carry it."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console
from window_events import opened, publish, sample, window_of

from pipeline.commands.explain_view import explanation
from pipeline.events import ErrorInfo, Result, Status, Sureness


def shown(result: Result, *, full: bool = False) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(explanation(result, full=full))
    return console.file.getvalue()  # type: ignore[attr-defined]


def voted() -> Result:
    drawn = [sample(0, "7"), sample(1, "8"), sample(2, "7"), sample(3, None)]
    (result,) = publish(window_of(opened(4), drawn), 5_000)
    return result


def line_with(text: str, part: str) -> str:
    return next(line for line in text.splitlines() if part in line)


def test_the_verdict_the_groups_the_chains_and_the_time() -> None:
    text = shown(voted())
    assert "done  q" in text
    assert line_with(text, "1.  7").split()[2:4] == ["2", "67%"]
    assert line_with(text, "2.  8").rstrip().endswith("#1")
    assert "group 2" in line_with(text, "#1  direct")
    assert line_with(text, "#0  direct").startswith("→")
    assert "broken_3" in text
    assert "until the result" in text
    assert "4.100 s" in line_with(text, "in all")
    assert "3 of 4 samples voted" in text


def test_parts_of_a_confidence_that_say_nothing_are_left_out() -> None:
    result = voted()
    first = result.reasoning[0]
    told = Sureness(0.8, 0.6, steps_right=2, steps_wrong=1, contradictions=0, derivations=1, worth=0.25)
    with_parts = replace(result, reasoning=(replace(first, sureness=told), *result.reasoning[1:]))
    line = line_with(shown(with_parts), "steps: 2 right, 1 wrong")
    assert "0.25 of a vote" in line
    assert "contradiction" not in line
    without = replace(result, reasoning=(replace(first, sureness=None),), why="")
    assert "steps:" not in shown(without)


def test_no_votes_no_samples_and_an_error() -> None:
    (refused,) = publish(window_of(opened(0, error=ErrorInfo("invalid_request", "prompt is empty"))), 5_000)
    text = shown(refused)
    assert "invalid_request: prompt is empty" in text
    assert "groups" not in text
    assert "chains" not in text


def test_a_question_back_stands_where_the_answer_would() -> None:
    result = replace(
        voted(), status=Status.NEEDS_CLARIFICATION, answer=None, clarifying_question="Which one?"
    )
    assert "Which one?" in shown(result)


def test_a_long_chain_is_cut_unless_all_is_asked_for_and_moves_no_cursor() -> None:
    long = "\n".join(["\x1b[31mred", *map(str, range(40))])
    result = voted()
    result = replace(result, reasoning=(replace(result.reasoning[0], text=long),))
    assert "… 29 more lines (--full)" in shown(result)
    assert "\x1b" not in shown(result)
    assert " 39" in shown(result, full=True)
