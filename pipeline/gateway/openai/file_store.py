"""Uploaded files and those that batches leave, in a folder that all gateways of a deployment share.

A file is its bytes, and beside them what is known of it, written last: without that there is no such file.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pipeline.errors import ConfigError, NotFoundError
from pipeline.gateway.keys import Principal
from pipeline.gateway.openai.whole_file import PART, whole_file

_ID = re.compile(r"file-[0-9a-f]{32}")
_ABANDONED = 3600.0
"""Seconds without a write, after which an upload that never ended is removed."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """What is known of a file.

    Attributes:
        created_at, expires_at: seconds since 1970.
    """

    id: str
    tenant: str
    filename: str
    purpose: str
    bytes: int
    created_at: int
    expires_at: int


class FileStore:
    """Blocking: call it on threads.

    Raises:
        ConfigError: the folder can not be used.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"TALLYSTREAM_GATEWAY__FILES_FOLDER: {folder} can not be made: {error.strerror}"
            ) from error

    def data(self, file_id: str) -> Path:
        """Where its bytes are."""
        return self.folder / f"{file_id}.data"

    def part(self, file_id: str) -> Path:
        """Where they are while they come."""
        return self.folder / f"{file_id}{PART}"

    def keep(self, file: StoredFile) -> None:
        """Make a file known whose bytes are there."""
        with whole_file(self._known(file.id)) as known:
            known.write(msgspec.json.encode(file))

    def find(self, file_id: str, principal: Principal) -> StoredFile:
        """A file that who asks may see.

        Raises:
            NotFoundError: there is none; somebody else's is not told apart from that.
        """
        file = self._read(file_id) if _ID.fullmatch(file_id) else None
        if file is None or file.expires_at <= time.time() or not sees(principal, file.tenant):
            raise NotFoundError("there is no such file")
        return file

    def visible(self, principal: Principal) -> list[StoredFile]:
        """All that who asks may see, newest first."""
        now = time.time()
        found = [file for file in self._all() if file.expires_at > now and sees(principal, file.tenant)]
        return sorted(found, key=lambda file: (file.created_at, file.id), reverse=True)

    def delete(self, file: StoredFile) -> None:
        self._known(file.id).unlink(missing_ok=True)
        self.data(file.id).unlink(missing_ok=True)

    def sweep(self, now: float) -> None:
        """Remove what has expired, and what was never finished."""
        for file in self._all():
            if file.expires_at <= now:
                self.delete(file)
        for part in self.folder.glob(f"*{PART}"):
            with suppress(FileNotFoundError):  # it may be finished meanwhile
                if part.stat().st_mtime < now - _ABANDONED:
                    part.unlink()

    def _all(self) -> Iterator[StoredFile]:
        for path in self.folder.glob("file-*.json"):
            if (file := self._read(path.stem)) is not None:
                yield file

    def _read(self, file_id: str) -> StoredFile | None:
        try:
            return msgspec.json.decode(self._known(file_id).read_bytes(), type=StoredFile)
        except FileNotFoundError:
            return None

    def _known(self, file_id: str) -> Path:
        return self.folder / f"{file_id}.json"


def new_file_id() -> str:
    """One that can not be guessed."""
    return f"file-{secrets.token_hex(16)}"


def sees(principal: Principal, tenant: str) -> bool:
    return principal.admin or principal.tenant == tenant
