"""The review round: what is asked of a model about its own samples, and what it may cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.events import Message, Opened, Role, Sample, SampleTask, TaskGroup
from pipeline.fusion import Verdict, VotePolicy
from pipeline.fusion.review import Pair, pairs
from pipeline.language import Language
from pipeline.scheduling.prompt_paths import REVIEW, prompt_paths
from pipeline.tracing.spans import bounded

MOST_TOKENS = 256
"""Of one review: a few sentences and a line."""
FEWEST_TOKENS = 16
"""Of one review: the line alone. Where the budget gives less, fewer groups are compared."""
LONGEST_SHOWN = 1_500
"""Characters of an answer that a judge is shown: two of them and the question fit a context of 2,048 tokens."""
TEMPERATURE = 0.0
"""A judgement is not a draw: the likeliest one counts."""


@dataclass(frozen=True, slots=True)
class Round:
    """What is asked.

    Attributes:
        pairs: who is compared, in both orders.
        max_new_tokens: of each review.
        until: ms when the window no longer waits for them.
    """

    pairs: tuple[Pair, ...]
    max_new_tokens: int
    until: int


def plan_round(opened: Opened, verdict: Verdict, policy: VotePolicy, now: int) -> Round | None:
    """The round of a complete vote; ``None`` when its paths agree, or it can not be afforded.

    All but ``until`` follows from the samples, so whoever plans it again plans the same.
    """
    options, votes = policy.review, verdict.votes
    if options is None or not opened.question or len(votes) < 2 or now >= opened.deadline_at:
        return None
    if max(vote.count for vote in votes) >= options.agreement * sum(vote.count for vote in votes):
        return None
    budget = int(options.budget_share * opened.expected * opened.max_new_tokens)
    for candidates in range(min(options.candidates, len(votes)), 1, -1):
        asked = pairs(votes, verdict.reasoning, candidates)
        if (tokens := min(MOST_TOKENS, budget // len(asked))) >= FEWEST_TOKENS:
            time = round(options.deadline_share * (opened.deadline_at - opened.created_at))
            return Round(asked, tokens, min(opened.deadline_at, now + time))
    return None


def review_groups(plan: Round, opened: Opened, samples: Mapping[int, Sample]) -> tuple[TaskGroup, ...]:
    """The sample tasks of a round, one a pair; their indices go on where the answers' end."""
    language = Language(opened.language)
    return tuple(
        TaskGroup(
            request_id=opened.request_id,
            run=opened.run,
            tenant=opened.tenant,
            priority=opened.priority,
            mode=opened.mode,
            kind=opened.kind,
            path=pair.path,
            messages=(_question(opened.question, samples[pair.a], samples[pair.b], language),),
            temperature=TEMPERATURE,
            top_p=1.0,
            max_new_tokens=plan.max_new_tokens,
            created_at=opened.created_at,
            deadline_at=plan.until,
            tasks=(SampleTask(opened.expected + place, Role.REVIEW),),
            trace=bounded(opened.trace),
        )
        for place, pair in enumerate(plan.pairs)
    )


def _question(question: str, a: Sample, b: Sample, language: Language) -> Message:
    template = prompt_paths()[REVIEW].texts[language]
    return Message("user", template.format(question=question, a=_shown(a.text), b=_shown(b.text)))


def _shown(text: str) -> str:
    """The end of a long text is kept with its beginning: there the answer stands."""
    text = text.strip()
    if len(text) <= LONGEST_SHOWN:
        return text
    half = LONGEST_SHOWN // 2
    return f"{text[:half]}\n[…]\n{text[-half:]}"
