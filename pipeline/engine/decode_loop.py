"""The decode loop: rows join and leave at every step.

One turn:

1. End the samples that are cancelled or past their deadline, waiting or running.
2. Fill free slots with waiting tasks, first come first served. Prompts are read for it, at most so many tokens
   a turn; a newcomer's first token is drawn at once.
3. One forward for all running rows; draw each row's next token, or several where a draft comes true; end the rows
   that are complete.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import structlog
import torch
from torch import Tensor

from pipeline.engine.base import EngineListener
from pipeline.engine.inbox import Inbox
from pipeline.engine.model import LoadedModel
from pipeline.engine.params import checked, checked_top_logprobs
from pipeline.engine.prompt_reader import PromptReader
from pipeline.engine.prompts import PromptEncoder
from pipeline.engine.row import Row
from pipeline.engine.runner import is_out_of_memory
from pipeline.engine.sampler import draw
from pipeline.engine.slot_table import SlotTable, Step, describe
from pipeline.engine.telling import tell_done, tell_tokens
from pipeline.errors import ContextExceededError, UnsupportedSamplingError
from pipeline.events import ErrorInfo, FinishReason

_log = structlog.get_logger(__name__)


class DecodeLoop:
    """What the engine's thread does with the tasks in its inbox.

    Args:
        loaded: the model, for its tokenizer, context and end tokens.
        table: the slots.
        reader: reads prompts; its chunk is also the most that is read between two steps.
        inbox: where tasks come from.
        listener: hears text and completions; what it raises is logged and changes nothing.
        clock: unix time in seconds.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        table: SlotTable,
        reader: PromptReader,
        inbox: Inbox,
        listener: EngineListener,
        clock: Callable[[], float],
    ) -> None:
        self._loaded = loaded
        self._table = table
        self._reader = reader
        self._joining: Row | None = None
        self._unread = 0
        self._inbox = inbox
        self._listener = listener
        self._clock = clock
        self._encoder = PromptEncoder(loaded.tokenizer)

    def turn(self) -> None:
        """One turn, as numbered above."""
        self._sweep()
        self._admit()
        self._wait_again(self._table.make_room(self._reader.store.clear))
        if not self._table.active:
            return
        results = self._table.step()
        self._advance([(row, result) for row, result in results if isinstance(result, Step)])
        for row, result in results:
            if isinstance(result, ErrorInfo):
                self._finish(row, FinishReason.ERROR, result)

    def _sweep(self) -> None:
        """End what is cancelled or late."""
        now = self._clock()
        for row in self._inbox.rows():
            if row.cancelled:
                self._finish(row, FinishReason.CANCELLED)
            elif now >= row.task.deadline:
                self._finish(row, FinishReason.TIMEOUT)

    def _admit(self) -> None:
        self._unread = self._reader.chunk
        while len(self._table.active) < self._table.limit:
            row = self._joining or self._inbox.take()
            self._joining = row
            if row is None:
                return
            logits, failure, short_of_memory = self._try_join(row)
            # Here the exception and the tensors its frames held are gone.
            if logits is not None:
                self._advance([(row, Step(logits[None]))])
            elif failure is None:
                return
            elif short_of_memory and self._reader.store.clear(but=row.prefix):
                continue
            elif short_of_memory and self._table.active:
                self._table.shrink()
            else:
                self._finish(row, FinishReason.ERROR, failure)

    def _try_join(self, row: Row) -> tuple[Tensor | None, ErrorInfo | None, bool]:
        """Read on and, when all is read, give the row a slot; returns the logits that follow its tokens.

        Without logits and failure, the row goes on next turn: as much is read as may be now, the cache has no
        room for it yet, or has to be copied for it. The last value says whether the failure was memory.
        """
        try:
            if not row.prompt:
                self._prepare(row)
            row.start(self._clock())
            if not self._table.fits(row):
                return None, None, False
            prefix = row.prefix = row.prefix or self._reader.begin(row.ids)
            while tokens := self._reader.next_tokens(prefix):
                if tokens > self._unread:
                    return None, None, False
                self._unread -= tokens
                self._reader.advance(prefix)
            if self._unread < self._reader.chunk and self._table.widens_for(row):
                return None, None, False  # the others wait for a chunk or for this, not for both
            self._table.join(row, prefix)
            self._joining = row.prefix = None
            return prefix.logits, None, False
        except Exception as error:
            return None, describe(error), is_out_of_memory(error)

    def _wait_again(self, evicted: list[Row]) -> None:
        """Put rows that had to leave their slots before all that wait, one that is joining included."""
        if evicted and self._joining is not None:
            evicted.insert(0, self._joining)
            self._joining = None
        self._inbox.put_back(evicted)

    def _prepare(self, row: Row) -> None:
        """Check a task and tokenise its prompt.

        Raises:
            GenerationError: why this task can't run.
        """
        if row.task.images:
            raise UnsupportedSamplingError(
                "images are not read by the engine slots: use the engine vision", field="images"
            )
        params = checked(row.task.params)
        checked_top_logprobs(row.task.top_logprobs)
        prompt = self._encoder.encode(row.task.messages)
        context = self._loaded.context
        if len(prompt) >= context:
            message = (
                f"The prompt has {len(prompt)} tokens and the context holds {context}, the answer included"
            )
            raise ContextExceededError(message)
        seed = secrets.randbits(63) if params.seed is None else params.seed
        row.prepare(
            params, seed, prompt, min(params.max_new_tokens, context - len(prompt)), self._loaded.tokenizer
        )

    def _advance(self, steps: list[tuple[Row, Step]]) -> None:
        """Draw a token for each row; a row that draws what its draft says draws on.

        Rows end when all have drawn: for one that leaves another moves, with as much of the cache as it has drawn.
        """
        ended: list[tuple[Row, FinishReason | Exception]] = []
        place = 0
        while steps:
            drawn = draw(
                torch.stack([step.logits[place] for _, step in steps]), [row.ask for row, _ in steps]
            )
            now = self._clock()
            drawing: list[tuple[Row, Step]] = []
            for (row, step), token in zip(steps, drawn, strict=True):
                if isinstance(token, Exception):
                    ended.append((row, token))
                    continue
                piece, reason = row.accept(token, self._loaded.eos_ids, now)
                tell_tokens(self._listener, row.task.key, piece)
                if reason is not None:
                    ended.append((row, reason))
                elif step.foresaw(place, token.token):
                    drawing.append((row, step))
            steps, place = drawing, place + 1
        for row, reason in ended:
            if isinstance(reason, Exception):
                self._finish(row, FinishReason.ERROR, describe(reason), poisoned=True)
            else:
                self._finish(row, reason)

    def fail_all(self, error: Exception) -> None:
        """After an error that no row can be blamed for: end what runs, or what waits if nothing runs."""
        for row in list(self._table.active) or self._inbox.rows():
            self._finish(row, FinishReason.ERROR, describe(error))

    def cancel_all(self) -> None:
        """End every task as cancelled."""
        for row in self._inbox.rows():
            self._finish(row, FinishReason.CANCELLED)

    def _finish(
        self, row: Row, reason: FinishReason, error: ErrorInfo | None = None, *, poisoned: bool = False
    ) -> None:
        """Free what the row holds and tell the listener, once."""
        if row in self._table.active:
            self._table.leave(row, poisoned=poisoned)
        if row is self._joining:
            self._joining = None
        self._inbox.remove(row)
        try:
            piece, reason = row.flush(reason)
        except Exception:
            _log.exception("last text lost", key=row.task.key)
            piece = ""
        tell_tokens(self._listener, row.task.key, piece)
        completion = row.completion(reason, self._clock(), error)
        tell_done(self._listener, completion)
