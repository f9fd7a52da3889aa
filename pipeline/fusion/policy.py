"""How samples of one request are turned into one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from pipeline.events import Kind, Mode
from pipeline.fusion.calibration import Calibration
from pipeline.fusion.similarity import token_overlap
from pipeline.vote_choices import EarlyStop, Measure


class Rule(StrEnum):
    """What makes one group of equal answers better than another."""

    MAJORITY = "majority"
    WEIGHTED = "weighted"
    SCORED = "scored"


@dataclass(frozen=True, slots=True)
class ReviewOptions:
    """When samples are asked to judge other samples, and what that may cost.

    Attributes:
        agreement: a leader with this share of the votes or more is not reviewed.
        candidates: how many of the best groups are compared, each with each, in both orders.
        weight: of the share of comparisons won, in the score; the rest is the vote's own score.
        budget_share: of the request's tokens (samples times their longest length) that the round may add.
        deadline_share: of the request's time that the round may take, from when it is asked for.
    """

    agreement: float = 0.7
    candidates: int = 3
    weight: float = 0.25
    budget_share: float = 0.25
    deadline_share: float = 0.25


@dataclass(frozen=True, slots=True)
class VoteOptions:
    """What an operator sets for all votes; the rest follows from mode and kind.

    As it stands here nothing is asked back, reviewed or estimated; what the pipeline does when nothing is set is
    the settings' business.

    Attributes:
        calibration: from the score of an answer to how often such answers are right; ``None`` publishes the score.
        min_share: of the votes, under which a leader is no answer; 0 takes every leader.
        min_confidence: calibrated, under which a leader is no answer; 0, and without calibration: every leader.
        review: ``None``: no sample judges others.
        similarity: of two texts, in [0, 1] and symmetric; by it answers to open questions support each other.
    """

    measure: Measure = Measure.LOGPROB
    early_stop: EarlyStop = EarlyStop.LOSSLESS
    calibration: Calibration | None = None
    min_share: float = 0.0
    min_confidence: float = 0.0
    review: ReviewOptions | None = None
    similarity: Callable[[str, str], float] = token_overlap


@dataclass(frozen=True, slots=True)
class VotePolicy:
    """The rule of one vote.

    Attributes:
        kind: how answers are found in texts and compared.
        rule: ``majority`` counts; ``weighted`` adds each sample's softmax share of confidence
            (CISC, arXiv 2502.06233); ``scored`` is ``share_weight``·share + (1 - ``share_weight``)·mean confidence.
        min_share: the share of votes under which a leader is reported as no consensus; 0 is no floor.
        min_confidence: the calibrated confidence under which it is; 0 is no floor.
        review: when samples judge others; ``None``: never.
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
    min_confidence: float = 0.0
    review: ReviewOptions | None = None
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

        Floors are for answers that can agree: texts on open questions never do, and programs are told apart by
        tests. ``fast`` has one sample, which agrees with itself. Only ``deep`` and ``open`` review.
        """
        options = options or VoteOptions()
        floors = mode is not Mode.FAST and kind in (Kind.ANSWER, Kind.VISION)
        reviews = mode in (Mode.DEEP, Mode.OPEN) and kind is not Kind.CODE
        return cls(
            kind=kind,
            rule=Rule.MAJORITY if mode is Mode.FAST else Rule.SCORED,
            min_share=options.min_share if floors else 0.0,
            min_confidence=options.min_confidence if floors and options.calibration is not None else 0.0,
            review=options.review if reviews else None,
            options=options,
        )

    @property
    def settled_share(self) -> float:
        """The share of votes from which on a leader is neither asked back about nor reviewed."""
        return max(self.min_share, self.review.agreement if self.review else 0.0)
