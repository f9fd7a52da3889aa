"""Reading what sandboxes write, within bounds and until a deadline."""

from __future__ import annotations

import os
import selectors
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import FileIO

MAX_MESSAGE = 300
MAX_SHOWN = 2_000


@dataclass(slots=True)
class Stream:
    """One descriptor that is read to its end.

    Attributes:
        limit: bytes that are kept; more end the reading of all streams.
        last: the reading of all streams ends with this one.
    """

    descriptor: int
    limit: int
    last: bool = False
    content: bytearray = field(default_factory=bytearray)
    overflowed: bool = False

    def text(self) -> str:
        """As UTF-8; what is not, or was cut inside a character, is replaced."""
        return self.content.decode("utf-8", "replace")


def collect(streams: list[Stream], deadline: float) -> bool:
    """Read until the last stream ends, one overflows or the deadline (monotonic seconds) is over.

    Returns:
        Whether there was enough time.
    """
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.descriptor, selectors.EVENT_READ, stream)
        while selector.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            for key, _ in selector.select(remaining):
                stream: Stream = key.data
                try:
                    part = os.read(stream.descriptor, 65536)
                except OSError:
                    part = b""
                room = stream.limit - len(stream.content)
                stream.content += part[:room]
                if len(part) > room:
                    stream.overflowed = True
                    return True
                if not part:
                    selector.unregister(stream.descriptor)
                    if stream.last:
                        return True
    return True


def pipe(stack: ExitStack) -> tuple[int, FileIO]:
    """A descriptor to read from and a file to hand out; both are closed with the stack."""
    read, write = os.pipe()
    stack.callback(os.close, read)
    return read, stack.enter_context(FileIO(write, "w"))


def line(text: str) -> str:
    """A message on one line, at most ``MAX_MESSAGE`` characters; half surrogate pairs are replaced."""
    clean = " ".join(text.encode("utf-8", "replace").decode().split())
    return clean if len(clean) <= MAX_MESSAGE else f"{clean[: MAX_MESSAGE - 1]}…"
