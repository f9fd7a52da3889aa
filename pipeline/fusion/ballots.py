"""From samples to ballots: which sample votes, for what, and how sure it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.events import FinishReason, Kind, Role, Sample
from pipeline.fusion.canonical import canonical
from pipeline.fusion.code import extract_code
from pipeline.fusion.confidence import Confidence, estimate_confidence, token_probability
from pipeline.fusion.extract import extract_answer
from pipeline.fusion.forms import Canonical
from pipeline.fusion.policy import Measure


@dataclass(frozen=True, slots=True)
class Ballot:
    """One sample as the vote sees it.

    Attributes:
        answer: ``None`` when it abstains or may not vote.
        form: what the answer is compared by; ``None`` with the answer.
        sureness: its confidence and what that is made of.
        note: why it does not vote; empty when it does.
        abstains: it could have voted but holds no answer.
    """

    sample: Sample
    answer: str | None
    form: Canonical | None
    sureness: Confidence
    note: str = ""
    abstains: bool = False

    @property
    def confidence(self) -> float:
        """In [0, 1]."""
        return self.sureness.value


def cast(samples: Sequence[Sample], kind: Kind, measure: Measure = Measure.LOGPROB) -> tuple[Ballot, ...]:
    """One ballot a sample index, in order of index, whatever the order of arrival."""
    ordered = sorted(samples, key=_precedence)
    unique: dict[tuple[bool, int], Sample] = {}
    for sample in ordered:
        unique.setdefault((sample.role is Role.REVIEW, sample.sample_index), sample)
    return tuple(_ballot(sample, kind, measure) for sample in unique.values())


def _precedence(sample: Sample) -> tuple[object, ...]:
    # Of several records of one index the usable one counts, then the earliest, then the lesser text:
    # a rule of contents alone, so that a redelivery can't change the verdict.
    return (
        sample.sample_index,
        sample.role is Role.REVIEW,
        sample.error is not None,
        sample.finish_reason.value in (FinishReason.ERROR, FinishReason.CANCELLED),
        sample.timings.finished_at,
        sample.text,
        sample.finish_reason.value,
        # As the vote reads it: not a number has no order.
        token_probability(sample.mean_logprob),
        sample.completion_tokens,
        sample.worker,
        sample.path,
        sample.role.value,
    )


def _ballot(sample: Sample, kind: Kind, measure: Measure) -> Ballot:
    tokens = token_probability(sample.mean_logprob)
    confidence = Confidence(tokens, tokens)
    if sample.role is Role.REVIEW:
        return Ballot(sample, None, None, confidence, "review: judges, does not vote")
    if sample.error is not None:
        return Ballot(sample, None, None, confidence, f"failed: {sample.error.code}")
    if sample.finish_reason is FinishReason.ERROR:
        return Ballot(sample, None, None, confidence, "failed: error")
    if sample.finish_reason is FinishReason.CANCELLED:
        return Ballot(sample, None, None, confidence, "cancelled before its end")
    answer = answer_of(sample, kind)
    form = None if answer is None else canonical(answer)
    if answer is None or form is None or not form.key:
        return Ballot(sample, None, None, confidence, _why_silent(sample), abstains=True)
    # Only an answer is checked against its arithmetic: the sums in a program or an essay are not its reasons.
    if measure is Measure.ESTIMATED and kind is Kind.ANSWER:
        confidence = estimate_confidence(sample.text, answer, sample.mean_logprob, sample.finish_reason)
    return Ballot(sample, answer, form, confidence)


def answer_of(sample: Sample, kind: Kind) -> str | None:
    """What a sample answers, found as its kind of question asks."""
    return _answer(sample.text, sample.finish_reason, kind)


# A vote reads all samples again each time one more arrives.
@lru_cache(maxsize=1024)
def _answer(text: str, finish_reason: FinishReason, kind: Kind) -> str | None:
    if kind is Kind.OPEN:
        return text.strip() or None
    if kind is Kind.CODE:
        return extract_code(text, finish_reason)
    return extract_answer(text, finish_reason)


def _why_silent(sample: Sample) -> str:
    if sample.finish_reason in (FinishReason.LENGTH, FinishReason.TIMEOUT):
        return "abstains: cut before an answer"
    if not sample.text.strip():
        return "abstains: empty"
    return "abstains: no answer found"
