"""One sample while it waits and runs: its tokens, its text, its own random numbers."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

import torch

from pipeline.engine.base import Completion, GenerationTask, Position, SamplingParams, TokenLogprob
from pipeline.engine.detokenizer import Detokenizer, StopScanner, TokenTexts
from pipeline.engine.positions import Positions
from pipeline.engine.prefix import Prefix
from pipeline.engine.sampler import Ask, Draw, Warp
from pipeline.events import ErrorInfo, FinishReason


class Row:
    """The state of one accepted task; only the engine's thread changes it, but for ``cancelled``.

    Attributes:
        task: as submitted.
        number: order of submission.
        prompt: token ids; empty until the task is first looked at.
        generated: tokens drawn so far, an ending one included.
        prefix: its tokens as far as they are read, while it joins.
        cancelled: set by any thread.
    """

    def __init__(self, task: GenerationTask, number: int) -> None:
        self.task = task
        self.number = number
        self.cancelled = False
        self.prompt: tuple[int, ...] = ()
        self.generated: list[int] = []
        self.prefix: Prefix | None = None
        self._generator = torch.Generator()
        self._positions = Positions()
        self._seed: int | None = None
        self._text: list[str] = []
        self._logprob_sum = 0.0
        self._budget = 0
        self._started_at: float | None = None
        self._first_token_at: float | None = None

    def prepare(
        self, params: SamplingParams, seed: int, prompt: tuple[int, ...], budget: int, tokenizer: Any
    ) -> None:
        """Set what the checks have found: valid parameters, a seed, the prompt, how many tokens may come."""
        warp = Warp(params.temperature, params.top_p, params.top_k, params.min_p, params.repetition_penalty)
        self._seen = set(prompt)
        self.ask = Ask(warp, self._generator, self._seen, self.task.top_logprobs or 0)
        self.prompt = prompt
        self._seed = seed
        self._generator.manual_seed(seed)
        self._budget = budget
        self._detokenizer = Detokenizer(tokenizer)
        self._scanner = StopScanner(params.stop)
        self._texts = TokenTexts(tokenizer)

    def start(self, now: float) -> None:
        """Note when the row was first given a slot."""
        if self._started_at is None:
            self._started_at = now

    @property
    def ids(self) -> list[int]:
        """All tokens: the prompt's and the drawn ones."""
        return [*self.prompt, *self.generated]

    @property
    def length(self) -> int:
        """How many tokens there are in all."""
        return len(self.prompt) + len(self.generated)

    @property
    def room(self) -> int:
        """How many tokens may still be drawn."""
        return self._budget - len(self.generated)

    def accept(self, drawn: Draw, eos_ids: AbstractSet[int], now: float) -> tuple[str, FinishReason | None]:
        """Take a token; returns the text to show and, if this token ends the sample, why."""
        if self._first_token_at is None:
            self._first_token_at = now
        self.generated.append(drawn.token)
        self._seen.add(drawn.token)
        self._logprob_sum += drawn.logprob
        if self.task.top_logprobs is not None:
            self._positions.add(self._position(drawn), self._detokenizer.characters)
        if drawn.token in eos_ids:
            return "", FinishReason.STOP
        piece = self._show(self._detokenizer.push(drawn.token))
        if self._scanner.stopped:
            return piece, FinishReason.STOP
        return piece, FinishReason.LENGTH if len(self.generated) >= self._budget else None

    def flush(self, reason: FinishReason) -> tuple[str, FinishReason]:
        """The text held back until the end, and the reason it leaves: it may complete a stop text."""
        if not self.prompt or self._scanner.stopped:
            return "", reason
        piece = self._show(self._detokenizer.flush())
        if self._scanner.stopped:
            return piece, FinishReason.STOP
        tail = self._scanner.flush()
        self._text.append(tail)
        return piece + tail, reason

    def completion(self, reason: FinishReason, now: float, error: ErrorInfo | None) -> Completion:
        """How the sample ended; call ``flush`` before."""
        count = len(self.generated)
        text = "".join(self._text)
        cut = bool(self.prompt) and self._scanner.stopped
        return Completion(
            key=self.task.key,
            text=text,
            finish_reason=reason,
            prompt_tokens=len(self.prompt),
            completion_tokens=count,
            mean_logprob=self._logprob_sum / count if count else None,
            seed=self._seed if self.prompt else self.task.params.seed,
            started_at=self._started_at if self._started_at is not None else now,
            first_token_at=self._first_token_at,
            finished_at=now,
            error=error,
            positions=self._positions.kept(len(text) if cut else None),
        )

    def _position(self, drawn: Draw) -> Position:
        texts = self._texts
        top = tuple(TokenLogprob(token, logprob, texts[token]) for token, logprob in drawn.top)
        return Position(TokenLogprob(drawn.token, drawn.logprob, texts[drawn.token]), top)

    def _show(self, text: str) -> str:
        piece = self._scanner.push(text)
        self._text.append(piece)
        return piece
