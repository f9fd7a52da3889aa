"""What a setting can choose about votes; apart from ``fusion``, which is long to load and which few processes need."""

from __future__ import annotations

from enum import StrEnum


class Measure(StrEnum):
    """How the confidence of one sample is found.

    ``logprob`` takes the probability of its tokens. ``estimated`` adds what its text shows (``confidence``), and
    counts repeats of one text for what they add (``collapse``).
    """

    LOGPROB = "logprob"
    ESTIMATED = "estimated"


class EarlyStop(StrEnum):
    """When a vote ends before all its samples are drawn.

    ``lossless``: the missing samples can not change the answer. ``beta``: the leader's lead is sure enough
    (Adaptive-Consistency, arXiv 2305.11860). ``esc``: one window of samples says the same (ESC, arXiv 2401.10480).
    """

    LOSSLESS = "lossless"
    BETA = "beta"
    ESC = "esc"
