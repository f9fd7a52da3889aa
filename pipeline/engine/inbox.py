"""The tasks an engine has accepted, shared by the threads that submit and the one that runs them."""

from __future__ import annotations

import threading
from collections import deque

from pipeline.engine.base import GenerationTask, TaskKey
from pipeline.engine.row import Row


class Inbox:
    """Live tasks by key, and those among them that wait for a slot, first come first served."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Row] = deque()
        self._live: dict[TaskKey, Row] = {}
        self._submitted = 0
        self._closed = False

    def submit(self, task: GenerationTask) -> bool:
        """Queue a task; ``False`` when its key is live or the inbox is closed."""
        with self._changed:
            if self._closed or task.key in self._live:
                return False
            row = Row(task, self._submitted)
            self._submitted += 1
            self._live[task.key] = row
            self._waiting.append(row)
            self._changed.notify()
        return True

    def cancel(self, key: TaskKey) -> None:
        """Mark a task as cancelled; an unknown key is harmless."""
        with self._changed:
            row = self._live.get(key)
            if row is not None:
                row.cancelled = True

    def close(self) -> None:
        """Accept nothing more and wake the engine."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def wait(self) -> bool:
        """Block until there is a live task; ``False`` once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._live or self._closed)
            return not self._closed

    def take(self) -> Row | None:
        """The task that has waited longest."""
        with self._changed:
            return self._waiting.popleft() if self._waiting else None

    def put_back(self, rows: list[Row]) -> None:
        """Let rows wait again, ahead of all others, the last of ``rows`` first."""
        with self._changed:
            self._waiting.extendleft(rows)

    def remove(self, row: Row) -> None:
        """Forget a task that ends."""
        with self._changed:
            if row in self._waiting:
                self._waiting.remove(row)
            del self._live[row.task.key]

    def rows(self) -> list[Row]:
        """Every live task, oldest first."""
        with self._changed:
            return list(self._live.values())

    def __len__(self) -> int:
        with self._changed:
            return len(self._live)
