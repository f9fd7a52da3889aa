"""What the engines that run a model on a thread of their own share: the way in, the start and the end."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import ClassVar

from pipeline.engine.base import EngineListener, GenerationTask, TaskKey
from pipeline.engine.inbox import Inbox


class ThreadedEngine(ABC):
    """An ``Engine`` but for ``capacity``; tasks come to its thread by ``self._inbox``."""

    thread_name: ClassVar[str]

    def __init__(self) -> None:
        self._inbox = Inbox()
        self._thread: threading.Thread | None = None

    @abstractmethod
    def _main(self, listener: EngineListener, ready: Future[None]) -> None:
        """Load the model and resolve ``ready``, then work until the inbox is closed; on the engine's thread."""

    def start(self, listener: EngineListener) -> None:
        """Load the model; returns when the engine is ready.

        Raises:
            ModelLoadError: says what is wrong with the model.
        """
        ready: Future[None] = Future()
        thread = threading.Thread(
            target=self._main, args=(listener, ready), name=self.thread_name, daemon=True
        )
        self._thread = thread
        thread.start()
        ready.result()

    def submit(self, task: GenerationTask) -> bool:
        """Queue a task; ``False`` when its key is queued or running, or the engine is closed."""
        return self._inbox.submit(task)

    def cancel(self, key: TaskKey) -> None:
        """End a task as ``cancelled`` within a step, with the text so far; an unknown key is harmless."""
        self._inbox.cancel(key)

    def close(self) -> None:
        """Stop the thread; tasks that still run or wait end as ``cancelled``. Again: does nothing."""
        self._inbox.close()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
