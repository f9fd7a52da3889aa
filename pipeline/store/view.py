"""What the follower writes: the rows and records of every run, with the positions that they were read to.

Rows and positions change in one transaction, so a process that dies anywhere goes on exactly where the file says.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from pathlib import Path
from sqlite3 import Connection
from typing import Any

import msgspec

from pipeline.events import PRIORITIES, Delivery, Event, InferenceRequest, Opened, Result, Sample, Status
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.records import Place
from pipeline.replay.letters import letter_of, marked_offset
from pipeline.settings import LimitSettings
from pipeline.store.connections import Connections
from pipeline.store.counts import Slot
from pipeline.store.rows import Keeping, Row, Stage, Stored, ask, tell
from pipeline.store.schema import KINDS
from pipeline.topics import DEAD_LETTERS, DELIVERIES

Read = Stored | Source
"""A record of the view's topics: an event, or a record of ``dead-letters``, whose bytes are nobody's."""

_FIELDS = tuple(field.name for field in fields(Row))
_COLUMNS = (*_FIELDS, "stage", "expires_at")
_SAVE = (
    f"INSERT INTO runs ({', '.join(_COLUMNS)}) VALUES ({', '.join('?' * len(_COLUMNS))}) "
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS[3:])}"
)
SELECT_ROWS = f"SELECT {', '.join(f'runs.{name}' for name in _FIELDS)} FROM runs"
_values = attrgetter(*_FIELDS)
_MARK = "UPDATE letters SET replayed_at = ? WHERE partition = ? AND offset = ?"
_BY_TIME = {DELIVERIES: "deliveries", DEAD_LETTERS: "letters"}


@dataclass(frozen=True, slots=True)
class Taken:
    """What a lot has changed.

    Attributes:
        stored: records that were new, in their order.
        moves: by how much the number of runs in a slot has changed.
        ended: when runs ended (broker's ms).
    """

    stored: tuple[Stored, ...]
    moves: tuple[tuple[Slot, int], ...]
    ended: tuple[int, ...]


class View:
    """The file of one gateway. Written by one thread, read by any.

    Args:
        folder: is made when it is not there; belongs to one process at a time.
        keeping: of runs.
        kept_ms: how long deliveries and letters are kept, by topic.

    Raises:
        ConfigError: the folder can not be used; names the setting.
    """

    def __init__(
        self, folder: Path, limits: LimitSettings, keeping: Keeping, kept_ms: Mapping[str, int]
    ) -> None:
        self.connections = Connections(folder)
        self._limits, self._keeping, self._kept_ms = limits, keeping, kept_ms

    def close(self) -> None:
        self.connections.close()

    def belongs_to(self, source: str) -> bool:
        """Begin anew unless all that is here came from this source: a cluster and its topics.

        Returns:
            whether it was begun anew.
        """
        found = self.connections.mine().execute("SELECT value FROM meta WHERE name = 'source'").fetchone()
        if found is not None and found[0] == source:
            return False
        self.renew()
        self.connections.mine().execute("INSERT INTO meta VALUES ('source', ?)", (source,))
        return True

    def renew(self) -> None:
        """Forget everything."""
        self.connections.renew()

    @property
    def lost(self) -> bool:
        """Somebody has removed or exchanged the file."""
        return self.connections.lost

    def positions(self) -> dict[Place, int]:
        """The next offset to be read, of each partition of which anything was read."""
        rows = self.connections.mine().execute("SELECT topic, partition, next FROM positions")
        return {(topic, partition): offset for topic, partition, offset in rows}

    def waiting(self) -> list[tuple[Slot, int]]:
        """Runs that have not ended, by slot."""
        rows = self.connections.mine().execute(
            "SELECT priority, stage, tenant, count(*) FROM runs WHERE stage > 0 GROUP BY 1, 2, 3"
        )
        return [((priority, Stage(stage), tenant), count) for priority, stage, tenant, count in rows]

    def oldest(self) -> tuple[int | None, ...]:
        """When the oldest run of which no sample came was accepted, by priority."""
        query = "SELECT min(accepted_at) FROM runs WHERE stage IN (1, 2) AND priority = ?"
        mine = self.connections.mine()
        return tuple(mine.execute(query, (priority,)).fetchone()[0] for priority in range(PRIORITIES))

    def take(self, lot: Sequence[Read], positions: Mapping[Place, int]) -> Taken:
        """Take in what was read, all or nothing; what was taken before is passed over.

        Args:
            lot: each partition's records in order.
            positions: the next offset to be read, once the lot is taken.
        """
        known = self.positions()
        stored: list[Read] = []
        with self._transaction() as change:
            for read in lot:
                place = read.topic, read.partition
                if read.offset >= known.get(place, 0):
                    known[place] = read.offset + 1
                    stored += [read] if change.take(read) else []
            change.move(positions)
            moves, ended = change.save()
        return Taken(tuple(read for read in stored if isinstance(read, Stored)), moves, ended)

    def sweep(self, now: int, most: int = 200) -> tuple[int, tuple[tuple[Slot, int], ...]]:
        """One small step of forgetting: what is out of time at ``now`` (ms).

        Returns:
            how much was found, 0 when there is nothing left to do, and what it changed of the numbers that wait.
        """
        with self._transaction() as change:
            found = (
                change.overdue(now, most) + change.expired(now, most) + change.old(now, self._kept_ms, most)
            )
            moves, _ = change.save()
        return found, moves

    @contextmanager
    def _transaction(self) -> Generator[_Change]:
        connection = self.connections.mine()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield _Change(connection, self._limits, self._keeping)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk may have ended it
                connection.execute("ROLLBACK")
            raise


class _Change:
    """One transaction: rows are read once, changed in memory and written at its end."""

    def __init__(self, connection: Connection, limits: LimitSettings, keeping: Keeping) -> None:
        self._connection, self._limits, self._keeping = connection, limits, keeping
        self._rows: dict[int, Row] = {}
        self._runs: dict[str, dict[int, Row]] = {}
        self._before: dict[int, tuple[Slot, int | None]] = {}
        self._next_id: int = connection.execute("SELECT coalesce(max(id), 0) + 1 FROM runs").fetchone()[0]

    def take(self, read: Read) -> bool:
        """Whether the record was new, and of use."""
        if isinstance(read, Source):
            return self._park(read)
        match read.event:
            case InferenceRequest() as event:
                return self._ask(read, event)
            case Opened() as event:
                return self._tell(read, self._row(event.request_id, event.run), 0)
            case Sample() as event:
                return self._tell(read, self._row(event.request_id, event.run), event.sample_index)
            case Result() as event:
                return self._tell(read, self._row(event.request_id, event.run), event.revision)
            case Delivery() as event:
                return self._deliver(read, event)
            case _:
                return False

    def move(self, positions: Mapping[Place, int]) -> None:
        self._connection.executemany(
            "INSERT INTO positions VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET next = max(next, excluded.next)",
            [(*place, offset) for place, offset in positions.items()],
        )

    def save(self) -> tuple[tuple[tuple[Slot, int], ...], tuple[int, ...]]:
        """Write the rows; returns how slots have changed, and when runs have ended."""
        moves: list[tuple[Slot, int]] = []
        ended: list[int] = []
        for row in self._rows.values():
            (slot, finished_at), after = self._before[row.id], _slot(row)
            if slot != after:
                moves += [(slot, -1), (after, 1)]
            if finished_at is None and row.finished_at is not None:
                ended.append(row.finished_at)
        self._connection.executemany(
            _SAVE,
            [(*_values(row), row.stage, self._keeping.expires_at(row)) for row in self._rows.values()],
        )
        return tuple(moves), tuple(ended)

    def overdue(self, now: int, most: int) -> int:
        """Nobody waits any more for what has not ended in time."""
        found = self._found("stage > 0 AND due_at < ? LIMIT ?", now, most)
        for row in found:
            row.overdue = True
        return len(found)

    def expired(self, now: int, most: int) -> int:
        """Drop the records of a run, and later the run."""
        found = self._found("expires_at < ? LIMIT ?", now, most)
        for row in found:
            if row.gone or row.accepted_at is None:
                self._connection.execute("DELETE FROM records WHERE run = ?", (row.id,))
                self._connection.execute("DELETE FROM runs WHERE id = ?", (row.id,))
                del self._rows[row.id]
            else:
                self._strip(row)
        return len(found)

    def old(self, now: int, kept_ms: Mapping[str, int], most: int) -> int:
        """Drop deliveries and letters that the topics do not keep either."""
        return sum(
            self._connection.execute(
                f"DELETE FROM {table} WHERE rowid IN (SELECT rowid FROM {table} WHERE at < ? LIMIT ?)",
                (now - kept_ms[topic], most),
            ).rowcount
            for topic, table in _BY_TIME.items()
        )

    def _ask(self, stored: Stored, request: InferenceRequest) -> bool:
        row = self._row(request.request_id, request.run)
        first = row.accepted_at is None
        if not ask(row, stored, request, self._limits):
            return False
        if first:
            self._rank(row)
        self._keep(row, stored, 0, _stripped(request) if row.gone else request, instead=True)
        return True

    def _tell(self, stored: Stored, row: Row, number: int) -> bool:
        if row.gone and not (isinstance(stored.event, Result) and stored.event.status.terminal):
            return False
        if not self._keep(row, stored, number, stored.event):
            return False
        tell(row, stored)
        return True

    def _deliver(self, stored: Stored, delivery: Delivery) -> bool:
        """The body is not kept: it repeats the result."""
        self._connection.execute(
            "UPDATE deliveries SET newest = 0 WHERE delivery_id = ? AND newest = 1", (delivery.delivery_id,)
        )
        data = msgspec.msgpack.encode(replace(delivery, body=b""))
        place = stored.partition, stored.offset, stored.at
        self._connection.execute(
            "INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, 1, ?)",
            (*place, delivery.delivery_id, delivery.request_id, data),
        )
        return True

    def _park(self, source: Source) -> bool:
        """Headers may be anybody's; numbers that no file can hold are none of ours."""
        try:
            if (marked := marked_offset(source)) is not None:
                return bool(
                    self._connection.execute(_MARK, (source.timestamp, source.partition, marked)).rowcount
                )
            if (letter := letter_of(source)) is None:
                return False
            cause = msgspec.msgpack.encode(letter.cause)
        except OverflowError:
            return False
        values = (*letter.place, letter.parked_at, cause, letter.key, letter.size)
        self._connection.execute("INSERT INTO letters VALUES (?, ?, ?, ?, ?, ?, NULL)", values)
        return True

    def _rank(self, row: Row) -> None:
        """Which run of the id is the newest, now that this one is known."""
        asked = [each for each in self._runs[row.request_id].values() if each.accepted_at is not None]
        newest = max(each.run for each in asked)
        for each in asked:
            each.newest = each.run == newest

    def _strip(self, row: Row) -> None:
        asked = self._connection.execute(
            "SELECT data FROM records WHERE run = ? AND kind = 0", (row.id,)
        ).fetchone()
        self._connection.execute("DELETE FROM records WHERE run = ? AND kind > 0", (row.id,))
        request = _stripped(msgspec.msgpack.decode(asked[0], type=InferenceRequest))
        self._connection.execute(
            "UPDATE records SET data = ? WHERE run = ? AND kind = 0",
            (msgspec.msgpack.encode(request), row.id),
        )
        row.gone = True

    def _keep(self, row: Row, stored: Stored, number: int, event: Event, *, instead: bool = False) -> bool:
        """Keep a record, instead of the one that is there or only if there is none; whether it is kept."""
        values = (
            row.id,
            KINDS.index(type(stored.event)),
            number,
            stored.at,
            stored.partition,
            stored.offset,
            msgspec.msgpack.encode(event),
        )
        otherwise = "REPLACE" if instead else "IGNORE"
        return (
            self._connection.execute(
                f"INSERT OR {otherwise} INTO records VALUES (?, ?, ?, ?, ?, ?, ?)", values
            ).rowcount
            == 1
        )

    def _row(self, request_id: str, run: int) -> Row:
        if request_id not in self._runs:
            self._runs[request_id] = {}
            self._found("request_id = ?", request_id)
        runs = self._runs[request_id]
        if run not in runs:
            self._hold(Row(self._next_id, request_id, run))
            self._next_id += 1
        return runs[run]

    def _found(self, condition: str, *values: Any) -> list[Row]:
        rows = self._connection.execute(f"{SELECT_ROWS} WHERE {condition}", values).fetchall()
        return [self._hold(row_of(each)) for each in rows]

    def _hold(self, row: Row) -> Row:
        """The row as this transaction has it."""
        held = self._rows.setdefault(row.id, row)
        if held is row:
            self._runs.setdefault(row.request_id, {})[row.run] = row
            self._before[row.id] = _slot(row), row.finished_at
        return held


def row_of(values: tuple[Any, ...]) -> Row:
    """A row as ``columns`` select it."""
    row = Row(*values)
    row.status, row.newest, row.overdue, row.gone = (
        Status(row.status),
        bool(row.newest),
        bool(row.overdue),
        bool(row.gone),
    )
    return row


def _slot(row: Row) -> Slot:
    return row.priority, row.stage, row.tenant


def _stripped(request: InferenceRequest) -> InferenceRequest:
    """What is still told of a request whose result is gone."""
    return replace(request, prompt="", messages=(), images=(), tests=None)
