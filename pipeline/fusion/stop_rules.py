"""Rules that end a vote before it is certain: they save more samples than the lossless one, and can be wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from pipeline.fusion.policy import EarlyStop, VotePolicy
from pipeline.fusion.standing import Standing


def enough(ranked: Sequence[Standing], missing: int, policy: VotePolicy) -> bool:
    """Whether the policy's rule ends the vote, with so many samples still missing."""
    if not ranked:
        return False
    match policy.options.early_stop:
        case EarlyStop.LOSSLESS:
            return False
        case EarlyStop.BETA:
            second = max((len(standing.members) for standing in ranked[1:]), default=0)
            return stays_ahead(len(ranked[0].members), second, missing) >= policy.stop_posterior
        case EarlyStop.ESC:
            return _window_agrees(ranked[0], policy.stop_window)


@lru_cache(maxsize=65_536)
def stays_ahead(leader: int, second: int, missing: int) -> Fraction:
    """The probability that the leader still has more votes than the second when all samples are in.

    Adaptive-Consistency (Aggarwal et al., 2023, arXiv 2305.11860) asks how sure it is that the leader's share is
    the larger one of the two, p ~ Beta(leader + 1, second + 1). Here the question is what a full vote will say,
    so it is asked of the missing votes themselves: of ``missing`` more the leader gets k by the beta-binomial
    distribution of that posterior. All of them are taken to fall on these two. Exact.
    """
    a, b = leader + 1, second + 1
    # The number of ways in which a Polya urn with a and b balls gives k and missing - k.
    ways = [math.comb(a + k - 1, k) * math.comb(b + missing - k - 1, missing - k) for k in range(missing + 1)]
    ahead = sum(way for k, way in enumerate(ways) if leader + k > second + missing - k)
    return Fraction(ahead, sum(ways))


def _window_agrees(leader: Standing, size: int) -> bool:
    """Whether some window of ``size`` samples is complete and all for the leader.

    Windows are by sample index, 0 to size - 1 and so on, as if samples were drawn one window after the other
    (Li et al., 2024, arXiv 2401.10480), so that the order of arrival decides nothing.
    """
    voted: dict[int, int] = {}
    for member in leader.members:
        window = member.sample.sample_index // size
        voted[window] = voted.get(window, 0) + 1
    return any(count == size for count in voted.values())
