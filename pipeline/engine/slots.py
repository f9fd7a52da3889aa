"""The default engine: continuous batching in slots, with each sample's own randomness and end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace

import structlog
import torch

from pipeline.engine.base import EngineListener, GenerationTask, TaskKey
from pipeline.engine.cache import WIDTH_STEP, SlotCache, round_down
from pipeline.engine.decode_loop import DecodeLoop
from pipeline.engine.inbox import Inbox
from pipeline.engine.model import LoadedModel, load_model
from pipeline.engine.prefix import PrefixStore
from pipeline.engine.prompt_lookup import Drafter
from pipeline.engine.prompt_reader import PromptReader
from pipeline.engine.runner import Runner
from pipeline.engine.slot_table import SlotTable
from pipeline.engine.warm_up import warm_up
from pipeline.settings import EngineSettings, Settings

_log = structlog.get_logger(__name__)


EXIT_ENGINE_BROKEN = 71


class SlotEngine:
    """An ``Engine`` on a causal language model of transformers.

    Args:
        settings: names the model and, in ``engine``, rows, context, threads and mode.
        load: gives the model; called on the engine's thread.
        clock: unix time in seconds, which deadlines are compared with.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        load: Callable[[Settings], LoadedModel] = load_model,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._load = load
        self._clock = clock
        self._inbox = Inbox()
        self._limit: Callable[[], int] = lambda: settings.engine.rows
        self._thread: threading.Thread | None = None

    def start(self, listener: EngineListener) -> None:
        """Load the model, warm it up and check that it runs in slots; returns when ready.

        Raises:
            ModelLoadError: says what is wrong with the model.
        """
        ready: Future[None] = Future()
        thread = threading.Thread(target=self._main, args=(listener, ready), name="slot-engine", daemon=True)
        self._thread = thread
        thread.start()
        ready.result()

    def submit(self, task: GenerationTask) -> bool:
        """Queue a task; ``False`` when its key is queued or running, or the engine is closed."""
        return self._inbox.submit(task)

    def cancel(self, key: TaskKey) -> None:
        """End a task as ``cancelled`` within a step; an unknown key is harmless."""
        self._inbox.cancel(key)

    def capacity(self) -> int:
        """How many more tasks would start at once."""
        return max(0, self._limit() - len(self._inbox))

    def close(self) -> None:
        """Stop the thread; tasks that still run or wait end as ``cancelled``. Again: does nothing."""
        self._inbox.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _main(self, listener: EngineListener, ready: Future[None]) -> None:
        with torch.inference_mode():
            try:
                loop = self._prepare(listener)
            except BaseException as error:
                ready.set_exception(error)
                return
            ready.set_result(None)
            while self._inbox.wait():
                try:
                    loop.turn()
                except Exception as error:
                    _log.exception("engine turn failed")
                    _fail_all_or_die(loop, error)
            loop.cancel_all()

    def _prepare(self, listener: EngineListener) -> DecodeLoop:
        options, rows = self._settings.engine, self._settings.engine.rows
        torch.set_num_threads(thread_count(options))
        loaded = self._load(self._settings)
        bound = most_tokens(options, warm_up(loaded))
        if bound:
            # One row always fits, else it would wait for ever.
            each = round_down(bound // (rows if options.deterministic else 1))
            loaded = replace(loaded, context=min(loaded.context, max(WIDTH_STEP, each)))
        cache = SlotCache(rows, loaded.context, all_rows=options.deterministic, max_tokens=bound)
        runner = Runner(loaded, rows, constant_rows=options.deterministic, cache=cache)
        tried = options.lookup_tokens
        drafter = Drafter(options.lookup_ngram, tried, loaded.context) if tried else None
        table = SlotTable(runner, rows, drafter)
        self._limit = lambda: table.limit
        reader = PromptReader(
            runner,
            PrefixStore(options.prefix_bytes),
            options.prefill_chunk,
            whole_chunks=options.deterministic,
        )
        return DecodeLoop(loaded, table, reader, self._inbox, listener, self._clock)


def _fail_all_or_die(loop: DecodeLoop, error: Exception) -> None:
    """End every task with this error.

    When not even that works (a device that is broken for good), the process ends, so that its
    supervisor starts it afresh: a worker without an engine would hold its partitions and draw nothing.
    """
    try:
        loop.fail_all(error)
    except Exception:
        _log.critical("engine is beyond repair", exc_info=True)
        os._exit(EXIT_ENGINE_BROKEN)


def most_tokens(options: EngineSettings, token_bytes: int) -> int:
    """Tokens that all rows' keys and values may hold together, the smaller of both bounds; 0 is no bound."""
    bounds = [options.cache_tokens, options.cache_bytes // token_bytes]
    return min((bound for bound in bounds if bound), default=0)


def thread_count(options: EngineSettings) -> int:
    """torch threads: one for equal bits, else as set, else one less than the cores."""
    if options.deterministic:
        return 1
    return options.threads or max(1, len(os.sched_getaffinity(0)) - 1)
