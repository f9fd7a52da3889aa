"""Reading prompts piece by piece, so that the rows that decode meanwhile never wait for a whole one."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.engine.prefix import Prefix, PrefixStore
from pipeline.engine.runner import Runner


class PromptReader:
    """Turns token ids into prefixes.

    Where a prompt is cut depends on nothing but the prompt: at multiples of ``chunk`` tokens.

    Args:
        runner: the model.
        store: what has been read before.
        chunk: tokens read at once.
        whole_chunks: borrow only whole chunks. What was read in the same chunks has the same bits, so that a
            sample does not depend on what was read before it.
    """

    def __init__(self, runner: Runner, store: PrefixStore, chunk: int, *, whole_chunks: bool) -> None:
        self._runner = runner
        self.store = store
        self.chunk = chunk
        self._whole_chunks = whole_chunks

    def begin(self, ids: Sequence[int]) -> Prefix:
        """The prefix of these tokens, read as far as the store has it.

        Raises:
            RuntimeError: out of memory.
        """
        wanted = tuple(ids)
        found = self.store.exact(wanted)
        if found is not None:
            return found
        prefix = Prefix(wanted)
        source, shared = self.store.longest(wanted)
        # At least the last token has to be read, for the logits that follow it.
        shared = min(shared, len(wanted) - 1)
        if self._whole_chunks:
            shared -= shared % self.chunk
        if source is not None and shared:
            prefix.borrow(source, shared)
        return prefix

    def next_tokens(self, prefix: Prefix) -> int:
        """How many tokens ``advance`` would read; 0 when all are read."""
        end = min(len(prefix.ids), (prefix.read // self.chunk + 1) * self.chunk)
        return end - prefix.read

    def advance(self, prefix: Prefix) -> None:
        """Read the next chunk; a prefix that is complete is kept in the store.

        Raises:
            RuntimeError: out of memory. The same call works later.
        """
        end = prefix.read + self.next_tokens(prefix)
        logits = self._runner.read(prefix, end)
        if end == len(prefix.ids):
            prefix.logits = logits
            # Numbers that are not finite must not be found again by another prompt.
            if bool(logits.amax().isfinite()):
                self.store.keep(prefix)
