"""The default engine: continuous batching in slots, with each sample's own randomness and end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import structlog
import torch

from pipeline.engine.base import EngineListener
from pipeline.engine.cache import WIDTH_STEP, SlotCache, round_down
from pipeline.engine.decode_loop import DecodeLoop
from pipeline.engine.grouped_heads import group_heads
from pipeline.engine.model import LoadedModel, load_model
from pipeline.engine.model_traits import caps_scores, require_same_bits
from pipeline.engine.packed import pack
from pipeline.engine.prefix import PrefixStore
from pipeline.engine.prompt_lookup import Drafter
from pipeline.engine.prompt_reader import PromptReader
from pipeline.engine.runner import Runner
from pipeline.engine.slot_table import SlotTable
from pipeline.engine.threaded import ThreadedEngine
from pipeline.engine.warm_up import warm_up
from pipeline.settings import EngineSettings, Settings

_log = structlog.get_logger(__name__)


EXIT_ENGINE_BROKEN = 71


def load_for_slots(settings: Settings) -> LoadedModel:
    """The model that the settings name, tuned.

    Raises:
        ModelLoadError: as ``load_model``.
    """
    loaded = load_model(settings)
    tune(loaded.model, settings.engine)
    return loaded


def tune(model: Any, options: EngineSettings) -> None:
    """Have a model of transformers compute as the slot engine wants it: packed layers, no copies of heads.

    Raises:
        ModelLoadError: equal bits are wanted, and this model does not give them.
    """
    if options.deterministic:
        require_same_bits(model)
    packed = pack(model, options.rows) if options.packed else 0
    grouped = group_heads(model, same_bits=options.deterministic)
    _log.info("model tuned", packed_layers=packed, grouped_heads=grouped)
    if caps_scores(model) and not grouped:
        _log.warning(
            "scores are not capped as this model wants it", reason="transformers' sdpa leaves that out"
        )


class SlotEngine(ThreadedEngine):
    """An ``Engine`` on a causal language model of transformers.

    Args:
        settings: names the model and, in ``engine``, rows, context, threads and mode.
        load: gives the model; called on the engine's thread.
        clock: unix time in seconds, which deadlines are compared with.
    """

    thread_name = "slot-engine"

    def __init__(
        self,
        settings: Settings,
        *,
        load: Callable[[Settings], LoadedModel] = load_for_slots,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._load = load
        self._clock = clock
        self._limit: Callable[[], int] = lambda: settings.engine.rows

    def capacity(self) -> int:
        """How many more tasks would start at once."""
        return max(0, self._limit() - len(self._inbox))

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
