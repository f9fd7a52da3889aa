"""The vote once more, with what the reviews say of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipeline.fusion.ballots import Ballot
from pipeline.fusion.review import judgement, win_shares
from pipeline.fusion.standing import Standing

UNDECIDED = 0.5
"""The share of comparisons won that says nothing: that of a group that was not compared, too."""


def reranked(ranked: Sequence[Standing], ballots: Sequence[Ballot], weight: float) -> list[Standing]:
    """Best first by (1 - ``weight``)·score + ``weight``·share of comparisons won; as it was without a comparison."""
    group_of = {
        member.sample.sample_index: place
        for place, standing in enumerate(ranked)
        for member in standing.members
    }
    said = [found for ballot in ballots if (found := judgement(ballot.sample)) is not None]
    shares = win_shares(said, group_of)
    if not shares:
        return list(ranked)
    judged = [
        replace(
            standing,
            score=(1 - weight) * standing.score + weight * shares.get(place, UNDECIDED),
            review=shares.get(place),
        )
        for place, standing in enumerate(ranked)
    ]
    return sorted(judged, key=lambda standing: standing.rank)
