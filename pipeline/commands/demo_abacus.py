"""The demo's second act: sums that a tiny model gets wrong now and then, one sample against the vote of many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipeline.abacus.problems import NOISE, Problem, draw_problem
from pipeline.commands.show import one_line
from pipeline.events import Event, InferenceRequest, Mode, Result, SamplingOverrides
from pipeline.fusion import equivalent
from pipeline.ids import new_request_id

QUESTIONS: Final = 8
SAMPLES: Final = 15
_SEED: Final = 2
_LONGEST: Final = 64


@dataclass(slots=True)
class Pair:
    """One question, asked twice: many samples that vote, and one without chance (greedy)."""

    problem: Problem
    voting: InferenceRequest
    greedy: InferenceRequest
    voted: Result | None = None
    alone: Result | None = None


class AbacusBoard:
    """Asks, follows, and renders as the live table."""

    def __init__(self, now: int) -> None:
        random = Random(_SEED)
        self._pairs = [_pair(draw_problem(random), now) for _ in range(QUESTIONS)]

    @property
    def requests(self) -> list[InferenceRequest]:
        return [request for pair in self._pairs for request in (pair.greedy, pair.voting)]

    def note(self, topic: str, event: Event) -> Iterator[str]:
        """Take an event in; yields a line for those who watch without a terminal."""
        if not isinstance(event, Result) or not event.status.terminal:
            return
        for pair in self._pairs:
            if event.request_id == pair.greedy.request_id:
                pair.alone = event
            elif event.request_id == pair.voting.request_id:
                pair.voted = event
                yield f"{event.status.value:12}  {pair.problem.question}  →  {event.answer or '—'}"

    def complete(self) -> bool:
        return all(pair.voted is not None and pair.alone is not None for pair in self._pairs)

    def summary(self) -> dict[str, Any]:
        """Counts of right answers: of single samples, of the votes, and of greedy decoding."""
        chains = [_right_of(pair) for pair in self._pairs]
        return {
            "questions": len(self._pairs),
            "ended": sum(pair.voted is not None and pair.alone is not None for pair in self._pairs),
            "designed_noise": NOISE,
            "samples": sum(len(each) for each in chains),
            "samples_right": sum(sum(each) for each in chains),
            "votes_right": sum(_is_right(pair, pair.voted) for pair in self._pairs),
            "greedy_right": sum(_is_right(pair, pair.alone) for pair in self._pairs),
        }

    def verdict_line(self) -> str:
        found = self.summary()
        single = found["samples_right"] / found["samples"] if found["samples"] else 0.0
        return (
            f"right: {single:.0%} of {found['samples']} single samples, "
            f"{found['votes_right']} of {found['questions']} votes, "
            f"{found['greedy_right']} of {found['questions']} by greedy decoding"
        )

    def __rich__(self) -> Group:
        caption = (
            f"Abacus is a toy of 364,000 parameters. {NOISE:.0%} of the steps it was trained on are wrong on purpose, "
            "so that samples disagree: what the vote gains here is designed in. Greedy decoding takes the likeliest "
            "token each time and draws no mistake of that kind."
        )
        table = Table(pad_edge=False, box=None, header_style="bold")
        for name in ("question", "truth", "greedy", "samples say", "right", "the vote"):
            table.add_column(name, justify="right" if name in ("truth", "greedy", "right") else "left")
        for pair in self._pairs:
            right = _right_of(pair)
            table.add_row(
                pair.problem.question,
                str(pair.problem.answer),
                _answer(pair, pair.alone),
                _groups(pair.voted),
                f"{sum(right)}/{len(right)}" if right else "…",
                _answer(pair, pair.voted),
            )
        return Group(Text(caption, style="dim"), table)


def _pair(problem: Problem, now: int) -> Pair:
    def request(n: int, temperature: float) -> InferenceRequest:
        return InferenceRequest(
            request_id=new_request_id(now),
            prompt=problem.question,
            created_at=now,
            tenant="demo",
            mode=Mode.FAST if n == 1 else Mode.STANDARD,
            sampling=SamplingOverrides(n=n, temperature=temperature, max_new_tokens=_LONGEST, seed=7),
        )

    return Pair(problem, request(SAMPLES, 1.0), request(1, 0.0))


def _right_of(pair: Pair) -> list[bool]:
    """Of each sample that was drawn before the vote was decided, whether it is right."""
    if pair.voted is None:
        return []
    truth = str(pair.problem.answer)
    return [chain.answer is not None and equivalent(chain.answer, truth) for chain in pair.voted.reasoning]


def _is_right(pair: Pair, result: Result | None) -> bool:
    answer = None if result is None else result.answer
    return answer is not None and equivalent(answer, str(pair.problem.answer))


def _groups(result: Result | None) -> str:
    if result is None:
        return "…"
    return one_line("  ".join(f"{vote.count}× {vote.answer}" for vote in result.votes), 44)


def _answer(pair: Pair, result: Result | None) -> Text:
    if result is None:
        return Text("…", style="dim")
    right = _is_right(pair, result)
    text = result.answer if result.answer is not None else result.status.value
    return Text(f"{one_line(text, 20)} {'✓' if right else '✗'}", style="green" if right else "red")
