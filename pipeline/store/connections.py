"""Connections to the view's file: one a thread, and a new file when the old one is of no use."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from pathlib import Path

import structlog

from pipeline.errors import ConfigError
from pipeline.store.schema import APPLICATION, TABLES, version

log = structlog.get_logger(__name__)

_BUSY = 10.0
"""Seconds; only a checkpoint or a recovery is ever waited for, as one thread writes."""
_PRAGMAS = (
    "PRAGMA journal_mode = WAL",
    # A commit that a power cut takes back takes its positions with it, and is read from Kafka again.
    "PRAGMA synchronous = NORMAL",
    # 16 MiB: a page that many lots change is written to the file, and synced, once for all of them.
    "PRAGMA wal_autocheckpoint = 4096",
    "PRAGMA journal_size_limit = 67108864",
    "PRAGMA temp_store = MEMORY",
)


class Connections:
    """Opens ``view.sqlite`` in the folder, and keeps every other process from it.

    A file that is not ours, of another version or damaged is thrown away: Kafka has everything that it held.

    Raises:
        ConfigError: the folder can not be used; names the setting.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "view.sqlite"
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._open: list[sqlite3.Connection] = []
        self._life = 0
        self._file: tuple[int, int] | None = None
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds what every tenant asks
            self._guard = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(folder, error) from error
        try:
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._start()
        except BlockingIOError as error:
            os.close(self._guard)
            raise ConfigError(
                f"TALLYSTREAM_GATEWAY__FOLDER: another gateway keeps its view in {folder}; set TALLYSTREAM_SLOT"
            ) from error
        except (OSError, sqlite3.Error) as error:
            os.close(self._guard)
            raise _unusable(folder, error) from error

    def mine(self) -> sqlite3.Connection:
        """This thread's connection to the newest file."""
        if getattr(self._mine, "life", None) != self._life:
            with self._lock:
                if (old := getattr(self._mine, "connection", None)) in self._open:
                    self._open.remove(old)
                    old.close()
                self._mine.connection, self._mine.life = self._connect(), self._life
        return self._mine.connection

    def renew(self) -> None:
        """Throw the file away and begin an empty one; reads that are under way end on the old one."""
        with self._lock:
            for suffix in ("", "-wal", "-shm"):
                self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            self._create()
            self._life += 1

    @property
    def lost(self) -> bool:
        """Somebody has removed or exchanged the file."""
        return self._identity() != self._file

    def close(self) -> None:
        """Close the connections of all threads, which use them no more."""
        with self._lock:
            for connection in self._open:
                connection.close()
            self._open.clear()
            os.close(self._guard)

    def _start(self) -> None:
        fresh = not self._path.exists()
        try:
            connection = self._connect()
            found = [
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            ]
            reason = None if found == [APPLICATION, version()] else "another version"
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            reason = str(error)
        if reason is not None:
            if not fresh:
                log.warning("the view is built anew", path=str(self._path), reason=reason)
            self.renew()
        self._file = self._identity()

    def _create(self) -> None:
        connection = self._connect()
        connection.executescript(
            f"BEGIN; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version()}; COMMIT"
        )
        self._file = self._identity()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_BUSY, isolation_level=None, check_same_thread=False)
        self._open.append(connection)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        return connection

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino


def _unusable(folder: Path, error: Exception) -> ConfigError:
    return ConfigError(f"TALLYSTREAM_GATEWAY__FOLDER: the view can not be kept in {folder}: {error}")
