"""One sample of the engine ``http``: what its calls have brought, and its one end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeline.engine.base import Completion, EngineListener, GenerationTask
from pipeline.engine.detokenizer import StopScanner
from pipeline.engine.openai_protocol import Delta, TokenCounts
from pipeline.engine.positions import Positions
from pipeline.engine.telling import tell_done, tell_tokens
from pipeline.errors import ServerRefusedError
from pipeline.events import ErrorInfo, FinishReason


class _Attempt:
    """What one call has brought of a sample."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self.scanner = StopScanner(stops)
        self.text = ""
        self.logprobs: list[float] = []
        self.positions = Positions()
        self.received = 0
        self.pieces = 0
        self.counts: TokenCounts | None = None

    @property
    def tokens(self) -> int:
        """As the server counts, else its log-probabilities, else its pieces of text: at most the truth."""
        return self.counts.completion if self.counts else len(self.logprobs) or self.pieces


class HttpSample:
    """A task from its submission to its end; lives on the engine's event loop.

    Args:
        task: with parameters that are checked.
        clock: unix time in seconds.
        ended: called once, before the listener hears of the end.
    """

    def __init__(
        self,
        task: GenerationTask,
        listener: EngineListener,
        clock: Callable[[], float],
        ended: Callable[[HttpSample], None],
    ) -> None:
        self.task = task
        self.ended = False
        self.reason: FinishReason | None = None
        self._listener = listener
        self._clock = clock
        self._when_ended = ended
        self._attempt = self._furthest = _Attempt(task.params.stop)
        self._shown = ""
        self._started_at: float | None = None
        self._first_token_at: float | None = None

    def begin(self) -> None:
        """A call for this sample starts, maybe not the first: nothing of an earlier one is kept but its best."""
        if self._started_at is None:
            self._started_at = self._clock()
        self._keep_furthest()
        self._attempt = _Attempt(self.task.params.stop)
        self.reason = None

    def add(self, delta: Delta) -> None:
        """Take an event in; ``reason`` is set by the last one, or when a stop text has come."""
        if self.reason is not None:
            return
        attempt = self._attempt
        self._add_positions(delta)
        if delta.text:
            attempt.received += len(delta.text)
            self._first_token_at = self._first_token_at or self._clock()
            attempt.pieces += 1
            attempt.text += attempt.scanner.push(delta.text)
        self.reason = FinishReason.STOP if attempt.scanner.stopped else delta.reason
        if self.reason is not None and not attempt.scanner.stopped:
            attempt.text += attempt.scanner.flush()
        self._show()

    def _add_positions(self, delta: Delta) -> None:
        attempt, top = self._attempt, self.task.top_logprobs
        attempt.logprobs += [position.drawn.logprob for position in delta.positions]
        if top is None:
            return
        start = attempt.received
        for position in delta.positions:
            attempt.positions.add(replace(position, top=position.top[:top]), start)
            start += len(position.drawn.text)

    @property
    def stopped(self) -> bool:
        """Whether a stop text has come, so that whatever the server says next is not part of the sample."""
        return self._attempt.scanner.stopped

    def count(self, counts: TokenCounts) -> None:
        """Take in what the call used, when the call was for this sample alone."""
        self._attempt.counts = counts

    def finish(self) -> None:
        """End as the server has said."""
        if self.reason is FinishReason.ERROR:
            error = ServerRefusedError("The model server filtered the answer")
            self.end(FinishReason.ERROR, ErrorInfo(error.code, error.message, error.retriable))
        else:
            self.end(self.reason or FinishReason.STOP)

    def end(self, reason: FinishReason, error: ErrorInfo | None = None) -> None:
        """End with what there is. Again: does nothing."""
        if self.ended:
            return
        self.ended = True
        self._when_ended(self)
        if self.reason is None:
            self._attempt.text += self._attempt.scanner.flush()
            self._show()
            self._keep_furthest()
        else:
            self._furthest = self._attempt
        self._tell_done(reason, error)

    def _tell_done(self, reason: FinishReason, error: ErrorInfo | None) -> None:
        best, now = self._furthest, self._clock()
        cut = reason is FinishReason.STOP and bool(self.task.params.stop)
        completion = Completion(
            key=self.task.key,
            text=best.text,
            finish_reason=reason,
            prompt_tokens=best.counts.prompt if best.counts else 0,
            completion_tokens=best.tokens,
            mean_logprob=sum(best.logprobs) / len(best.logprobs) if best.logprobs else None,
            seed=self.task.params.seed,
            started_at=self._started_at if self._started_at is not None else now,
            first_token_at=self._first_token_at,
            finished_at=now,
            error=error,
            positions=best.positions.kept(len(best.text) if cut else None),
        )
        tell_done(self._listener, completion)

    def _keep_furthest(self) -> None:
        if len(self._attempt.text) > len(self._furthest.text):
            self._furthest = self._attempt

    def _show(self) -> None:
        """Show what is new; after a repeated call only what goes on from what was shown."""
        text = self._attempt.text
        if len(text) <= len(self._shown) or not text.startswith(self._shown):
            return
        piece, self._shown = text[len(self._shown) :], text
        tell_tokens(self._listener, self.task.key, piece)
