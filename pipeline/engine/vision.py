"""The engine ``vision``: an image-text model, one sample after another.

Each sample is drawn alone from its own generator, so its tokens depend on nothing but the task, and the same
seed gives the same tokens whatever waits beside it.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import torch

from pipeline.engine.base import EngineListener
from pipeline.engine.params import checked, checked_top_logprobs
from pipeline.engine.row import Row
from pipeline.engine.sampler import draw
from pipeline.engine.slot_table import describe
from pipeline.engine.slots import thread_count
from pipeline.engine.telling import tell_done, tell_tokens
from pipeline.engine.threaded import ThreadedEngine
from pipeline.engine.vision_images import read_images, views
from pipeline.engine.vision_model import VisionModel, load_vision_model
from pipeline.errors import ContextExceededError
from pipeline.events import ErrorInfo, FinishReason
from pipeline.settings import Settings


class VisionEngine(ThreadedEngine):
    """An ``Engine`` on an image-text model of transformers.

    Args:
        settings: names the model and, in ``engine``, context, threads and the folder of images.
        load: gives the model; called on the engine's thread.
        clock: unix time in seconds, which deadlines are compared with.
    """

    thread_name = "vision-engine"

    def __init__(
        self,
        settings: Settings,
        *,
        load: Callable[[Settings], VisionModel] = load_vision_model,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._settings = settings
        self._load = load
        self._clock = clock

    def capacity(self) -> int:
        """One more when nothing runs: what waits here could wait in its lane."""
        return max(0, 1 - len(self._inbox))

    def _main(self, listener: EngineListener, ready: Future[None]) -> None:
        self._listener = listener
        with torch.inference_mode():
            try:
                torch.set_num_threads(thread_count(self._settings.engine))
                self._vision = self._load(self._settings)
            except BaseException as error:
                ready.set_exception(error)
                return
            ready.set_result(None)
            while self._inbox.wait():
                row = self._inbox.take()
                if row is not None and self._goes_on(row):
                    self._draw(row)
            for row in self._inbox.rows():
                self._finish(row, FinishReason.CANCELLED)

    def _draw(self, row: Row) -> None:
        """Draw one sample to its end; whatever goes wrong is its own error."""
        row.start(self._clock())
        model = self._vision.loaded.model
        try:
            output = model(**self._prepare(row), use_cache=True, logits_to_keep=1)
            while True:
                [drawn] = draw(output.logits[:, -1], [row.ask])
                if isinstance(drawn, Exception):
                    raise drawn
                piece, reason = row.accept(drawn, self._vision.loaded.eos_ids, self._clock())
                tell_tokens(self._listener, row.task.key, piece)
                if reason is not None:
                    self._finish(row, reason)
                    return
                if not self._goes_on(row):
                    return
                step = torch.tensor([[drawn.token]], device=model.device)
                output = model(input_ids=step, past_key_values=output.past_key_values, use_cache=True)
        except Exception as error:
            self._finish(row, FinishReason.ERROR, describe(error))

    def _prepare(self, row: Row) -> dict[str, Any]:
        """Check a task; returns the model's inputs for its prompt.

        Raises:
            GenerationError: why this task can't run.
        """
        task, loaded = row.task, self._vision.loaded
        params = checked(task.params)
        checked_top_logprobs(task.top_logprobs)
        shown = views(task.path, read_images(task.images, self._settings.engine.image_folder))
        inputs = self._vision.inputs(task.messages, shown)
        prompt: tuple[int, ...] = tuple(inputs["input_ids"][0].tolist())
        room = loaded.context - len(prompt)
        if room <= 0:
            raise ContextExceededError(
                f"The prompt has {len(prompt)} tokens, its images included, and the context holds "
                f"{loaded.context}, the answer included"
            )
        seed = secrets.randbits(63) if params.seed is None else params.seed
        row.prepare(params, seed, prompt, min(params.max_new_tokens, room), loaded.tokenizer)
        return inputs

    def _goes_on(self, row: Row) -> bool:
        """End what is cancelled, late or left at closing; whether ``row`` is none of it."""
        now, closing = self._clock(), not self._inbox.wait()
        for each in self._inbox.rows():
            if each.cancelled or closing:
                self._finish(each, FinishReason.CANCELLED)
            elif now >= each.task.deadline:
                self._finish(each, FinishReason.TIMEOUT)
        return row in self._inbox.rows()

    def _finish(self, row: Row, reason: FinishReason, error: ErrorInfo | None = None) -> None:
        self._inbox.remove(row)
        piece, reason = row.flush(reason)
        tell_tokens(self._listener, row.task.key, piece)
        tell_done(self._listener, row.completion(reason, self._clock(), error))
