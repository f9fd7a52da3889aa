"""The engine ``http``: an OpenAI-compatible server draws, vLLM, SGLang, llama.cpp or ``transformers serve``.

Calls run on an event loop of the engine's own thread, at most ``rows`` samples at once. A call that fails
for a reason that may pass is repeated until the sample's deadline.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace

import structlog

from pipeline.engine.base import EngineListener, GenerationTask, TaskKey
from pipeline.engine.http_retry import delay_before
from pipeline.engine.http_sample import HttpSample
from pipeline.engine.http_server import ModelServer
from pipeline.engine.http_turns import Turns
from pipeline.engine.params import checked, checked_top_logprobs
from pipeline.errors import (
    EmptyPromptError,
    EngineError,
    ModelServerDownError,
    TallystreamError,
    UnsupportedSamplingError,
)
from pipeline.events import ErrorInfo, FinishReason
from pipeline.settings import Settings

_log = structlog.get_logger(__name__)


class HttpEngine:
    """An ``Engine`` without a model of its own.

    Args:
        settings: ``http_engine`` names the server, ``engine.rows`` is how many samples are drawn at once.
        clock: unix time in seconds, which deadlines are compared with.

    Raises:
        ConfigError: the URL or the key is wrong.
    """

    def __init__(self, settings: Settings, *, clock: Callable[[], float] = time.time) -> None:
        self._options = settings.http_engine
        self._rows = settings.engine.rows
        self._clock = clock
        self._server = ModelServer(settings.http_engine)
        self._lock = threading.Lock()
        self._live: set[TaskKey] = set()
        self._closing = False
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._turns = Turns(self._rows)
        self._samples: dict[TaskKey, HttpSample] = {}
        self._calls: dict[TaskKey, asyncio.Task[None]] = {}
        self._gathered: list[HttpSample] = []
        self._thread: threading.Thread | None = None

    def start(self, listener: EngineListener) -> None:
        """Reach the server and learn its model's name; returns when samples can be drawn.

        Raises:
            ModelServerDownError: no answer within ``http_engine.start_timeout``.
            ModelLoadError: the server refuses, or has no model.
        """
        self._listener = listener
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._main, args=(ready,), name="http-engine", daemon=True)
        self._thread.start()
        ready.result()

    def submit(self, task: GenerationTask) -> bool:
        """Queue a task; ``False`` when its key is queued or running, or the engine is closed."""
        with self._lock:
            if self._closing or task.key in self._live:
                return False
            self._live.add(task.key)
            self._loop.call_soon_threadsafe(self._take, task)
        return True

    def cancel(self, key: TaskKey) -> None:
        """End a task as ``cancelled`` with the text so far and close its connection."""
        with self._lock:
            if key in self._live:
                self._loop.call_soon_threadsafe(self._cancel, key)

    def capacity(self) -> int:
        """How many more tasks would start at once; while the server is away, one task at a time finds out."""
        with self._lock:
            rows = 1 if self._server.away else self._rows
            return max(0, rows - len(self._live))

    def close(self) -> None:
        """Stop the thread; tasks that still run or wait end as ``cancelled``. Again: does nothing."""
        with self._lock:
            first, self._closing = not self._closing, True
            if first and self._thread is not None:
                # A start that has failed has closed its loop already.
                with suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread is None:
            self._loop.close()
        elif self._thread is not threading.current_thread():
            self._thread.join()

    def _main(self, ready: Future[None]) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(ready))

    async def _serve(self, ready: Future[None]) -> None:
        async with self._server:
            try:
                model = await self._find_model()
            except BaseException as error:
                ready.set_exception(error)
                return
            _log.info("model server found", url=self._server.name, model=model)
            ready.set_result(None)
            await self._stop.wait()
            calls = set(self._calls.values())
            for key in list(self._samples):
                self._cancel(key)
            await asyncio.gather(*calls, return_exceptions=True)

    async def _find_model(self) -> str:
        give_up = self._loop.time() + self._options.start_timeout
        attempt = 0
        while True:
            try:
                return await self._server.find_model()
            except ModelServerDownError as error:
                wait = delay_before(attempt, self._options, random.random(), error.retry_after)
                if self._loop.time() + wait > give_up or self._stop.is_set():
                    raise
                _log.warning("waiting for the model server", error=error.message)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), wait)
            attempt += 1

    def _take(self, task: GenerationTask) -> None:
        """On the loop: check a task and start its call."""
        sample = HttpSample(task, self._listener, self._clock, self._ended)
        self._samples[task.key] = sample
        try:
            sample.task = replace(task, params=checked(task.params))
            checked_top_logprobs(task.top_logprobs)
            if not any(turn.content.strip() for turn in task.messages if turn.role != "system"):
                raise EmptyPromptError("The prompt is empty")
            if task.images:
                raise UnsupportedSamplingError(
                    "images are not sent by the engine http: use the engine vision"
                )
        except TallystreamError as error:
            sample.end(FinishReason.ERROR, _info(error))
        else:
            self._place(sample)

    def _place(self, sample: HttpSample) -> None:
        """Start the sample's call, or let it wait for siblings."""
        if not self._options.share_calls_ms or sample.task.params.seed is not None:
            self._start([sample])
            return
        self._gathered.append(sample)
        if len(self._gathered) == 1:
            self._loop.call_later(self._options.share_calls_ms / 1000, self._start_gathered)
        elif len(self._gathered) >= self._rows:
            self._start_gathered()

    def _start_gathered(self) -> None:
        """Start a call for each prompt that has gathered; may come early or for nothing."""
        waiting, self._gathered = [sample for sample in self._gathered if not sample.ended], []
        while waiting:
            first = waiting[0].task
            alike = [
                sample
                for sample in waiting
                if replace(sample.task, key=first.key, deadline=first.deadline) == first
            ]
            call = alike[: self._rows]
            waiting = [sample for sample in waiting if sample not in call]
            self._start(call)

    def _start(self, samples: Sequence[HttpSample]) -> None:
        call = self._loop.create_task(self._draw(samples))
        for sample in samples:
            self._calls[sample.task.key] = call

    async def _draw(self, samples: Sequence[HttpSample]) -> None:
        """See samples that are alike to their ends."""
        try:
            async with (
                asyncio.timeout(min(sample.task.deadline for sample in samples) - self._clock()),
                self._turns.taken(len(samples)),
            ):
                await self._call_until_answered(samples)
        except TimeoutError:
            _end_all(samples, FinishReason.TIMEOUT)
        except asyncio.CancelledError:
            _end_all(samples, FinishReason.CANCELLED)
        except TallystreamError as error:
            _end_all(samples, FinishReason.ERROR, _info(error))
        except Exception as error:
            _log.exception("model call failed")
            problem = EngineError(f"The call of the model server failed: {type(error).__name__}: {error}")
            _end_all(samples, FinishReason.ERROR, _info(problem))

    async def _call_until_answered(self, samples: Sequence[HttpSample]) -> None:
        attempt = 0
        while remaining := [sample for sample in samples if not sample.ended]:
            for sample in remaining:
                sample.begin()
            try:
                await self._server.call(remaining)
            except ModelServerDownError as error:
                wait = delay_before(attempt, self._options, random.random(), error.retry_after)
                _log.warning(
                    "model call is repeated", error=error.message, attempt=attempt + 1, wait_s=round(wait, 2)
                )
                await asyncio.sleep(wait)
            attempt += 1

    def _cancel(self, key: TaskKey) -> None:
        """On the loop: end a sample; its call ends with the last of its samples."""
        sample = self._samples.get(key)
        if sample is None:
            return
        call = self._calls.get(key)
        sample.end(FinishReason.CANCELLED)
        if call is not None and call not in self._calls.values():
            call.cancel()

    def _ended(self, sample: HttpSample) -> None:
        key = sample.task.key
        self._calls.pop(key, None)
        del self._samples[key]
        with self._lock:
            self._live.discard(key)


def _info(error: TallystreamError) -> ErrorInfo:
    return ErrorInfo(error.code, error.message, error.retriable)


def _end_all(samples: Sequence[HttpSample], reason: FinishReason, error: ErrorInfo | None = None) -> None:
    for sample in samples:
        sample.end(reason, error)
