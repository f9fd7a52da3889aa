"""Which lane is served next: deficit round robin over tokens, work-conserving.

The unit of a deficit is a token. A task costs the most tokens that it may draw (``max_new_tokens``), which is
known before it begins; so a lane of long tasks does not take more of the engine than its quota.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

SAVED = 1024
"""Tokens that an idle lane saves up for each unit of its quota: the longest sample of mode ``standard``."""


class DeficitRoundRobin:
    """Hands out turns so that lanes that wait begin tokens in proportion to their quotas.

    A round gives each lane its quota in tokens. A lane may begin a task while it has credit and can owe the
    rest (Adiseshu, Parulkar, Varghese 1996: surplus round robin); rounds in which no lane could begin anything
    are skipped at once. A lane without work passes its turn on. For lanes i and j that wait all the time, and tasks
    of at most c tokens, ``|begun_i / quota_i - begun_j / quota_j| < SAVED + 2 · c``, however long one looks.
    """

    def __init__(self, quotas: Sequence[int]) -> None:
        self._quotas = tuple(quotas)
        self._most = tuple(quota * SAVED for quota in quotas)
        self._credit = list(self._most)

    def next(self, ready: Collection[int]) -> int | None:
        """The best lane with credit, out of those that have work; ``None`` when none has."""
        if not ready:
            return None
        if rounds := min(self._rounds_to_credit(lane) for lane in ready):
            self._credit = [
                min(most, credit + rounds * quota)
                for credit, quota, most in zip(self._credit, self._quotas, self._most, strict=True)
            ]
        return min(lane for lane in ready if self._credit[lane] > 0)

    def charge(self, lane: int, cost: int) -> None:
        """A task of so many tokens begins, on the turn that ``next`` gave."""
        self._credit[lane] -= cost

    def charge_out_of_turn(self, lane: int, cost: int) -> None:
        """The same without a turn. Such tasks make a lane owe no more than it can save, or than the longest of them."""
        credit = self._credit[lane]
        self._credit[lane] = max(credit - cost, min(credit, -max(self._most[lane], cost)))

    def _rounds_to_credit(self, lane: int) -> int:
        return max(0, -((self._credit[lane] - 1) // self._quotas[lane]))
