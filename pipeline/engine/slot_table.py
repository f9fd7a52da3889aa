"""The rows that decode side by side, and what happens when memory or one of them fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from pipeline.engine.prefix import Prefix
from pipeline.engine.prompt_lookup import Drafter
from pipeline.engine.row import Row
from pipeline.engine.runner import Runner, is_out_of_memory
from pipeline.errors import GenerationError, OutOfMemoryError
from pipeline.events import ErrorInfo

# Steps without a failed allocation after which one more row is tried again.
_RECOVERY_STEPS = 256


@dataclass(frozen=True, slots=True)
class Step:
    """What a forward says of one row.

    Attributes:
        logits: [1 + draft, vocabulary]; those at ``i`` hold if the row draws the first ``i`` tokens of the draft.
        draft: tokens that were tried behind the row's last one.
    """

    logits: Tensor
    draft: Sequence[int] = ()

    def foresaw(self, place: int, token: int) -> bool:
        """Whether ``token``, drawn at ``place``, is the draft's, so that the next logits hold."""
        return place < len(self.draft) and token == self.draft[place]


class SlotTable:
    """Rows in slots 0, 1, … without a gap; a row's slot is its index in ``active``.

    Args:
        runner: the model and its cache.
        rows: how many slots.
        drafter: what tries tokens ahead, if anything does.

    Attributes:
        active: the rows in slots.
        limit: how many rows may run at once; below ``rows`` for a while after memory ran out.
    """

    def __init__(self, runner: Runner, rows: int, drafter: Drafter | None = None) -> None:
        self._runner = runner
        self._drafter = drafter
        self._rows = rows
        self._chunk = rows
        self._calm_steps = 0
        self.limit = rows
        self.active: list[Row] = []

    def fits(self, row: Row) -> bool:
        """Whether one more row is within the bound of the cache; the first always is."""
        longest = max(each.length for each in [*self.active, row])
        return not self.active or self._runner.cache.fits(len(self.active) + 1, longest + 1)

    def widens_for(self, row: Row) -> bool:
        """Whether rows that run would have to be copied into a wider cache for one more."""
        return bool(self.active) and row.length > self._runner.cache.width

    def join(self, row: Row, prefix: Prefix) -> None:
        """Give a row the next slot, with all its tokens read.

        Raises:
            RuntimeError: out of memory. The slot is free again.
        """
        slot = len(self.active)
        self._runner.cache.reserve(slot + 1, max(each.length for each in [*self.active, row]))
        self._runner.cache.put(slot, prefix)
        self.active.append(row)

    def leave(self, row: Row, *, poisoned: bool = False) -> None:
        """Free a row's slot; a poisoned one held numbers that are not finite and is wiped."""
        slot = self.active.index(row)
        last = self.active.pop()
        if poisoned:
            self._runner.cache.clear(slot)
        if last is not row:
            self.active[slot] = last
            self._runner.cache.copy(len(self.active), slot, last.length)
        if not self.active:
            self._runner.cache.release()
            self.limit = self._chunk = self._rows

    def shrink(self) -> None:
        """After a failed allocation: no more rows at once than there are now."""
        self.limit = max(1, len(self.active))
        self._calm_steps = 0

    def make_room(self, relieve: Callable[[], bool]) -> list[Row]:
        """Reserve one more position for every row; returns rows that had to leave for it, newest first.

        ``relieve`` gives back memory that no row needs and says whether there was any.
        """
        evicted: list[Row] = []
        while len(self.active) > 1 and not self._within_bound():
            evicted.append(self._evict())
        short = False
        while self.active and not self._reserve(max(row.length for row in self.active)):
            if relieve():
                continue
            evicted.append(self._evict())
            short = True
        if short:
            self.shrink()
        return evicted

    def step(self) -> list[tuple[Row, Step | ErrorInfo]]:
        """One forward for all rows; returns for each what it says or why it failed.

        A forward that fails is repeated without drafts, then with half the rows, and so on: memory may
        suffice for fewer, and whatever is wrong with one row harms that row alone.
        """
        size = self._chunk
        drafts = self._drafts()
        pending = [(first, self.active[first : first + size]) for first in range(0, len(self.active), size)]
        results: list[tuple[Row, Step | ErrorInfo]] = []
        while pending:
            first, rows = pending.pop(0)
            steps, failure = self._forward(first, rows, drafts[first : first + len(rows)])
            # Here the exception and the tensors its frames held are gone.
            if steps is not None:
                results += zip(rows, steps, strict=True)
            elif drafts[0]:
                drafts = self._none()
                for slot, row in enumerate(rows, first):
                    self._runner.cache.clear(slot, row.length - 1)
                pending.insert(0, (first, rows))
            elif len(rows) == 1:
                results.append((rows[0], failure or ErrorInfo("engine_error", "no logits")))
            else:
                half = (len(rows) + 1) // 2
                if failure and failure.code == OutOfMemoryError.code:
                    self._chunk, self._calm_steps = min(self._chunk, half), 0
                pending[:0] = [(first, rows[:half]), (first + half, rows[half:])]
        self._recover()
        return results

    def _forward(
        self, first: int, rows: list[Row], drafts: list[list[int]]
    ) -> tuple[list[Step] | None, ErrorInfo | None]:
        try:
            tokens = [[row.generated[-1], *draft] for row, draft in zip(rows, drafts, strict=True)]
            positions = [row.length - 1 for row in rows]
            alone = len(rows) == len(self.active)
            logits = self._runner.decode(first, tokens, positions, fill=alone)
            if drafts[0] and not bool(logits.amax(-1).isfinite().all()):
                # Maybe for a draft alone, and no row shall fail for what it does not say.
                return None, None
            return [Step(*each) for each in zip(logits, drafts, strict=True)], None
        except Exception as error:
            return None, describe(error)

    def _drafts(self) -> list[list[int]]:
        """A draft for each row; none where there is no room for them, as no row shall leave for a draft."""
        if self._drafter is None:
            return self._none()
        drafts = self._drafter.drafts(self.active)
        longest = max(row.length for row in self.active) + len(drafts[0])
        fits = self._runner.cache.fits(len(self.active), longest) and self._reserve(longest)
        return drafts if fits else self._none()

    def _none(self) -> list[list[int]]:
        return [[] for _ in self.active]

    def _within_bound(self) -> bool:
        return self._runner.cache.fits(len(self.active), max(row.length for row in self.active))

    def _evict(self) -> Row:
        newest = max(self.active, key=lambda row: row.number)
        self.leave(newest)
        return newest

    def _reserve(self, length: int) -> bool:
        try:
            self._runner.cache.reserve(len(self.active), length)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            return False
        return True

    def _recover(self) -> None:
        self._calm_steps += 1
        if self._calm_steps % _RECOVERY_STEPS == 0:
            self.limit = min(self._rows, self.limit + 1)
            self._chunk = min(self._rows, self._chunk + 1)


def describe(error: Exception) -> ErrorInfo:
    """An exception as the error of a sample; what nobody expected is ``engine_error``."""
    if isinstance(error, GenerationError):
        return ErrorInfo(error.code, error.message, error.retriable)
    if is_out_of_memory(error):
        message = "The model ran out of memory even with one row: lower TALLYSTREAM_ENGINE__CONTEXT"
        return ErrorInfo(OutOfMemoryError.code, message, OutOfMemoryError.retriable)
    return ErrorInfo("engine_error", f"{type(error).__name__}: {error}", retriable=True)
