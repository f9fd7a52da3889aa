"""One result, its vote taken again from the samples that it counted. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pipeline.events import ErrorInfo, Opened, Result, Role, Sample, Status
from pipeline.fusion import Verdict, VotePolicy, vote
from pipeline.fusion.clarify import clarifying_question
from pipeline.language import Language
from pipeline.scheduling.states import revised


@dataclass(frozen=True, slots=True)
class Recast:
    """A result as it stands, and as another policy makes it of the same samples.

    Attributes:
        now: the same revision, unless it ``changed``: then the next one.
        why: one line; empty when nothing changed.
    """

    published: Result
    now: Result
    why: str = ""

    @property
    def changed(self) -> bool:
        """Whether another answer or another state came out; a shift of scores alone is none."""
        return bool(self.why)

    @property
    def rescored(self) -> bool:
        """Whether the answer stayed and its confidence did not."""
        return not self.changed and self.now.confidence != self.published.confidence


def counted(result: Result, samples: Mapping[int, Sample]) -> tuple[Sample, ...] | None:
    """The samples that a result was made of; ``None`` when one is gone.

    Samples that came after it are left out: it would have been another vote.
    """
    indices = [chain.sample_index for chain in result.reasoning]
    if any(index not in samples for index in indices):
        return None
    return tuple(samples[index] for index in indices)


def recast(opened: Opened, result: Result, samples: Sequence[Sample], policy: VotePolicy) -> Recast:
    """Vote again. Time, tokens and metadata stay those of the result: nothing was drawn again.

    Args:
        samples: as ``counted`` gives them.
    """
    if opened.error is not None:
        return Recast(result, result)
    verdict = vote(samples, policy)
    status, error = _state(opened, result, samples, verdict)
    status = revised(result.status, status)
    asks = status is Status.NEEDS_CLARIFICATION
    made = replace(
        result,
        status=status,
        answer=None if asks else verdict.answer,
        chosen_sample=None if asks else verdict.chosen_sample,
        confidence=verdict.confidence,
        votes=verdict.votes,
        reasoning=verdict.reasoning,
        clarifying_question=clarifying_question(verdict.votes, Language(opened.language)) if asks else None,
        error=error,
        why=verdict.why,
    )
    if (made.status, made.answer) == (result.status, result.answer):
        return Recast(result, made)
    return Recast(result, replace(made, revision=result.revision + 1), _why(result, made))


def _state(
    opened: Opened, result: Result, samples: Sequence[Sample], verdict: Verdict
) -> tuple[Status, ErrorInfo | None]:
    if verdict.answer is None:
        none = ErrorInfo("no_answer", f"none of {len(samples)} samples holds an answer")
        return Status.FAILED, result.error or none
    if not verdict.clear:
        return Status.NEEDS_CLARIFICATION, None
    answers = sum(sample.role is not Role.REVIEW for sample in samples)
    late = answers < opened.expected and result.timings.finished_at >= opened.deadline_at
    return Status.PARTIAL_DONE if late else Status.DONE, None


def _why(before: Result, after: Result) -> str:
    parts: list[str] = []
    if before.status is not after.status:
        parts.append(f"{before.status.value} → {after.status.value}")
    if after.votes:
        leader = after.votes[0]
        parts.append(f"{leader.count} of {sum(v.count for v in after.votes)} votes, score {leader.score:.3f}")
        old = next((vote for vote in after.votes if vote.answer == before.answer), None)
        if old is not None and old is not leader:
            parts.append(f"the old answer now has {old.count} votes, score {old.score:.3f}")
    return "; ".join(parts) or "another answer"
