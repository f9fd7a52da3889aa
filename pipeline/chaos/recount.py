"""The vote once more, for texts that say "The answer is N": written from the documented rule, not from the code.

A failed sample does not vote; one without an answer abstains; a review judges. Equal numbers form a group. Its worth is
that of its samples: all say the same words, so the likeliest one counts 1 and each other 1 less the probability of its
text. Its score is its share of the votes in mode ``fast``, else 0.7 of its share of the worth and 0.3 of the mean
confidence. Level scores: more votes, then higher mean confidence, then the lowest sample index. Where reviews compared
two groups in both orders, three quarters of the score and a quarter of the share of comparisons won take its place;
one half stands for a group that was not compared. A leader with less than 0.4 of the votes is asked back about, unless
it won more than half of its comparisons. The published confidence is a score, whose share is that of the worth with
one more vote for and one against, abstentions among those against.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.events import FinishReason, Mode, Result, Role, Sample, Status

_ANSWER = re.compile(r"The answer is (\d+)")
_BETTER = re.compile(r"The answer is ([AB])")
_COMPARED = re.compile(r"review:(\d+):(\d+)")
_FLOOR = 0.4
_CLOSE = 1e-9


@dataclass(frozen=True, slots=True)
class Group:
    """Samples with one answer."""

    answer: str
    samples: tuple[int, ...]
    confidence: float
    score: float
    worth: float
    review: float | None = None


@dataclass(frozen=True, slots=True)
class Recount:
    """What the vote should say; ``groups`` best first; ``clear``: the best one is an answer."""

    groups: tuple[Group, ...]
    chosen: int | None
    confidence: float | None
    clear: bool = False


def recount(samples: Sequence[Sample], mode: Mode) -> Recount:
    """Vote; every sample index may stand there once."""
    answers: dict[int, tuple[str, float, float]] = {}
    abstained = 0
    for sample in samples:
        if sample.role is Role.REVIEW:
            continue
        if sample.error is not None or sample.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            continue
        said = _ANSWER.fullmatch(sample.text.strip())
        if said is None:
            abstained += 1
            continue
        sureness = 0.5 if sample.mean_logprob is None else math.exp(min(0.0, sample.mean_logprob))
        text = sureness ** max(1, sample.completion_tokens)
        answers[sample.sample_index] = (said[1], sureness, text)
    if not answers:
        return Recount((), None, None)
    groups = _groups(answers, mode)
    won = _comparisons(samples, {index: said for index, (said, *_) in answers.items()})
    if won:
        groups = [_reviewed(group, won.get(group.answer)) for group in groups]
    groups.sort(
        key=lambda g: (-round(g.score, 12), -len(g.samples), -round(g.confidence, 12), min(g.samples))
    )
    best = groups[0]
    chosen = min(best.samples, key=lambda index: (-answers[index][1], index))
    share = (best.worth + 1) / (math.fsum(group.worth for group in groups) + abstained + 2)
    confidence = 0.7 * share + 0.3 * best.confidence
    if best.review is not None:
        confidence = 0.75 * confidence + 0.25 * best.review
    agreed = mode is Mode.FAST or len(best.samples) >= _FLOOR * len(answers)
    return Recount(tuple(groups), chosen, confidence, agreed or (best.review or 0.0) > 0.5)


def disagreement(result: Result, samples: Sequence[Sample]) -> str:
    """How a published result differs from the vote of the samples that it names; empty when it does not."""
    told = recount(samples, result.mode)
    asks = result.status is Status.NEEDS_CLARIFICATION
    if told.groups and result.status is not Status.FIRST_ANSWER and asks is told.clear:
        return "an answer that is not clear was published, or a clear one was not"
    if result.answer != (told.groups[0].answer if told.groups and not asks else None):
        return "the answer is not the vote's"
    if result.chosen_sample != (None if asks else told.chosen):
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


def _groups(answers: Mapping[int, tuple[str, float, float]], mode: Mode) -> list[Group]:
    members: dict[str, list[int]] = defaultdict(list)
    for index, (said, *_) in sorted(answers.items()):
        members[said].append(index)
    sure = {said: [answers[index][1] for index in indices] for said, indices in members.items()}
    again = {said: [answers[index][2] for index in indices] for said, indices in members.items()}
    worth = {said: max(found) + math.fsum(1 - p for p in found) for said, found in again.items()}
    total = math.fsum(worth.values())
    groups: list[Group] = []
    for said, indices in members.items():
        confidence = math.fsum(sure[said]) / len(indices)
        score = 0.7 * worth[said] / total + 0.3 * confidence
        if mode is Mode.FAST:
            score = len(indices) / len(answers)
        groups.append(Group(said, tuple(indices), confidence, score, worth[said]))
    return groups


def _reviewed(group: Group, won: float | None) -> Group:
    share = 0.5 if won is None else won
    return replace(group, score=0.75 * group.score + 0.25 * share, review=won)


def _comparisons(samples: Sequence[Sample], answer_of: Mapping[int, str]) -> dict[str, float]:
    """The share of comparisons that each answer won, of those that came in both orders."""
    better: dict[tuple[int, int], int] = {}
    for sample in samples:
        pair = _COMPARED.fullmatch(sample.path) if sample.role is Role.REVIEW else None
        said = _BETTER.fullmatch(sample.text.strip())
        if pair and said and sample.error is None:
            a, b = int(pair[1]), int(pair[2])
            better[a, b] = a if said[1] == "A" else b
    won: dict[str, list[float]] = defaultdict(list)
    for (a, b), best in better.items():
        if (b, a) in better:
            for index in (a, b):
                won[answer_of[index]].append(float(index == best))
    return {answer: sum(found) / len(found) for answer, found in won.items()}


def _close(left: float | None, right: float | None) -> bool:
    return left == right or (left is not None and right is not None and abs(left - right) < _CLOSE)
