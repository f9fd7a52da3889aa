from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipeline.scheduling.ranked import Ranked

keys, ranks = st.integers(0, 20), st.integers(0, 5)


class RankedAgainstAList(RuleBasedStateMachine):
    """A list that is sorted stably says what is first."""

    def __init__(self) -> None:
        super().__init__()
        self.ranked = Ranked[int]()
        self.model: list[tuple[int, int]] = []

    @rule(key=keys, rank=ranks)
    def put(self, key: int, rank: int) -> None:
        self.ranked.put(key, rank)
        self.model = [*(entry for entry in self.model if entry[1] != key), (rank, key)]

    @rule(key=keys)
    def discard(self, key: int) -> None:
        self.ranked.discard(key)
        self.model = [entry for entry in self.model if entry[1] != key]

    @rule(key=keys)
    def take_all_but(self, key: int) -> None:
        while (first := self.ranked.first()) is not None and first[1] != key:
            self.discard(first[1])

    @invariant()
    def agrees(self) -> None:
        assert self.ranked.first() == min(self.model, key=lambda entry: entry[0], default=None)
        assert len(self.ranked) == len(self.model)
        assert {key: self.ranked.rank(key) for key in range(21)} == dict.fromkeys(range(21)) | {
            key: rank for rank, key in self.model
        }


TestRanked = RankedAgainstAList.TestCase
TestRanked.settings = settings(deadline=None)


def test_what_is_stale_is_bounded() -> None:
    ranked = Ranked[int]()
    ranked.put(0, 0)
    for rank in range(1, 10_000):
        ranked.put(1, rank)
        ranked.put(2 + rank, rank)
        ranked.discard(2 + rank)
    assert len(ranked._heap) <= 2 * len(ranked) + 16
