"""What a fenced sink has written, bounded in memory and never forgetting what can be asked for again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from pipeline.kafka.records import Identity


class IdentityMemory:
    """Identities with the time of their writing, the oldest first.

    Args:
        keep: so many are kept in any case, so that an id sent twice meets itself for long. More are kept
            only as long as the inputs that they come from can come again: ``forget`` says until when.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._written_at: OrderedDict[Identity, int] = OrderedDict()

    def __contains__(self, identity: Identity) -> bool:
        return identity in self._written_at

    def __len__(self) -> int:
        return len(self._written_at)

    def learn(self, identities: Iterable[Identity], written_at: int) -> None:
        """Remember; ``written_at`` is in ms."""
        for identity in identities:
            self._written_at[identity] = written_at
            self._written_at.move_to_end(identity)

    def forget(self, before: int) -> None:
        """Forget beyond the number that is kept, the oldest first, what was written before a time in ms.

        Stops at the first that is younger: times of several partitions may be out of order by a little,
        and forgetting late is harmless.
        """
        while len(self._written_at) > self._keep and next(iter(self._written_at.values())) < before:
            self._written_at.popitem(last=False)
