"""Serving batches: each by one gateway at a time, and by another when that one dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import IO

import structlog

from pipeline.errors import DependencyDownError
from pipeline.events import Result
from pipeline.gateway.context import Gateway
from pipeline.gateway.openai.batch_record import Batch, BatchFolder
from pipeline.gateway.openai.batch_run import BatchRun
from pipeline.gateway.openai.file_store import FileStore
from pipeline.store.rows import Stored

log = structlog.get_logger(__name__)

_AT_ONCE = 2
_LOOK = 1.0
"""Seconds after which it is looked for batches that nobody serves."""
_SWEEP = 60.0
_AGAIN = 5.0
"""Seconds after which one that could not go on is tried again."""


class BatchRunner:
    """Lives on the loop."""

    def __init__(self, gateway: Gateway, files: FileStore, folder: BatchFolder) -> None:
        self._gateway, self._files, self._folder = gateway, files, folder
        self._runs: dict[str, BatchRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._over: set[str] = set()
        self._wake = asyncio.Event()
        self._swept_at = 0.0
        gateway.store.listen(_on_loop(asyncio.get_running_loop(), self._ended))

    def look(self) -> None:
        """There is a new one."""
        self._wake.set()

    async def run(self) -> None:
        """Serve until it is cancelled; what is open then goes on elsewhere, or later."""
        try:
            while True:
                self._wake.clear()
                await self._look()
                try:
                    async with asyncio.timeout(_LOOK):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _look(self) -> None:
        try:
            if time.time() - self._swept_at > _SWEEP:
                self._swept_at = time.time()
                await asyncio.to_thread(self._sweep, self._swept_at)
            for batch in await asyncio.to_thread(self._unended):
                if batch.id in self._tasks or len(self._tasks) >= _AT_ONCE:
                    continue
                lease = await asyncio.to_thread(self._folder.lease, batch.id)
                if lease is not None:
                    self._tasks[batch.id] = asyncio.create_task(self._serve(batch.id, lease))
        except Exception:  # one that can not be read must not stop the others for good
            log.exception("batches can not be looked for")

    async def _serve(self, batch_id: str, lease: IO[bytes]) -> None:
        try:
            # Under the lease: what it was before may be out of date.
            batch = await asyncio.to_thread(self._folder.read, batch_id)
            if batch is None or batch.status.terminal:
                return
            run = self._runs[batch_id] = BatchRun(self._gateway, self._files, self._folder, batch)
            log.info("batch begun", batch=batch_id, status=str(batch.status))
            await run.run()
        except (DependencyDownError, OSError) as error:
            log.warning("batch waits", batch=batch_id, error=str(error))
            await asyncio.sleep(_AGAIN)
        except Exception:
            log.exception("batch has failed", batch=batch_id)
            await asyncio.sleep(_AGAIN)
        finally:
            lease.close()
            self._runs.pop(batch_id, None)
            self._tasks.pop(batch_id, None)
            self._wake.set()

    def _unended(self) -> list[Batch]:
        """On a thread: the oldest first."""
        found: list[Batch] = []
        for batch in self._folder.all(without=self._over):
            if batch.status.terminal:
                self._over.add(batch.id)
            else:
                found.append(batch)
        return sorted(found, key=lambda batch: batch.created_at)

    def _sweep(self, at: float) -> None:
        self._files.sweep(at)
        ttl = self._gateway.settings.gateway.file_ttl
        for batch in self._folder.all():
            if batch.status.terminal and batch.created_at + ttl < at:
                self._folder.forget(batch.id)
                self._over.discard(batch.id)

    def _ended(self, request_ids: Sequence[str]) -> None:
        for request_id in request_ids:
            if (run := self._runs.get(request_id.rpartition("-")[0])) is not None:
                run.has_ended(request_id)


def _on_loop(
    loop: asyncio.AbstractEventLoop, ended: Callable[[Sequence[str]], None]
) -> Callable[[Sequence[Stored]], None]:
    """What the store calls on its thread: hands on the ids of what has ended."""

    def stored(records: Sequence[Stored]) -> None:
        ids = [
            one.event.request_id
            for one in records
            if isinstance(one.event, Result) and one.event.status.terminal
        ]
        if ids and not loop.is_closed():
            loop.call_soon_threadsafe(ended, ids)

    return stored
