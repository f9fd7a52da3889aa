"""What a model server says as server-sent events."""

from __future__ import annotations

from pipeline.errors import ModelServerDownError
from pipeline.event_stream import EventStreamReader

_LONGEST_EVENT = 4 * 1024 * 1024


class EventReader:
    """Gives the ``data`` of events; other fields do not matter here."""

    def __init__(self) -> None:
        self._stream = EventStreamReader(_LONGEST_EVENT)

    def feed(self, received: bytes) -> list[str]:
        """The data of every event that is complete with these bytes.

        Raises:
            ModelServerDownError: an event is longer than any answer could be.
        """
        try:
            return [event.data for event in self._stream.feed(received)]
        except ValueError as error:
            raise ModelServerDownError(f"The model server sent {error}") from error
