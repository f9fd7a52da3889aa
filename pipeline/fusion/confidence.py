"""How sure one sample is, from what it says: its tokens, its arithmetic, its own agreement with itself.

Every part is a probability, and one half says nothing. They are combined by adding their log-odds, the rule for
independent evidence from even odds (I. J. Good, Probability and the Weighing of Evidence, 1950): monotone in
every part, never outside [0, 1], and equal to the tokens' probability when nothing else is known. The parts are
not independent in truth, so the outcome ranks samples; what it is worth as a probability is for calibration.

| part | from | one half when |
|---|---|---|
| tokens | exp(mean log-probability), the geometric mean probability of a token | the engine gave none |
| steps | (right + 1) / (right + wrong + 2), Laplace's rule of succession | no step can be checked |
| consistency | one fifth for each contradiction: a second final answer, steps that lead elsewhere | there is none |
| derivations | 1 - 1/2^d of d different computations with the final value: each further one halves the doubt | d < 2 |
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pipeline.fusion.canonical import canonical
from pipeline.fusion.extract import final_statements
from pipeline.fusion.forms import Canonical, number_key
from pipeline.fusion.steps import Step, computation_steps

NEUTRAL = 0.5
CONTRADICTED = 0.2
"""Of one contradiction: odds of four to one against; two of them sixteen to one."""
FURTHEST = 0.99
"""No part speaks with more than 99 to 1, so that no part outvotes all the others."""
MOST_DERIVATIONS = 4


@dataclass(frozen=True, slots=True)
class Confidence:
    """How sure a sample is, and why.

    Attributes:
        value: all parts together, in [0, 1].
        tokens, steps, consistency, derivations: each in (0, 1); 0.5 says nothing.
        right, wrong: how many computation steps hold and do not.
        contradictions: how many ways the text contradicts its own final answer.
        ways: different computations that end in the final answer.
    """

    value: float
    tokens: float = NEUTRAL
    steps: float = NEUTRAL
    consistency: float = NEUTRAL
    derivations: float = NEUTRAL
    right: int = 0
    wrong: int = 0
    contradictions: int = 0
    ways: int = 0

    def __str__(self) -> str:
        told = [f"tokens {self.tokens:.2f}"]
        if self.right or self.wrong:
            told.append(f"steps {self.right}/{self.right + self.wrong} right")
        if self.ways > 1:
            told.append(f"{self.ways} derivations")
        if self.contradictions:
            told.append(f"contradicts itself {self.contradictions}×")
        return f"{self.value:.2f} ({', '.join(told)})"


def token_probability(mean_logprob: float | None) -> float:
    """The geometric mean probability of a token, exp(mean log-probability), in [0, 1]; one half if it is not known."""
    if mean_logprob is None or math.isnan(mean_logprob):
        return NEUTRAL
    return math.exp(min(0.0, mean_logprob))


def estimate_confidence(
    text: str, answer: str | None, mean_logprob: float | None, finish_reason: str = "stop"
) -> Confidence:
    """The confidence of a sample whose text gives ``answer``; without an answer only its tokens speak. Never raises."""
    tokens = token_probability(mean_logprob)
    found = _evidence(text, answer, str(finish_reason)) if answer is not None else _Evidence()
    steps = (found.right + 1) / (found.right + found.wrong + 2)
    consistency = pooled([CONTRADICTED] * found.contradictions)
    derivations = 1 - 0.5 ** min(max(1, found.ways), MOST_DERIVATIONS)
    spoken = [part for part in (steps, consistency, derivations) if part != NEUTRAL]
    return Confidence(
        value=pooled([tokens, *spoken]) if spoken else tokens,
        tokens=tokens,
        steps=steps,
        consistency=consistency,
        derivations=derivations,
        right=found.right,
        wrong=found.wrong,
        contradictions=found.contradictions,
        ways=found.ways,
    )


def pooled(parts: Sequence[float]) -> float:
    """Probabilities as one, by the sum of their log-odds; one half for none."""
    bounded = [min(FURTHEST, max(1 - FURTHEST, part)) for part in parts]
    return 1 / (1 + math.exp(-math.fsum(math.log(part / (1 - part)) for part in bounded)))


@dataclass(frozen=True, slots=True)
class _Evidence:
    right: int = 0
    wrong: int = 0
    contradictions: int = 0
    ways: int = 0


# A vote reads all samples again each time one more arrives.
@lru_cache(maxsize=1024)
def _evidence(text: str, answer: str, finish_reason: str) -> _Evidence:
    steps = computation_steps(text)
    final = canonical(answer)
    stated = {form.key for form in map(canonical, final_statements(text, finish_reason)) if form.key}
    right = {step.fingerprint for step in steps if step.holds}
    wrong = {step.fingerprint for step in steps if not step.holds}
    return _Evidence(
        right=len(right),
        wrong=len(wrong),
        contradictions=min(1, len(stated - {final.key})) + _leads_elsewhere(steps, final),
        ways=len({step.fingerprint for step in steps if step.holds and _is(step, final)}),
    )


def _leads_elsewhere(steps: Sequence[Step], final: Canonical) -> bool:
    """Whether the final answer is a number that stands in none of the steps, though there are some."""
    if not steps or not final.key.startswith(("n:", "q:")):
        return False
    return not any(_is(step, final) or final.key in step.mentioned for step in steps)


def _is(step: Step, final: Canonical) -> bool:
    # 25% may be meant by 0.25 and by 25.
    values = (step.value, step.result, step.result * 100, step.result / 100)
    return final.key in map(number_key, values if "%" in step.left + step.right else values[:2])
