"""Serving one batch, from wherever another process has left it.

1. the record says ``in_progress``                    (killed before: it is begun anew, nothing was asked)
2. every line that is not in the log is asked         (killed: asked again under the same id, which is once)
3. what has ended is added to the log, line by line   (killed: a torn line is cut off, and added again)
4. the record says ``finalizing`` and how it ends     (killed: what follows is done again)
5. the logs become files
6. the end is told, and the record says it            (killed between: it is told twice under one id)
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import IO

import structlog

from pipeline.client import control_record
from pipeline.errors import (
    DependencyDownError,
    GoneError,
    InvalidRequestError,
    OverloadedError,
    TallystreamError,
    TooManyRequestsError,
)
from pipeline.events import PRIORITIES, Control, ControlAction, Status
from pipeline.gateway.context import Gateway
from pipeline.gateway.openai.asking import Asker
from pipeline.gateway.openai.batch_lines import (
    LONGEST_LINE,
    BadLine,
    Line,
    answered,
    error_line,
    output_line,
    read_line,
)
from pipeline.gateway.openai.batch_log import BatchLog
from pipeline.gateway.openai.batch_record import Batch, BatchFolder, BatchStatus, now
from pipeline.gateway.openai.batch_told import told
from pipeline.gateway.openai.file_store import FileStore, StoredFile
from pipeline.gateway.openai.models import check_model, model_name
from pipeline.gateway.openai.submitting import guard_of
from pipeline.store.tasks import Task
from pipeline.telemetry import now_ms

log = structlog.get_logger(__name__)

OUTPUT, ERRORS = "output", "errors"
MOST_LINES = 50_000
_LOT = 100
_LOOK, _SURE_LOOK = 0.5, 10.0
"""Seconds after which it is looked for an order to cancel, and for ends that nobody told of."""
_COUNT = 1.0
"""Seconds after which the record tells how many lines have ended."""
_LAST_WAIT = 60.0
"""Seconds that lines which were stopped are waited for; what has ended by then counts."""
_STOPPED = "the batch was stopped before this was answered"
_CODES = {BatchStatus.CANCELLED: "batch_cancelled", BatchStatus.EXPIRED: "batch_expired"}


class BatchRun:
    """One batch that this process has the lease of."""

    def __init__(self, gateway: Gateway, files: FileStore, folder: BatchFolder, batch: Batch) -> None:
        self._gateway, self._files, self._folder, self._batch = gateway, files, folder, batch
        self._window = gateway.settings.gateway.batch_window
        self._model = model_name(gateway.settings)
        self._open: dict[str, tuple[int, str]] = {}
        self._ended: set[str] = set()
        self._moved = asyncio.Event()
        self._stop: BatchStatus | None = None
        self._orders_at = self._sure_at = self._counted_at = 0.0

    def has_ended(self, request_id: str) -> None:
        """The view shows the end of a line's task; called on the loop."""
        if request_id in self._open:
            self._ended.add(request_id)
            self._moved.set()

    async def run(self) -> None:
        """Serve it to its end.

        Raises:
            DependencyDownError, OSError: it can go on later, here or elsewhere.
        """
        if self._batch.status is not BatchStatus.FINALIZING:
            await self._serve()
        if not self._batch.status.terminal:
            await self._finish()

    async def _serve(self) -> None:
        batch = self._batch
        try:
            source = await asyncio.to_thread(self._folder.input(batch.id).open, "rb")
        except FileNotFoundError:
            await self._fail("its input is not there any more")
            return
        with source:
            total = await asyncio.to_thread(_count, source)
            if not 0 < total <= MOST_LINES:
                await self._fail(f"a batch has 1 to {MOST_LINES:,} lines, not {total:,}")
                return
            fresh = batch.status is BatchStatus.VALIDATING
            await self._note(
                status=BatchStatus.IN_PROGRESS, total=total, in_progress_at=batch.in_progress_at or now()
            )
            paths = [self._folder.log(batch.id, what) for what in (OUTPUT, ERRORS)]
            self._log = await asyncio.to_thread(BatchLog, *paths)
            try:
                await self._ask_all(source, fresh)
                await self._wait_for_all()
            finally:
                await asyncio.to_thread(self._log.close)
        await self._note(
            status=BatchStatus.FINALIZING,
            finalizing_at=now(),
            completed=self._log.completed,
            failed=self._log.failed,
            ends_as=self._stop or BatchStatus.COMPLETED,
        )

    async def _ask_all(self, source: IO[bytes], fresh: bool) -> None:
        batch, settings = self._batch, self._gateway.settings
        # A line has the batch's whole time, not the seconds of somebody who waits; it must not hang on the clock,
        # for the same id with other content is refused.
        day = 1000 * (batch.expires_at - batch.created_at)
        asker = Asker(batch.owner.tenant, guard_of(settings), PRIORITIES - 1, day)
        names: set[str] = set()
        lines = _numbered(source)
        while lot := await asyncio.to_thread(lambda: list(islice(lines, _LOT))):
            for number, text in lot:
                line = read_line(
                    text, number, batch.id, batch.endpoint, asker, partial(check_model, settings)
                )
                if isinstance(line, Line) and line.custom_id in names:
                    line = BadLine(
                        number,
                        line.custom_id,
                        InvalidRequestError("an earlier line has this custom_id", field="custom_id"),
                    )
                elif line.custom_id is not None:
                    names.add(line.custom_id)
                if number not in self._log.done:
                    await self._take(line, fresh)

    async def _take(self, line: Line | BadLine, fresh: bool) -> None:
        if isinstance(line, BadLine):
            await self._lost(
                line.number, line.custom_id, line.error.code, line.error.message, line.error.field
            )
            return
        while len(self._open) >= self._window:
            await self._step()
        request_id = line.request.request_id
        self._open[request_id] = line.number, line.custom_id
        known = None if fresh else await self._patient_task(request_id)
        if known is not None:
            if known.status.terminal:
                self.has_ended(request_id)
            elif self._stop is not None:
                await self._cancel(request_id)
        elif self._stop is None:
            await self._submit(line)
        if self._stop is not None and known is None and request_id in self._open:
            await self._never_asked(request_id)

    async def _submit(self, line: Line) -> None:
        """Ask a line as soon as it is let in, unless the batch is stopped before."""
        while self._stop is None:
            try:
                await self._gateway.submissions.submit_named(line.request, self._batch.owner)
                return
            except (OverloadedError, TooManyRequestsError, DependencyDownError) as error:
                await self._pause(error.retry_after or 1.0)
            except TallystreamError as error:
                del self._open[line.request.request_id]
                await self._lost(line.number, line.custom_id, error.code, error.message, error.field)
                return

    async def _never_asked(self, request_id: str) -> None:
        """A line that was not let in before the batch was stopped; it may be in Kafka if that did not say so."""
        await self._cancel(request_id)
        await self._lost_open(request_id)

    async def _wait_for_all(self) -> None:
        patience: float | None = None
        while self._open:
            await self._step()
            if self._stop is None:
                continue
            at = asyncio.get_running_loop().time()
            patience = at + _LAST_WAIT if patience is None else patience
            if at > patience:
                for request_id in list(self._open):
                    await self._lost_open(request_id)

    async def _pause(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while loop.time() < until and self._stop is None:
            await self._step()

    async def _step(self) -> None:
        """Take in what has ended, or wait for something to do so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK):
                await self._moved.wait()
        self._moved.clear()
        at = asyncio.get_running_loop().time()
        if at - self._orders_at > _LOOK:
            self._orders_at = at
            await self._look_for_orders()
        if at - self._sure_at > _SURE_LOOK:
            self._sure_at = at
            self._ended.update(self._open)
        ended, self._ended = [each for each in self._open if each in self._ended], set[str]()
        completed: list[tuple[int, bytes]] = []
        failed: list[tuple[int, bytes]] = []
        for request_id in ended:
            task = await self._gateway.store.task(request_id)
            if task is None or not task.status.terminal:
                continue
            number, custom_id = self._open.pop(request_id)
            if answered(task) and task.result is not None:
                completed.append((number, output_line(task, self._batch.endpoint, self._model)))
            else:
                failed.append((number, self._failed_line(task, number, custom_id)))
        if completed or failed:
            await asyncio.to_thread(self._log.write, completed, failed)
        counts = {"completed": self._log.completed, "failed": self._log.failed}
        known = {"completed": self._batch.completed, "failed": self._batch.failed}
        if counts != known and at - self._counted_at > _COUNT:
            self._counted_at = at
            await self._note(**counts)

    async def _look_for_orders(self) -> None:
        if self._stop is not None:
            return
        if await asyncio.to_thread(self._folder.cancelled_at, self._batch.id) is not None:
            self._stop = BatchStatus.CANCELLED
        elif now() >= self._batch.expires_at:
            self._stop = BatchStatus.EXPIRED
        else:
            return
        await asyncio.gather(*map(self._cancel, self._open))

    async def _cancel(self, request_id: str) -> None:
        word = Control(request_id, 0, ControlAction.CANCEL, now_ms(), "its batch was stopped")
        await self._gateway.intake.write(control_record(self._gateway.codec, word))

    def _failed_line(self, task: Task, number: int, custom_id: str) -> bytes:
        error = task.result.error if task.result else None
        if self._stop is not None and task.status is Status.CANCELLED:
            code, message = _CODES[self._stop], _STOPPED
        elif task.gone:
            code, message = GoneError.code, "the answer is not kept any more"
        else:
            code = error.code if error else str(task.status)
            message = error.message if error else f"the task is {task.status}"
        return error_line(self._batch.id, number, custom_id, code, message)

    async def _lost_open(self, request_id: str) -> None:
        number, custom_id = self._open.pop(request_id)
        assert self._stop is not None
        await self._lost(number, custom_id, _CODES[self._stop], _STOPPED)

    async def _lost(
        self, number: int, custom_id: str | None, code: str, message: str, param: str | None = None
    ) -> None:
        line = error_line(self._batch.id, number, custom_id, code, message, param)
        await asyncio.to_thread(self._log.write, (), [(number, line)])

    async def _patient_task(self, request_id: str) -> Task | None:
        """What an earlier server of the batch has asked."""
        while True:
            try:
                return await self._gateway.store.fresh_task(request_id)
            except DependencyDownError:
                await self._pause(1.0)

    async def _finish(self) -> None:
        """The logs become files, and the batch has ended; each step can be done twice."""
        batch = self._batch
        kept: list[str | None] = [await asyncio.to_thread(self._keep, what) for what in (OUTPUT, ERRORS)]
        ended = replace(
            batch,
            status=batch.ends_as or BatchStatus.COMPLETED,
            ended_at=now(),
            output_file_id=kept[0],
            error_file_id=kept[1],
        )
        if (record := told(ended, self._gateway.settings.shards, self._gateway.codec, now_ms())) is not None:
            await self._gateway.intake.write(record)
        await asyncio.to_thread(self._folder.write, ended)
        await asyncio.to_thread(self._folder.input(batch.id).unlink, missing_ok=True)
        self._batch = ended
        log.info("batch ended", batch=batch.id, status=str(ended.status), completed=ended.completed)

    def _keep(self, what: str) -> str | None:
        """On a thread: the id of a file of the batch, if there is anything in it."""
        batch = self._batch
        path, file_id = self._folder.log(batch.id, what), batch.file_id(what)
        data = self._files.data(file_id)
        if path.exists():
            if not path.stat().st_size:
                path.unlink()
                return None
            path.replace(data)
        if not data.exists():
            return None
        at, ttl = now(), round(self._gateway.settings.gateway.file_ttl)
        size = data.stat().st_size
        filename = f"{batch.id}_{what}.jsonl"
        self._files.keep(
            StoredFile(file_id, batch.owner.tenant, filename, "batch_output", size, at, at + ttl)
        )
        return file_id

    async def _fail(self, why: str) -> None:
        await self._note(
            status=BatchStatus.FINALIZING, finalizing_at=now(), ends_as=BatchStatus.FAILED, failure=why
        )

    async def _note(self, **changes: object) -> None:
        self._batch = replace(self._batch, **changes)  # pyright: ignore[reportArgumentType]
        await asyncio.to_thread(self._folder.write, self._batch)


def _numbered(source: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Lines that are not empty, with their numbers in the file, from 1; of one that is too long, its beginning."""
    source.seek(0)
    number = 0
    while text := source.readline(LONGEST_LINE + 1):
        number += 1
        if text.strip():
            yield number, text
        while not text.endswith(b"\n") and (text := source.readline(LONGEST_LINE + 1)):
            pass


def _count(source: IO[bytes]) -> int:
    return sum(1 for _ in _numbered(source))
