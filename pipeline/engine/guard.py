"""transformers' continuous batching manager behind a guard: only what it survives gets through.

What it does not survive by itself (transformers 5.17): a temperature of 0, an id given twice or a prompt larger than
its cache ends its loop and fails every request in it; an integer temperature fails the request; a cancelled
request is never heard of again.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import importlib
import queue
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from pipeline.engine.base import GenerationTask, SamplingParams
from pipeline.engine.model import LoadedModel
from pipeline.errors import UnsupportedSamplingError

_BLOCK = 256
_BATCH_TOKENS = 512
_STOP_PATIENCE = 30.0


@dataclass(frozen=True, slots=True)
class Heard:
    """What the manager says of one request.

    Attributes:
        tokens: all that were drawn since its submission.
        complete: it has ended as it should.
        error: why the manager gave it up; its loop goes on.
    """

    id: str
    tokens: Sequence[int]
    complete: bool
    error: str | None


class ManagerGuard:
    """One manager at a time, rebuilt when its loop has died.

    Args:
        loaded: the model.
        rows: requests at once. The cache holds so many whole contexts, so none is ever too large for it.
    """

    def __init__(self, loaded: LoadedModel, rows: int) -> None:
        self._loaded = loaded
        self._rows = rows
        self._ids = count()
        self._vocabulary: int = loaded.model.config.get_text_config().vocab_size
        self._manager: Any = None

    def build(self) -> None:
        """Start a manager; an earlier one is stopped and its cache given back."""
        self.stop()
        transformers: Any = importlib.import_module("transformers")
        model = self._loaded.model
        if model.device.type == "cpu":
            # Else it looks for flash attention, which is fetched from the hub and needs a GPU.
            model.set_attn_implementation("paged|sdpa")
        manager = model.init_continuous_batching(
            # A processor is made only for what is not neutral here; each request then has its own values.
            generation_config=transformers.GenerationConfig(
                do_sample=True,
                temperature=0.5,
                top_k=50,
                top_p=0.5,
                eos_token_id=sorted(self._loaded.eos_ids) or -1,
                pad_token_id=0,
            ),
            continuous_batching_config=transformers.ContinuousBatchingConfig(
                block_size=_BLOCK,
                num_blocks=self._rows * -(-self._loaded.context // _BLOCK),
                max_batch_tokens=max(_BATCH_TOKENS, self._rows),
                per_request_processors=True,
                use_async_batching=False,
            ),
        )
        manager.start()
        self._manager = manager

    @property
    def alive(self) -> bool:
        """Whether the loop takes requests and runs."""
        manager = self._manager
        return (
            bool(manager.is_running()) and manager.background_thread_status.can_accept_new_requests() is None
        )

    def submit(self, ids: Sequence[int], budget: int, params: SamplingParams) -> str:
        """Hand a request over; returns the id under which it is heard of, never used before.

        Args:
            ids: with ``budget`` more tokens no longer than the context.
            params: checked and supported.
        """
        request_id = f"tallystream-{next(self._ids)}"
        greedy = params.temperature == 0
        self._manager.add_request(
            input_ids=list(ids),
            request_id=request_id,
            max_new_tokens=budget,
            streaming=True,
            eos_token_id=sorted(self._loaded.eos_ids),
            temperature=1.0 if greedy else float(params.temperature),
            top_k=1 if greedy else min(params.top_k or self._vocabulary, self._vocabulary),
            top_p=float(params.top_p),
        )
        return request_id

    def cancel(self, request_id: str) -> None:
        """Free what a request holds; nothing is heard of it any more."""
        self._manager.cancel_request(request_id)

    def heard(self, timeout: float) -> Iterator[Heard]:
        """What has been said since the last call; waits for the first word, at most so many seconds."""
        outputs: queue.Queue[Any] = self._manager.output_router.output_queue
        try:
            while True:
                output = outputs.get(timeout=timeout)
                complete = output.is_finished() and output.error is None
                yield Heard(output.request_id, output.generated_tokens, complete, output.error)
                timeout = 0.0
        except queue.Empty:
            return

    def stop(self) -> None:
        """Stop the manager, whatever runs. Again: does nothing."""
        manager, self._manager = self._manager, None
        if manager is not None:
            manager.stop(block=True, timeout=_STOP_PATIENCE, hard_stop=True)


def require_supported(task: GenerationTask) -> None:
    """Refuse what the manager can not do, rather than do something else.

    Args:
        task: with checked parameters.

    Raises:
        UnsupportedSamplingError: names the parameter.
    """
    params = task.params
    wanted = {
        "seed": params.seed is not None and params.temperature > 0,
        "min_p": params.min_p > 0,
        "repetition_penalty": params.repetition_penalty != 1,
        "top_logprobs": task.top_logprobs is not None,
        "images": bool(task.images),
    }
    for name, asked in wanted.items():
        if asked:
            raise UnsupportedSamplingError(
                f"{name} is not possible with the engine transformers: leave it out, or use the engine slots",
                field=name,
            )
