"""What a fenced sink remembers: bounded, and never without what can be asked for again."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipeline.kafka.identity_memory import IdentityMemory
from pipeline.kafka.records import Identity

KEEP = 5


class Memory(RuleBasedStateMachine):
    """The memory beside a model that forgets nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = IdentityMemory(KEEP)
        self.written_at: dict[Identity, int] = {}
        self.now, self.settled = 0, 0

    @rule(numbers=st.lists(st.integers(0, 40), max_size=4), after=st.integers(0, 3))
    def write(self, numbers: list[int], after: int) -> None:
        self.now += after
        identities: list[Identity] = [("task", f"r{number}", 0, 0) for number in numbers]
        self.memory.learn(identities, self.now)
        self.written_at |= dict.fromkeys(identities, self.now)

    @rule(back=st.integers(0, 10))
    def settle(self, back: int) -> None:
        """Every input before this time is through."""
        self.settled = max(self.settled, self.now - back)
        self.memory.forget(self.settled)

    @invariant()
    def what_can_be_asked_for_again_is_known(self) -> None:
        assert all(name in self.memory for name, at in self.written_at.items() if at >= self.settled)

    @invariant()
    def the_latest_are_known(self) -> None:
        newest = sorted(self.written_at.values())[-KEEP:]
        later = [name for name, at in self.written_at.items() if newest and at > newest[0]]
        assert all(name in self.memory for name in later)

    @invariant()
    def nothing_is_made_up(self) -> None:
        assert len(self.memory) == sum(name in self.memory for name in self.written_at)

    def teardown(self) -> None:
        """Whatever happened, memory is bounded once everything is through."""
        self.memory.forget(self.now + 1)
        assert len(self.memory) <= KEEP


TestMemory = Memory.TestCase
