"""What is asked of the view. Any thread, each with a connection of its own; nothing here writes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import msgspec

from pipeline.errors import InvalidRequestError
from pipeline.events import Delivery, InferenceRequest, Result, Sample, Status
from pipeline.kafka.dead_letters import Cause
from pipeline.replay.letters import Letter
from pipeline.store.connections import Connections
from pipeline.store.rows import Stored
from pipeline.store.schema import KINDS
from pipeline.store.tasks import Task, TaskFilter, TaskPage
from pipeline.store.view import SELECT_ROWS, row_of
from pipeline.topics import DELIVERIES, REQUESTS, RESULTS, SAMPLES

_TOPICS = (REQUESTS, SAMPLES, SAMPLES, RESULTS)
"""Where each of ``KINDS`` stands."""
_REQUEST = msgspec.msgpack.Decoder(InferenceRequest)
_RESULT = msgspec.msgpack.Decoder(Result)
_DECODERS: tuple[Any, ...] = tuple(msgspec.msgpack.Decoder(kind) for kind in KINDS)
_DELIVERY = msgspec.msgpack.Decoder(Delivery)
_CAUSE = msgspec.msgpack.Decoder(Cause)
_CURSOR = msgspec.json.Decoder(tuple[int, str])
_LONGEST_CURSOR = 1_024


class Reading:
    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def task(self, request_id: str) -> Task | None:
        """The newest run of a request."""
        with self._moment():
            rows = self._rows(f"{SELECT_ROWS} WHERE request_id = ? AND newest = 1", request_id)
            return self._task(rows[0]) if rows else None

    def tasks(self, wanted: TaskFilter, after: str | None, limit: int) -> TaskPage:
        """A page of those whose records are kept.

        Raises:
            InvalidRequestError: the cursor is none that a page gave.
        """
        before = None if after is None else _read_cursor(after)
        with self._moment():
            walks = (self._rows(query, *values, limit + 1) for query, values in _branches(wanted, before))
            found = sorted((place for walk in walks for place in walk), reverse=True)
            tasks = [
                self._task(row)
                for _, _, run in found[:limit]
                for row in self._rows(f"{SELECT_ROWS} WHERE id = ?", run)
            ]
        cursor = _write_cursor(*found[limit - 1][:2]) if len(found) > limit else None
        return TaskPage(tuple(tasks), cursor)

    def samples(self, request_id: str, run: int) -> tuple[Sample, ...]:
        found = (stored.event for stored in self._records(request_id, run) if stored.topic == SAMPLES)
        return tuple(
            sorted(
                (event for event in found if isinstance(event, Sample)), key=lambda each: each.sample_index
            )
        )

    def history(self, request_id: str, run: int) -> tuple[Stored, ...]:
        """All that is kept of a run, and of its callbacks, by broker's time and place."""
        told = [
            Stored(DELIVERIES, partition, offset, at, delivery)
            for partition, offset, at, data in self._rows(
                "SELECT partition, offset, at, data FROM deliveries WHERE request_id = ?", request_id
            )
            if (delivery := _DELIVERY.decode(data)).run == run
        ]
        return tuple(sorted([*self._records(request_id, run), *told], key=_when))

    def deliveries(self, request_id: str) -> tuple[Delivery, ...]:
        return self._deliveries("request_id = ? AND newest = 1 ORDER BY at, offset", request_id)

    def attempts(self, delivery_id: str) -> tuple[Delivery, ...]:
        return self._deliveries("delivery_id = ? ORDER BY offset", delivery_id)

    def recent_deliveries(self, limit: int) -> tuple[Delivery, ...]:
        return self._deliveries("newest = 1 ORDER BY at DESC LIMIT ?", limit)

    def letters(self, limit: int) -> tuple[Letter, ...]:
        rows = self._rows(
            "SELECT partition, offset, at, cause, key, size, replayed_at FROM letters "
            "ORDER BY at DESC, partition DESC, offset DESC LIMIT ?",
            limit,
        )
        return tuple(
            Letter((partition, offset), at, _CAUSE.decode(cause), key, size, replayed_at)
            for partition, offset, at, cause, key, size, replayed_at in rows
        )

    def _task(self, values: tuple[Any, ...]) -> Task:
        row = row_of(values)
        asked = self._rows("SELECT data FROM records WHERE run = ? AND kind = 0", row.id)
        answered = self._rows(
            "SELECT data FROM records WHERE run = ? AND kind = 3 ORDER BY number DESC LIMIT 1", row.id
        )
        return Task(
            request=_REQUEST.decode(asked[0][0]),
            status=row.status,
            accepted_at=row.accepted_at or 0,
            updated_at=row.updated_at,
            opened_at=row.opened_at,
            first_sample_at=row.first_sample_at,
            finished_at=row.finished_at,
            expected=row.expected,
            samples=row.samples,
            result=_RESULT.decode(answered[0][0]) if answered else None,
            gone=row.gone,
        )

    def _records(self, request_id: str, run: int) -> list[Stored]:
        rows: list[tuple[int, int, int, int, bytes]] = self._rows(
            "SELECT kind, at, partition, offset, data FROM records "
            "WHERE run = (SELECT id FROM runs WHERE request_id = ? AND run = ?)",
            request_id,
            run,
        )
        return [
            Stored(_TOPICS[kind], partition, offset, at, _DECODERS[kind].decode(data))
            for kind, at, partition, offset, data in rows
        ]

    def _deliveries(self, condition: str, value: str | int) -> tuple[Delivery, ...]:
        rows = self._rows(f"SELECT data FROM deliveries WHERE {condition}", value)
        return tuple(_DELIVERY.decode(data) for (data,) in rows)

    @contextmanager
    def _moment(self) -> Generator[None]:
        """What is read in here is read of one state of the file."""
        connection = self._connections.mine()
        connection.execute("BEGIN")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._connections.mine().execute(query, values).fetchall()


