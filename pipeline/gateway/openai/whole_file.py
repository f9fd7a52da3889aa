"""Files that are there whole or not at all, whenever the process dies."""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

PART = ".part"
_PRIVATE = 0o600


@contextmanager
def whole_file(path: Path) -> Generator[IO[bytes]]:
    """Write a file that appears under its name when the block ends, and not when it fails."""
    part = path.with_name(f"{path.name}.{uuid.uuid4().hex}{PART}")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "wb") as file:
            yield file
            settle(file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def settle(file: IO[bytes]) -> None:
    """Return when what was written outlasts the machine's loss of power."""
    file.flush()
    os.fsync(file.fileno())
