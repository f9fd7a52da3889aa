"""The engine ``transformers``: its continuous batching manager, for GPUs, with the guarantees of an engine.

The manager draws; this side keeps every task, so that each ends once: cancelled and late ones, those whose stop
text has come, and those that were in a loop that died. A dead loop is rebuilt and what it held goes on from
its last token, each request alone, since one of them may be what the loop died of.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace

import structlog
import torch

from pipeline.engine.base import EngineListener
from pipeline.engine.guard import Heard, ManagerGuard, require_supported
from pipeline.engine.model import LoadedModel, load_model
from pipeline.engine.params import checked
from pipeline.engine.prompts import PromptEncoder
from pipeline.engine.row import Row
from pipeline.engine.sampler import Draw
from pipeline.engine.slot_table import describe
from pipeline.engine.slots import thread_count
from pipeline.engine.telling import tell_done, tell_tokens
from pipeline.engine.threaded import ThreadedEngine
from pipeline.errors import ContextExceededError, EngineError
from pipeline.events import ErrorInfo, FinishReason
from pipeline.settings import Settings

_log = structlog.get_logger(__name__)

_TURN = 0.02
"""Seconds within which a cancellation or a deadline is seen while the manager says nothing."""


@dataclass(slots=True)
class _Run:
    """A row in the manager; ``known`` are the tokens it had when it was handed over."""

    row: Row
    known: int


class ManagedEngine(ThreadedEngine):
    """An ``Engine`` on transformers' manager.

    Samples report no seed and no log-probability: the manager draws all from one generator, and its
    log-probabilities are those after temperature and cuts.

    Args:
        settings: names the model and, in ``engine``, rows, context and threads.
        load: gives the model; called on the engine's thread.
        clock: unix time in seconds, which deadlines are compared with.
    """

    thread_name = "managed-engine"

    def __init__(
        self,
        settings: Settings,
        *,
        load: Callable[[Settings], LoadedModel] = load_model,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._rows = settings.engine.rows
        self._load = load
        self._clock = clock
        self._runs: dict[str, _Run] = {}
        self._suspects: list[Row] = []

    def capacity(self) -> int:
        """How many more tasks would start at once."""
        return max(0, self._rows - len(self._inbox))

    def _main(self, listener: EngineListener, ready: Future[None]) -> None:
        self._listener = listener
        try:
            torch.set_num_threads(thread_count(self._settings.engine))
            self._loaded = self._load(self._settings)
            self._encoder = PromptEncoder(self._loaded.tokenizer)
            self._guard = ManagerGuard(self._loaded, self._rows)
            self._guard.build()
        except BaseException as error:
            ready.set_exception(error)
            return
        ready.set_result(None)
        while self._inbox.wait():
            self._turn()
        for row in self._inbox.rows():
            self._finish(row, FinishReason.CANCELLED)
        self._guard.stop()

    def _turn(self) -> None:
        """End what is cancelled or late, hand waiting tasks over, take in what the manager says."""
        now = self._clock()
        for row in self._inbox.rows():
            if row.cancelled:
                self._finish(row, FinishReason.CANCELLED)
            elif now >= row.task.deadline:
                self._finish(row, FinishReason.TIMEOUT)
        if not self._guard.alive:
            self._rebuild()
        self._admit()
        for heard in self._guard.heard(_TURN):
            self._take_in(heard)

    def _admit(self) -> None:
        while self._suspects and not self._runs:
            self._hand_over(self._suspects.pop(0))
        while not self._suspects and len(self._runs) < self._rows and (row := self._inbox.take()):
            try:
                self._prepare(row)
            except Exception as error:
                self._finish(row, FinishReason.ERROR, describe(error))
                continue
            self._hand_over(row)

    def _prepare(self, row: Row) -> None:
        params = checked(row.task.params)
        row.task = replace(row.task, params=params)
        require_supported(row.task)
        prompt = self._encoder.encode(row.task.messages)
        room = self._loaded.context - len(prompt)
        if room <= 0:
            raise ContextExceededError(
                f"The prompt has {len(prompt)} tokens and the context holds {self._loaded.context}, "
                "the answer included"
            )
        row.task = replace(row.task, params=replace(params, max_new_tokens=min(params.max_new_tokens, room)))
        row.prepare(row.task.params, 0, prompt, row.task.params.max_new_tokens, self._loaded.tokenizer)

    def _hand_over(self, row: Row) -> None:
        row.start(self._clock())
        budget = row.task.params.max_new_tokens - len(row.generated)
        self._runs[self._guard.submit(row.ids, budget, row.task.params)] = _Run(row, len(row.generated))

    def _take_in(self, heard: Heard) -> None:
        """New tokens of a request; a failure counts only while the loop lives, else the request goes on."""
        run = self._runs.get(heard.id)
        if run is None:
            return
        if heard.complete:
            del self._runs[heard.id]
        row, now = run.row, self._clock()
        for token in heard.tokens[len(row.generated) - run.known :]:
            piece, reason = row.accept(Draw(token, 0.0), self._loaded.eos_ids, now)
            tell_tokens(self._listener, row.task.key, piece)
            if reason is not None:
                self._finish(row, reason)
                return
        if heard.error is not None and self._guard.alive:
            problem = EngineError(f"The manager of transformers gave the sample up: {heard.error}")
            self._finish(row, FinishReason.ERROR, describe(problem))

    def _rebuild(self) -> None:
        """After the loop's death: what died alone is to blame, the rest goes on, each alone."""
        _log.error("the loop of transformers has died", held=len(self._runs))
        for heard in self._guard.heard(0.0):
            self._take_in(heard)
        rows = [run.row for run in self._runs.values()]
        self._runs.clear()
        if len(rows) == 1:
            problem = EngineError("The loop of transformers died of this sample")
            self._finish(rows.pop(), FinishReason.ERROR, describe(problem))
        self._suspects = rows + self._suspects
        self._guard.build()

    def _finish(self, row: Row, reason: FinishReason, error: ErrorInfo | None = None) -> None:
        """Free what the row holds and tell the listener, once."""
        for request_id in [name for name, run in self._runs.items() if run.row is row]:
            del self._runs[request_id]
            self._guard.cancel(request_id)
        if row in self._suspects:
            self._suspects.remove(row)
        self._inbox.remove(row)
        piece, reason = row.flush(reason)
        tell_tokens(self._listener, row.task.key, piece)
        completion = row.completion(reason, self._clock(), error)
        seed = row.task.params.seed
        tell_done(self._listener, replace(completion, seed=seed, mean_logprob=None))