def _branches(wanted: TaskFilter, before: tuple[int, str] | None) -> Iterable[tuple[str, tuple[Any, ...]]]:
    """One walk along an index for each status, from the newest on; together they hold the page."""
    terms: list[tuple[str, Any]] = [("accepted_at >= ?", wanted.since), ("accepted_at < ?", wanted.until)]
    index = "runs_by_status" if wanted.tenant is None else "runs_by_tenant"
    if wanted.batch is not None:
        index = "runs_by_batch"
        terms.append(("batch = ?", wanted.batch))
    if wanted.tenant is not None:
        terms.append(("tenant = ?", wanted.tenant))
    conditions = [
        "newest = 1",
        "gone = 0",
        "status = ?",
        *(term for term, value in terms if value is not None),
    ]
    values = [value for _, value in terms if value is not None]
    if before is not None:
        conditions.append("(accepted_at, request_id) < (?, ?)")
        values += before
    query = (
        f"SELECT accepted_at, request_id, id FROM runs INDEXED BY {index} WHERE {' AND '.join(conditions)} "
        "ORDER BY accepted_at DESC, request_id DESC LIMIT ?"
    )
    for status in wanted.statuses or tuple(Status):
        yield query, (status, *values)


def _write_cursor(accepted_at: int, request_id: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((accepted_at, request_id))).decode().rstrip("=")


def _read_cursor(text: str) -> tuple[int, str]:
    try:
        if len(text) > _LONGEST_CURSOR:
            raise ValueError
        accepted_at, request_id = _CURSOR.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if not abs(accepted_at) < 2**63:
            raise ValueError
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise InvalidRequestError("cursor must be the one that a page ended with", field="cursor") from error
    return accepted_at, request_id


def _when(stored: Stored) -> tuple[int, str, int, int]:
    return stored.at, stored.topic, stored.partition, stored.offset
