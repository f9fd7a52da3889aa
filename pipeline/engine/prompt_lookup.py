"""Prompt lookup: what followed the last tokens when they stood in the text before is tried as what follows now.

A draft costs no model. One forward reads it, and a row draws each token as it always does, from the logits after the
tokens it has drawn itself; as long as they are the draft's, the next logits are there already. So drafts change how
many forwards it takes, and nothing that is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

from pipeline.engine.row import Row


class NgramIndex:
    """Where each run of ``size`` tokens stood last in a growing sequence, the end itself not counted."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._ids: list[int] = []
        self._after: dict[tuple[int, ...], int] = {}

    def extend(self, ids: Sequence[int]) -> None:
        """Append tokens."""
        for token in ids:
            end = len(self._ids)
            if end >= self._size:
                self._after[tuple(self._ids[-self._size :])] = end
            self._ids.append(token)

    def draft(self, most: int) -> list[int]:
        """What followed the last tokens when they stood there before; a repetition goes on as it goes round."""
        start = self._after.get(tuple(self._ids[-self._size :]))
        if start is None:
            return []
        period = len(self._ids) - start
        return [self._ids[start + index % period] for index in range(most)]

    def __len__(self) -> int:
        return len(self._ids)


class Drafter:
    """Drafts for the rows of a step; rows may leave and come again.

    A forward reads as many tokens of each row, so a long draft of one row costs all. Three limits keep what is read
    in vain small: the tokens of all rows together, what at least half of the rows have a draft for, and, for a
    row, twice what came true of its last draft.

    Args:
        ngram: tokens that have to be the same for what followed them to be tried.
        tokens: that are tried in one step, at most, all rows together.
        context: tokens of a row, at most.
    """

    def __init__(self, ngram: int, tokens: int, context: int) -> None:
        self._ngram = ngram
        self._tokens = tokens
        self._context = context
        self._indices: WeakKeyDictionary[Row, NgramIndex] = WeakKeyDictionary()

    def drafts(self, rows: Sequence[Row]) -> list[list[int]]:
        """A draft for each row, all of one length; it is 0 if there is nothing worth trying."""
        most = min(self._tokens // len(rows), self._context - max(row.length for row in rows))
        if most < 1:
            return [[] for _ in rows]
        found = [self._draft(row, most) for row in rows]
        length = sorted(map(len, found))[len(rows) // 2]
        # Whatever fills a draft up is checked like the rest.
        return [
            [*draft, *[row.generated[-1]] * length][:length] for row, draft in zip(rows, found, strict=True)
        ]

    def _draft(self, row: Row, most: int) -> list[int]:
        index = self._indices.setdefault(row, NgramIndex(self._ngram))
        known = len(index)
        new = row.generated[known - len(row.prompt) :] if known else row.ids
        index.extend(new)
        came_true = len(new) - 1 if known else 0
        return index.draft(max(0, min(most, row.room - 1, max(1, 2 * came_true))))
