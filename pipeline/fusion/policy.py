"""How samples of one request are turned into one answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pipeline.events import Kind, Mode


class Rule(StrEnum):
    """What makes one group of equal answers better than another."""

    MAJORITY = "majority"
    WEIGHTED = "weighted"
    SCORED = "scored"


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
    """

    kind: Kind = Kind.ANSWER
    rule: Rule = Rule.SCORED
    min_share: float = 0.0
    share_weight: float = 0.7
    temperature: float = 0.5

    @classmethod
    def for_mode(cls, mode: Mode, kind: Kind) -> VotePolicy:
        """The default of a mode: ``fast`` counts, the others score.

        The score, not the bare count, is the default of ``standard`` and ``deep`` because with 3 or 5
        samples a tie of counts is common and confidence is all that is left to break it. It stays
        lossless under early stop: ``decided`` assumes that every missing sample is as sure of a rival,
        and as unsure of the leader, as a sample can be.
        """
        return cls(kind=kind, rule=Rule.MAJORITY if mode is Mode.FAST else Rule.SCORED)
