"""An engine without a model, for load and chaos runs and for the pipeline's own latency.

Texts, durations and failures are pure functions of a sample's identity and question (``script``), so a
sample that is drawn again after a crash comes out the same.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from dataclasses import dataclass

from pipeline.engine.base import Completion, EngineListener, GenerationTask, TaskKey
from pipeline.engine.script import answer_text, fraction, kills, parse_options, toy_positions
from pipeline.engine.telling import tell_done, tell_tokens
from pipeline.errors import EngineError
from pipeline.events import ErrorInfo, FinishReason
from pipeline.settings import EngineSettings


@dataclass(slots=True)
class _Run:
    """One accepted task; ``due`` is when its next word comes."""

    task: GenerationTask
    words: tuple[str, ...]
    seconds: float
    fails: bool
    said: int = 0
    started_at: float | None = None
    first_token_at: float | None = None
    due: float = 0.0


class ScriptedEngine:
    """An ``Engine`` that says what the script says, word by word over the sample's duration.

    Args:
        options: ``script`` holds the options as JSON; ``rows`` tasks run at once, the others wait.

    Raises:
        ConfigError: the script's options are wrong.
    """

    def __init__(self, options: EngineSettings) -> None:
        self._script = parse_options(options.script)
        self._rows = self._script.rows or options.rows
        self._changed = threading.Condition()
        self._waiting: deque[_Run] = deque()
        self._running: dict[TaskKey, _Run] = {}
        self._live: dict[TaskKey, _Run] = {}
        self._cancelled: set[TaskKey] = set()
        self._closing = False
        self._thread: threading.Thread | None = None

    def start(self, listener: EngineListener) -> None:
        """Start the thread; there is nothing to load."""
        self._thread = threading.Thread(
            target=self._main, args=(listener,), name="scripted-engine", daemon=True
        )
        self._thread.start()

    def submit(self, task: GenerationTask) -> bool:
        """Queue a task; ``False`` when its key is queued or running, or the engine is closed."""
        run = self._planned(task)
        with self._changed:
            if self._closing or task.key in self._live:
                return False
            self._live[task.key] = run
            self._waiting.append(run)
            self._changed.notify()
        return True

    def cancel(self, key: TaskKey) -> None:
        """End a task as ``cancelled`` with the words so far; an unknown key is harmless."""
        with self._changed:
            if key in self._live:
                self._cancelled.add(key)
                self._changed.notify()

    def capacity(self) -> int:
        """How many more tasks would start at once."""
        with self._changed:
            return max(0, self._rows - len(self._live))

    def close(self) -> None:
        """Stop the thread; tasks that still run or wait end as ``cancelled``."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _planned(self, task: GenerationTask) -> _Run:
        script = self._script
        words = answer_text(task.key, task.messages).split(" ")
        spread = script.max_ms - script.min_ms
        milliseconds = script.min_ms + max(0.0, spread) * fraction(script.seed, "duration", task.key)
        return _Run(
            task=task,
            words=(*(f"{word} " for word in words[:-1]), words[-1]),
            seconds=milliseconds / 1000,
            fails=fraction(script.seed, "failure", task.key) < script.fail_rate,
        )

    def _main(self, listener: EngineListener) -> None:
        while (ready := self._next()) is not None:
            for run, reason in ready:
                self._say(run, reason, listener)
        with self._changed:
            remaining = list(self._live.values())
        for run in remaining:
            self._end(run, FinishReason.CANCELLED, listener)

    def _next(self) -> list[tuple[_Run, FinishReason | None]] | None:
        """Wait for runs that end early (with the reason) or whose next word is due; ``None`` when closing."""
        with self._changed:
            while not self._closing:
                now = time.time()
                ready = self._early_ends(now)
                while self._waiting and len(self._running) < self._rows:
                    run = self._waiting.popleft()
                    if kills(run.task.messages):
                        os.kill(os.getpid(), signal.SIGKILL)
                    self._running[run.task.key] = run
                    run.started_at = now
                    run.due = now + run.seconds / len(run.words)
                due = [run for run in self._running.values() if run.due <= now]
                ready += [(run, None) for run in due]
                if ready:
                    return ready
                moments = [run.due for run in self._running.values()]
                moments += [run.task.deadline for run in self._live.values()]
                self._changed.wait(max(0.0, min(moments) - now) if moments else None)
        return None

    def _early_ends(self, now: float) -> list[tuple[_Run, FinishReason | None]]:
        ends: list[tuple[_Run, FinishReason | None]] = []
        for key, run in list(self._live.items()):
            if key in self._cancelled:
                ends.append((run, FinishReason.CANCELLED))
            elif now >= run.task.deadline:
                ends.append((run, FinishReason.TIMEOUT))
        for run, _ in ends:
            self._running.pop(run.task.key, None)
            if run in self._waiting:
                self._waiting.remove(run)
        return ends

    def _say(self, run: _Run, reason: FinishReason | None, listener: EngineListener) -> None:
        """Say the next word, or end the run when all is said or ``reason`` is given."""
        if reason is not None:
            self._end(run, reason, listener)
        elif self._script.broken is not None and self._script.broken.exists():
            broken = ErrorInfo(EngineError.code, "The script says that the engine is broken", retriable=True)
            self._end(run, FinishReason.ERROR, listener, broken)
        elif run.fails:
            failed = ErrorInfo("scripted_failure", "The script lets this sample fail", retriable=True)
            self._end(run, FinishReason.ERROR, listener, failed)
        else:
            now = time.time()
            run.first_token_at = run.first_token_at or now
            run.said += 1
            run.due += run.seconds / len(run.words)
            tell_tokens(listener, run.task.key, run.words[run.said - 1])
            if run.said >= min(len(run.words), run.task.params.max_new_tokens):
                whole = run.said == len(run.words)
                self._end(run, FinishReason.STOP if whole else FinishReason.LENGTH, listener)

    def _end(
        self, run: _Run, reason: FinishReason, listener: EngineListener, error: ErrorInfo | None = None
    ) -> None:
        key = run.task.key
        with self._changed:
            self._running.pop(key, None)
            self._live.pop(key)
            self._cancelled.discard(key)
        now = time.time()
        words, top = run.words[: run.said], run.task.top_logprobs
        logprob = -fraction(self._script.seed, "logprob", key)
        completion = Completion(
            key=key,
            text="".join(words),
            finish_reason=reason,
            prompt_tokens=sum(len(message.content.split()) for message in run.task.messages),
            completion_tokens=run.said,
            mean_logprob=logprob if words else None,
            seed=run.task.params.seed,
            started_at=run.started_at or now,
            first_token_at=run.first_token_at,
            finished_at=now,
            error=error,
            positions=() if top is None else toy_positions(words, logprob, top),
        )
        tell_done(listener, completion)
