"""How samples of one request are turned into one answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeline.events import Kind, Mode
from pipeline.fusion.calibration import Calibration


class Rule(StrEnum):
    """What makes one group of equal answers better than another."""

    MAJORITY = "majority"
    WEIGHTED = "weighted"
    SCORED = "scored"


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


@dataclass(frozen=True, slots=True)
class VoteOptions:
    """What an operator sets for all votes; the rest follows from mode and kind.

    Attributes:
        calibration: from the score of an answer to how often such answers are right; ``None`` publishes the score.
    """

    measure: Measure = Measure.LOGPROB
    early_stop: EarlyStop = EarlyStop.LOSSLESS
    calibration: Calibration | None = None


@dataclass(frozen=True, slots=True)
class VotePolicy:
    """The rule of one vote.

    Attributes:
        kind: how answers are found in texts and compared.
        rule: ``majority`` counts; ``weighted`` adds each sample's softmax share of confidence
            (CISC, arXiv 2502.06233); ``scored`` is ``share_weight``·share + (1 - ``share_weight``)·mean confidence.
        min_share: the share of votes under which a leader is reported as no consensus; 0 is no floor.
        share_weight: what the share of votes weighs in the score; the rest is confidence.
        temperature: of the softmax over confidences; small lets the surest sample decide.
        stop_posterior: under ``beta``, the probability that the leader stays ahead at which a vote ends;
            at 0.99 the answer was that of the full vote in more than 998 of 1000 replayed votes of 40 samples.
        stop_window: under ``esc``, how many samples in a row must say the same.
        options: what an operator sets.
    """

    kind: Kind = Kind.ANSWER
    rule: Rule = Rule.SCORED
    min_share: float = 0.0
    share_weight: float = 0.7
    temperature: float = 0.5
    stop_posterior: float = 0.99
    stop_window: int = 5
    options: VoteOptions = VoteOptions()

    @classmethod
    def for_mode(cls, mode: Mode, kind: Kind, options: VoteOptions | None = None) -> VotePolicy:
        """The default of a mode: ``fast`` counts, the others score.

        The score, not the bare count, is the default of ``standard`` and ``deep`` because with 3 or 5
        samples a tie of counts is common and confidence is all that is left to break it. It stays
        lossless under early stop: ``decided`` assumes that every missing sample is as sure of a rival,
        and as unsure of the leader, as a sample can be.
        """
        rule = Rule.MAJORITY if mode is Mode.FAST else Rule.SCORED
        return cls(kind=kind, rule=rule, options=options or VoteOptions())
