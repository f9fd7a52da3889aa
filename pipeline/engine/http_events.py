"""Server-sent events from bytes as they come: cut anywhere, any line ending, comments left out."""

from __future__ import annotations

from pipeline.errors import ModelServerDownError

_LONGEST_EVENT = 4 * 1024 * 1024


class EventReader:
    """Puts the ``data`` of events together (WHATWG HTML, section 9.2.6); other fields do not matter here."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[str] = []
        self._size = 0

    def feed(self, received: bytes) -> list[str]:
        """The data of every event that is complete with these bytes.

        Raises:
            ModelServerDownError: an event is longer than any answer could be.
        """
        *lines, self._rest = (self._rest + received).replace(b"\r\n", b"\n").split(b"\n")
        events: list[str] = []
        for line in lines:
            if line.rstrip(b"\r"):
                self._take(line.rstrip(b"\r"))
            elif self._data:
                events.append("\n".join(self._data))
                self._data, self._size = [], 0
        if self._size + len(self._rest) > _LONGEST_EVENT:
            raise ModelServerDownError(
                f"The model server sent an event of more than {_LONGEST_EVENT:,} bytes"
            )
        return events

    def _take(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            self._size += len(line)
