"""What has become of a batch's lines so far: two files that only grow, each line of the input once in one of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO

import msgspec

from pipeline.gateway.openai.batch_lines import number_of
from pipeline.gateway.openai.whole_file import settle


class _Id(msgspec.Struct):
    id: str


class BatchLog:
    """Blocking: call it on threads. What a process that died was writing is cut off.

    Attributes:
        done: numbers of the lines of which something is written.
        completed, failed: how many of them have an answer, and have none.
    """

    def __init__(self, output: Path, errors: Path) -> None:
        self.done: set[int] = set()
        self._output, completed = _opened(output)
        self._errors, failed = _opened(errors)
        self.completed, self.failed = len(completed), len(failed)
        self.done.update(completed, failed)

    def write(self, completed: Iterable[tuple[int, bytes]], failed: Iterable[tuple[int, bytes]]) -> None:
        """Add lines, by number; one that has something already is left."""
        self.completed += self._add(self._output, completed)
        self.failed += self._add(self._errors, failed)

    def close(self) -> None:
        for file in (self._output, self._errors):
            settle(file)
            file.close()

    def _add(self, file: IO[bytes], lines: Iterable[tuple[int, bytes]]) -> int:
        added = 0
        for number, text in lines:
            if number not in self.done:
                self.done.add(number)
                file.write(text)
                added += 1
        file.flush()
        return added


def _opened(path: Path) -> tuple[IO[bytes], list[int]]:
    """The file behind its last whole line, and the numbers of its lines."""
    file = path.open("a+b")
    file.seek(0)
    numbers: list[int] = []
    whole = 0
    for text in file:
        if not text.endswith(b"\n"):
            break
        numbers.append(number_of(msgspec.json.decode(text, type=_Id).id))
        whole += len(text)
    file.truncate(whole)
    return file, numbers
