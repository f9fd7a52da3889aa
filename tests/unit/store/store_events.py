"""Records for the tests of the view, and all that a view holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from golden.golden_events import GOLDEN

from pipeline.events import Delivery, Event, InferenceRequest, Opened, Result, Role, Sample, Status
from pipeline.kafka.dead_letters import Cause, Source
from pipeline.replay.letters import mark_of
from pipeline.settings import LimitSettings
from pipeline.store.rows import Keeping, Stored
from pipeline.store.view import View
from pipeline.topics import DEAD_LETTERS, DELIVERIES, REQUESTS, RESULTS, SAMPLES

AT = 1_764_000_000_000
SECOND, HOUR = 1_000, 3_600_000
LIMITS = LimitSettings()
KEEPING = Keeping(records=24 * HOUR, rows=7 * 24 * HOUR)
KEPT_MS = {DELIVERIES: 7 * 24 * HOUR, DEAD_LETTERS: 30 * 24 * HOUR}
_E = TypeVar("_E", bound=Event)


def like(kind: type[_E], **changes: Any) -> _E:
    """The golden event of a kind, changed."""
    event = GOLDEN[kind.__name__]
    assert isinstance(event, kind)
    return replace(event, **changes)


def request(request_id: str, **changes: Any) -> InferenceRequest:
    """A small one of tenant ``t`` and priority 3."""
    defaults: dict[str, Any] = {"prompt": "2 + 2?", "created_at": AT, "tenant": "t"}
    return InferenceRequest(request_id, **defaults | changes)


def opened(request_id: str, **changes: Any) -> Opened:
    defaults: dict[str, Any] = {"run": 0, "expected": 3, "created_at": AT, "deadline_at": AT + 200 * SECOND}
    return like(Opened, request_id=request_id, **defaults | changes)


def sample(request_id: str, index: int, **changes: Any) -> Sample:
    defaults: dict[str, Any] = {"run": 0, "role": Role.ANSWER}
    return like(Sample, request_id=request_id, sample_index=index, **defaults | changes)


def result(request_id: str, status: Status = Status.DONE, **changes: Any) -> Result:
    return like(Result, **{"request_id": request_id, "run": 0, "status": status} | changes)


def delivery(delivery_id: str, request_id: str, attempt: int, **changes: Any) -> Delivery:
    defaults: dict[str, Any] = {"run": 0, "attempt": attempt}
    return like(Delivery, delivery_id=delivery_id, request_id=request_id, **defaults | changes)


def letter(offset: int, at: int = AT, partition: int = 0, topic: str = REQUESTS) -> Source:
    cause = Cause("decode_error", "broken", "batcher", 1, topic, 4, offset, at, at)
    return Source(DEAD_LETTERS, partition, offset, at, b"key", b"bytes", cause.headers())


def mark(offset: int, of: Source, at: int = AT) -> Source:
    headers = mark_of(of, (REQUESTS, 1)).headers
    return Source(DEAD_LETTERS, of.partition, offset, at, of.key, None, headers)


def stored(event: Event, offset: int, at: int = AT, partition: int = 0) -> Stored:
    """A record on the topic of its event."""
    topics = {InferenceRequest: REQUESTS, Opened: SAMPLES, Sample: SAMPLES, Result: RESULTS}
    return Stored(topics.get(type(event), DELIVERIES), partition, offset, at, event)


def view_in(folder: Path) -> View:
    return View(folder, LIMITS, KEEPING, KEPT_MS)


def take(view: View, *records: Stored | Source) -> tuple[Stored, ...]:
    """Take them in as one lot; returns what was new."""
    positions = {(each.topic, each.partition): each.offset + 1 for each in records}
    return view.take(records, positions).stored


def content_of(view: View) -> dict[str, list[tuple[Any, ...]]]:
    """Everything, whatever numbers the rows have."""
    mine = view.connections.mine()
    columns = [name for _, name, *_ in mine.execute("PRAGMA table_info(runs)") if name != "id"]
    queries = {
        "runs": f"SELECT {', '.join(columns)} FROM runs ORDER BY request_id, run",
        "records": "SELECT request_id, runs.run, kind, number, at, records.partition, records.offset, data "
        "FROM records JOIN runs ON runs.id = records.run ORDER BY 1, 2, 3, 4",
        "deliveries": "SELECT * FROM deliveries ORDER BY partition, offset",
        "letters": "SELECT * FROM letters ORDER BY partition, offset",
        "positions": "SELECT * FROM positions ORDER BY topic, partition",
    }
    return {name: mine.execute(query).fetchall() for name, query in queries.items()}
