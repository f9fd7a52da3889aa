"""Who is served next: endpoints take turns, and none has more than its share of the slots."""

from __future__ import annotations

from collections import Counter, OrderedDict


class FairQueue:
    """Items wait by endpoint; a free slot goes to the endpoint whose turn it is. All steps are O(1).

    An endpoint with thousands of items waiting is passed over as often as one with a single item, so a
    slow endpoint holds up only itself.
    """

    def __init__(self, per_endpoint: int, total: int) -> None:
        self._per_endpoint = per_endpoint
        self._free = total
        self._busy: Counter[str] = Counter()
        self._waiting: dict[str, OrderedDict[str, None]] = {}
        self._turns: OrderedDict[str, None] = OrderedDict()
        self._held: set[str] = set()

    def push(self, endpoint: str, item: str) -> None:
        """Let an item wait at the end of its endpoint's queue."""
        self._waiting.setdefault(endpoint, OrderedDict())[item] = None
        self._offer_turn(endpoint)

    def take(self) -> str | None:
        """The next item, which now holds a slot until `give_back`; None when nothing can start."""
        if not self._free or not self._turns:
            return None
        endpoint, _ = self._turns.popitem(last=False)
        item, _ = self._waiting[endpoint].popitem(last=False)
        self._free -= 1
        self._busy[endpoint] += 1
        self._offer_turn(endpoint)
        return item

    def give_back(self, endpoint: str) -> None:
        """Free the slot of an item taken earlier."""
        self._free += 1
        self._busy[endpoint] -= 1
        if not self._busy[endpoint]:
            del self._busy[endpoint]
        self._offer_turn(endpoint)

    def discard(self, endpoint: str, item: str) -> None:
        """Forget an item that waits; nothing happens if it does not."""
        self._waiting.get(endpoint, OrderedDict()).pop(item, None)
        self._offer_turn(endpoint)

    def hold(self, endpoint: str) -> None:
        """Pass an endpoint over until `release`; its items keep their order."""
        self._held.add(endpoint)
        self._turns.pop(endpoint, None)

    def release(self, endpoint: str) -> None:
        """Let an endpoint have its turns again."""
        self._held.discard(endpoint)
        self._offer_turn(endpoint)

    def waiting(self, endpoint: str) -> tuple[str, ...]:
        """The items of an endpoint that wait, in order."""
        return tuple(self._waiting.get(endpoint, ()))

    def _offer_turn(self, endpoint: str) -> None:
        if not self._waiting.get(endpoint):
            self._waiting.pop(endpoint, None)
            self._turns.pop(endpoint, None)
        elif endpoint not in self._held and self._busy[endpoint] < self._per_endpoint:
            self._turns.setdefault(endpoint, None)
