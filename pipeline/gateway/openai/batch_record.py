"""A batch as it is kept, beside the files: one record, written whole by whoever serves it."""

from __future__ import annotations

import fcntl
import re
import secrets
import shutil
import time
from collections.abc import Container, Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import IO

import msgspec
import structlog

from pipeline.errors import NotFoundError
from pipeline.events import Callback
from pipeline.gateway.keys import Principal
from pipeline.gateway.openai.file_store import sees
from pipeline.gateway.openai.whole_file import whole_file

log = structlog.get_logger(__name__)

_ID = re.compile(r"batch_[0-9a-f]{32}")


class BatchStatus(StrEnum):
    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        return self in (
            BatchStatus.FAILED,
            BatchStatus.COMPLETED,
            BatchStatus.EXPIRED,
            BatchStatus.CANCELLED,
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """
    Attributes:
        owner: who asked, with what its key allowed then.
        created_at and all other times: seconds since 1970; ``None``: not yet.
        ends_as: once it is known, while what is left is written.
        total, completed, failed: lines.
        failure: why it can not be served at all.
    """

    id: str
    owner: Principal
    endpoint: str
    input_file_id: str
    created_at: int
    expires_at: int
    metadata: dict[str, str] | None = None
    callback: Callback | None = None
    status: BatchStatus = BatchStatus.VALIDATING
    ends_as: BatchStatus | None = None
    total: int = 0
    completed: int = 0
    failed: int = 0
    in_progress_at: int | None = None
    finalizing_at: int | None = None
    ended_at: int | None = None
    output_file_id: str | None = None
    error_file_id: str | None = None
    failure: str = ""

    def file_id(self, what: str) -> str:
        """The id of a file of its: the same whoever writes it, and not to be guessed without the batch's."""
        return f"file-{blake2b(f'{self.id}:{what}'.encode(), digest_size=16).hexdigest()}"


class BatchFolder:
    """Blocking: call it on threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unreadable: set[str] = set()

    def write(self, batch: Batch) -> None:
        with whole_file(self._record(batch.id)) as file:
            file.write(msgspec.json.encode(batch))

    def read(self, batch_id: str) -> Batch | None:
        try:
            return msgspec.json.decode(self._record(batch_id).read_bytes(), type=Batch)
        except FileNotFoundError:
            return None
        except msgspec.DecodeError as error:
            if batch_id not in self._unreadable:
                self._unreadable.add(batch_id)
                log.error("no record of a batch", batch=batch_id, error=str(error))
            return None

    def find(self, batch_id: str, principal: Principal) -> Batch:
        """A batch that who asks may see.

        Raises:
            NotFoundError: there is none; somebody else's is not told apart from that.
        """
        batch = self.read(batch_id) if _ID.fullmatch(batch_id) else None
        if batch is None or not sees(principal, batch.owner.tenant):
            raise NotFoundError("there is no such batch")
        return batch

    def all(self, without: Container[str] = ()) -> Iterator[Batch]:
        """Every batch but those whose ids are known."""
        for path in self._folder.glob("batch_*.json"):
            if path.stem not in without and (batch := self.read(path.stem)) is not None:
                yield batch

    def take_input(self, batch_id: str, data: Path) -> None:
        """Keep what it asks for as long as it is served, whatever becomes of the file."""
        try:
            self.input(batch_id).hardlink_to(data)
        except OSError:  # not every file system has such links
            shutil.copyfile(data, self.input(batch_id))

    def input(self, batch_id: str) -> Path:
        """Where what it asks is kept."""
        return self._folder / f"{batch_id}.input"

    def log(self, batch_id: str, what: str) -> Path:
        """Where finished lines are gathered."""
        return self._folder / f"{batch_id}.{what}"

    def cancel(self, batch_id: str) -> int:
        """Order it to stop, whoever serves it; returns when that was first ordered."""
        order = self._folder / f"{batch_id}.cancel"
        order.touch()
        return int(order.stat().st_ctime)

    def cancelled_at(self, batch_id: str) -> int | None:
        try:
            return int((self._folder / f"{batch_id}.cancel").stat().st_ctime)
        except FileNotFoundError:
            return None

    def lease(self, batch_id: str) -> IO[bytes] | None:
        """The right to serve a batch, held until this is closed or the process ends; ``None``: another has it."""
        file = (self._folder / f"{batch_id}.lease").open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def forget(self, batch_id: str) -> None:
        for path in self._folder.glob(f"{batch_id}.*"):
            path.unlink(missing_ok=True)

    def _record(self, batch_id: str) -> Path:
        return self._folder / f"{batch_id}.json"


def new_batch_id() -> str:
    return f"batch_{secrets.token_hex(16)}"


def now() -> int:
    return int(time.time())
