"""Server-sent events from bytes as they come: cut anywhere, CR LF or LF, comments left out."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """One event.

    Attributes:
        id: the last id that was sent with it or before it; empty before there is one.
        data: its lines, joined by LF.
    """

    name: str
    id: str
    data: str


class EventStreamReader:
    """Puts events together (WHATWG HTML, section 9.2.6)."""

    def __init__(self, longest: int) -> None:
        """
        Args:
            longest: bytes of one event.
        """
        self._longest = longest
        self._rest = b""
        self._data: list[str] = []
        self._name, self._id = "", ""
        self._size = 0

    def feed(self, received: bytes) -> list[StreamEvent]:
        """Every event that is complete with these bytes.

        Raises:
            ValueError: an event is longer than ``longest``.
        """
        *lines, self._rest = (self._rest + received).replace(b"\r\n", b"\n").split(b"\n")
        events: list[StreamEvent] = []
        for line in lines:
            if line.rstrip(b"\r"):
                self._take(line.rstrip(b"\r"))
                continue
            if self._data:
                events.append(StreamEvent(self._name or "message", self._id, "\n".join(self._data)))
            self._data, self._name, self._size = [], "", 0
        if self._size + len(self._rest) > self._longest:
            raise ValueError(f"an event of more than {self._longest:,} bytes")
        return events

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        match name:
            case b"data":
                self._data.append(text)
                self._size += len(line)
            case b"event":
                self._name = text
            case b"id":
                self._id = text
            case _:
                pass
