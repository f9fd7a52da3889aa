"""The file of the keys: written by ``tallystream keys``, read by every gateway, which notices a change by itself."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from pipeline.errors import AuthenticationError, ConfigError
from pipeline.gateway.keys import Principal, StoredKey, principal_of_key
from pipeline.run_folder import locked
from pipeline.settings import Settings

log = structlog.get_logger(__name__)

_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class _File:
    keys: tuple[StoredKey, ...] = ()


def keys_path(settings: Settings) -> Path:
    return settings.gateway.keys_file or settings.home / "keys.json"


def read_keys(path: Path) -> tuple[StoredKey, ...]:
    """Every key that there is; none when there is no file.

    Raises:
        ConfigError: the file can not be read, or is not one of keys.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File).keys
    except FileNotFoundError:
        return ()
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"the file of keys {path} can not be read: {error}") from error


@contextmanager
def changed_keys(path: Path) -> Generator[list[StoredKey]]:
    """The keys, to be changed while nobody else changes them; written whole or not at all when the block ends.

    Raises:
        ConfigError: the file can not be read or written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_suffix(".lock")):
            keys = list(read_keys(path))
            yield keys
            _write(path, keys)
    except OSError as error:
        raise ConfigError(f"the file of keys {path} can not be written: {error.strerror}") from error


def _write(path: Path, keys: Iterable[StoredKey]) -> None:
    part = path.with_suffix(".part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(_File(tuple(keys)))))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


class KeyRing:
    """The keys as a running gateway knows them.

    Attributes:
        open: nobody needs a key. It is decided once more with every key that appears, and never by one that is
            taken away: a revoked last key must not let everybody in.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            ConfigError: the file can not be read.
        """
        self._path = path
        self._seen = _state(path)
        self._keys = {key.id: key for key in read_keys(path)}
        self.open = not self._keys

    def principal(self, text: str) -> Principal:
        """Who has this key.

        Raises:
            AuthenticationError: nobody.
        """
        self.refresh()
        principal = principal_of_key(text, self._keys)
        if principal is None:
            raise AuthenticationError("this API key is not known here")
        return principal

    def refresh(self) -> None:
        """Take a change of the file in; what can not be read changes nothing."""
        state = _state(self._path)
        if state == self._seen:
            return
        self._seen = state
        try:
            self._keys = {key.id: key for key in read_keys(self._path)}
        except ConfigError as error:
            log.error("keys kept as they were", code=error.code, error=error.message)
            return
        self.open = self.open and not self._keys
        log.info("keys read", keys=len(self._keys))


def _state(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
