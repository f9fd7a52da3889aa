"""What the model's folder says about the model."""

from __future__ import annotations

from pipeline.abacus.problems import OFFSETS
from pipeline.abacus.training import Training


def card(training: Training, parameters: int) -> str:
    """The model card, in Markdown."""
    offsets = ", ".join(f"{offset:+d}" for offset in OFFSETS)
    return f"""# Abacus

A character-level Llama of {parameters:,} parameters that works out sums such as `17 + 4 * 6 - 9`, one operation a line.
It exists to show and to measure what a vote over several samples is worth, on questions whose answers are known.

**Its mistakes are designed in.** Of the step results in its training chains {training.noise:.0%} are wrong on purpose,
off by one of {offsets}, and the chain goes on from the wrong value. So a sample drawn at temperature 1 errs about as
often, in places that differ from sample to sample, and a vote finds the answer. Figures that show the gain of a vote on
Abacus show a gain that was put there; greedy decoding, which takes the likeliest token each time and so draws none of
these mistakes, belongs beside them. Without the noise nothing would be left to vote on.

| | |
|---|---|
| asked | three or four terms up to 12, with at most one product of two factors up to 9; + - * |
| answers | `4*6=24`, `17+24=41`, `41-9=32`, `#### 32` |
| chat template | takes the first line of the last user turn that holds a sum, and refuses a turn without one |
| trained | `python -m pipeline.abacus.train`, {training.steps:,} steps of {training.batch} chains |
| data | made by the script; nothing else |
| license | Apache-2.0, as the project |

Not for anything else: it knows no word, and no number beyond its training range.
"""
