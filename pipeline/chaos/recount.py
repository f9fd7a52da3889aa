"""The vote once more, for texts that say "The answer is N": written from the documented rule, not from the code.

A failed sample does not vote; one without an answer abstains. Equal numbers form a group, whose score is its
share of the votes in mode ``fast``, else 0.7 of the share and 0.3 of the mean confidence. Level scores: more
votes, then higher mean confidence, then the lowest sample index.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.events import FinishReason, Mode, Result, Sample

_ANSWER = re.compile(r"The answer is (\d+)")
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Group:
    """Samples with one answer."""

    answer: str
    samples: tuple[int, ...]
    confidence: float
    score: float


@dataclass(frozen=True, slots=True)
class Recount:
    """What the vote should say; ``groups`` best first."""

    groups: tuple[Group, ...]
    chosen: int | None
    confidence: float | None


def recount(samples: Sequence[Sample], mode: Mode) -> Recount:
    """Vote; every sample index may stand there once."""
    answers: dict[int, tuple[str, float]] = {}
    abstained = 0
    for sample in samples:
        if sample.error is not None or sample.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            continue
        said = _ANSWER.fullmatch(sample.text.strip())
        if said is None:
            abstained += 1
            continue
        sureness = 0.5 if sample.mean_logprob is None else math.exp(min(0.0, sample.mean_logprob))
        answers[sample.sample_index] = (said[1], sureness)
    if not answers:
        return Recount((), None, None)
    groups = [_group(answer, answers, mode) for answer in {answer for answer, _ in answers.values()}]
    groups.sort(
        key=lambda g: (-round(g.score, 12), -len(g.samples), -round(g.confidence, 12), min(g.samples))
    )
    best = groups[0]
    chosen = min(best.samples, key=lambda index: (-answers[index][1], index))
    share = len(best.samples) / (len(answers) + abstained)
    return Recount(tuple(groups), chosen, 0.7 * share + 0.3 * best.confidence)


def disagreement(result: Result, samples: Sequence[Sample]) -> str:
    """How a published result differs from the vote of the samples that it names; empty when it does not."""
    told = recount(samples, result.mode)
    if result.answer != (told.groups[0].answer if told.groups else None):
        return "the answer is not the vote's"
    if result.chosen_sample != told.chosen:
        return "the chosen sample is not the surest one"
    if not _close(result.confidence, told.confidence):
        return "the confidence is not the vote's"
    published = [(vote.answer, vote.samples) for vote in result.votes]
    if published != [(group.answer, group.samples) for group in told.groups]:
        return "the groups are not the vote's"
    scores = zip(result.votes, told.groups, strict=True)
    if not all(
        _close(vote.score, group.score) and vote.count == len(group.samples) for vote, group in scores
    ):
        return "a score is not the vote's"
    return ""


def _group(answer: str, answers: dict[int, tuple[str, float]], mode: Mode) -> Group:
    members = tuple(sorted(index for index, (said, _) in answers.items() if said == answer))
    confidence = math.fsum(answers[index][1] for index in members) / len(members)
    share = len(members) / len(answers)
    score = share if mode is Mode.FAST else 0.7 * share + 0.3 * confidence
    return Group(answer, members, confidence, score)


def _close(left: float | None, right: float | None) -> bool:
    return left == right or (left is not None and right is not None and abs(left - right) < _CLOSE)
