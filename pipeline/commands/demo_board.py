"""The demo's board: what is known of each request, as a table, as counts, and as a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.table import Table
from rich.text import Text

from pipeline.commands.demo_receiver import Receiver
from pipeline.commands.show import one_line, status_text
from pipeline.events import (
    Delivery,
    DeliveryState,
    Event,
    InferenceRequest,
    Opened,
    Progress,
    Result,
    Sample,
    Status,
)
from pipeline.kafka.clients import value_of
from pipeline.kafka.codec import Codec
from pipeline.kafka.read_back import read_back
from pipeline.scheduling.states import latest
from pipeline.settings import Settings
from pipeline.supervisor import ProcessState
from pipeline.topics import RESULTS, SAMPLES, shard_of


@dataclass(slots=True)
class Row:
    """What is known of one request."""

    request: InferenceRequest
    status: Status = Status.PENDING
    expected: int | None = None
    samples: set[int] = field(default_factory=set[int])
    leader: str = ""
    result: Result | None = None
    first_answered: bool = False
    delivered: set[str] = field(default_factory=set[str])
    undeliverable: str = ""

    @property
    def wanted_callbacks(self) -> set[str]:
        """Events that a callback is due for; an early first answer is none when the vote was faster."""
        wanted = set(self.request.callback.events) if self.request.callback else set[str]()
        return wanted if self.first_answered else wanted - {"first_answer"}


class Board:
    """Follows the demo's requests; renders as the live table."""

    def __init__(self, requests: Sequence[InferenceRequest], receiver: Receiver) -> None:
        self._rows = {request.request_id: Row(request) for request in requests}
        self._receiver = receiver
        self._duplicates: list[str] = []

    @property
    def requests(self) -> list[InferenceRequest]:
        return [row.request for row in self._rows.values()]

    def note(self, topic: str, event: Event) -> Iterator[str]:
        """Take an event in; yields a line for those who watch without a terminal."""
        row = self._rows.get(getattr(event, "request_id", ""))
        if row is None:
            return
        question = one_line(row.request.prompt, 40)
        match event:
            case Opened():
                row.expected = event.expected
            case Sample():
                row.samples.add(event.sample_index)
            case Progress() if event.votes and row.result is None:
                row.leader = event.votes[0].answer
                row.status = latest(row.status, Status.RUNNING)
            case Result() if not event.status.terminal:
                row.first_answered = True
                row.status, row.leader = latest(row.status, event.status), event.answer or ""
                yield f"first answer  {question}  →  {one_line(event.answer or '—', 40)}"
            case Result():
                row.status, row.result, row.leader = latest(row.status, event.status), event, _outcome(event)
                yield f"{event.status.value:12}  {question}  →  {one_line(row.leader, 40)}"
            case Delivery() if event.state is DeliveryState.DELIVERED:
                row.delivered.add(event.event)
            case Delivery() if event.state is DeliveryState.FAILED:
                row.undeliverable = event.error.code if event.error else "failed"
            case _:
                pass

    def complete(self) -> bool:
        """Every request has its final result and every callback came, was verified, and is recorded."""
        return all(self._row_complete(row) for row in self._rows.values())

    def audit(self, settings: Settings, codec: Codec) -> None:
        """Read the topics again, from the start, and look for anything that stands there twice."""
        seen: Counter[tuple[str | int, ...]] = Counter()
        places = {shard_of(request_id, settings.shards) for request_id in self._rows}
        for message in read_back(settings, [(topic, s) for topic in (SAMPLES, RESULTS) for s in places]):
            event = codec.decode(value_of(message))
            if isinstance(event, Sample):
                seen["sample", event.request_id, event.run, event.sample_index] += 1
            elif isinstance(event, Result):
                seen["result", event.request_id, event.run, event.revision] += 1
        self._duplicates = [
            " ".join(map(str, identity))
            for identity, count in seen.items()
            if count > 1 and identity[1] in self._rows
        ]

    def problems(self) -> list[str]:
        """One sentence for each thing that is not well."""
        found = [f"twice: {identity}" for identity in self._duplicates]
        for row in self._rows.values():
            question = one_line(row.request.prompt, 40)
            if row.result is None:
                found.append(f"no result: {question}")
            elif not self._row_complete(row):
                missing = sorted(row.wanted_callbacks - self._verified(row))
                found.append(f"callback missing ({', '.join(missing)}) {row.undeliverable}: {question}")
        _, repeated, rejected = self._receiver.counts()
        if repeated:
            found.append(f"{repeated} callbacks came more than once")
        if rejected:
            found.append(f"{rejected} callbacks had a bad signature")
        return found

    def verdict_line(self) -> str:
        verified, _, _ = self._receiver.counts()
        ended = sum(row.result is not None for row in self._rows.values())
        return (
            f"{ended} of {len(self._rows)} requests ended, {verified} callbacks verified, "
            f"{len(self._duplicates)} duplicates"
        )

    def summary(self, seconds: float, processes: Sequence[ProcessState]) -> dict[str, Any]:
        """One object of counts, for machines."""
        verified, repeated, rejected = self._receiver.counts()
        results = [row.result for row in self._rows.values() if row.result is not None]
        waits = [result.timings.finished_at - result.timings.created_at for result in results]
        return {
            "ok": not self.problems(),
            "requests": len(self._rows),
            "ended": len(results),
            "by_status": dict(Counter(result.status.value for result in results)),
            "callbacks_wanted": sum(len(row.wanted_callbacks) for row in self._rows.values()),
            "callbacks_verified": verified,
            "callbacks_repeated": repeated,
            "callbacks_rejected": rejected,
            "duplicates": len(self._duplicates),
            "samples": sum(len(row.samples) for row in self._rows.values()),
            "restarts": sum(process.restarts for process in processes),
            "memory_mb": {p.name: round(p.resident_bytes / 2**20) for p in processes},
            "median_wait_ms": median(waits) if waits else None,
            "seconds": round(seconds, 1),
            "answers": [
                {
                    "question": row.request.prompt,
                    "mode": row.request.mode.value,
                    "priority": row.request.priority,
                    "status": row.status.value,
                    "answer": row.result.answer if row.result else None,
                    "votes": [[vote.answer, vote.count] for vote in row.result.votes] if row.result else [],
                }
                for row in self._rows.values()
            ],
        }

    def table(self) -> Table:
        """The table, as it is now."""
        table = Table(pad_edge=False, box=None, header_style="bold")
        table.add_column("question", no_wrap=True, ratio=4)
        table.add_column("mode")
        table.add_column("prio", justify="right")
        table.add_column("state", no_wrap=True)
        table.add_column("samples", justify="right")
        table.add_column("leading answer", no_wrap=True, ratio=3)
        table.add_column("votes", justify="right")
        table.add_column("callback", no_wrap=True)
        for row in self._rows.values():
            table.add_row(
                one_line(row.request.prompt, 46),
                row.request.mode.value,
                str(row.request.priority),
                status_text(row.status),
                f"{len(row.samples)}/{row.expected if row.expected is not None else '?'}",
                Text(one_line(row.leader, 34), style="bold" if row.result else ""),
                self._votes(row),
                self._callback(row),
            )
        return table

    def __rich__(self) -> Table:
        return self.table()

    def _row_complete(self, row: Row) -> bool:
        wanted = row.wanted_callbacks
        return row.result is not None and wanted <= self._verified(row) and wanted <= row.delivered

    def _verified(self, row: Row) -> set[str]:
        return {e for e in row.wanted_callbacks if self._receiver.verified(row.request.request_id, e)}

    def _votes(self, row: Row) -> str:
        return "+".join(str(vote.count) for vote in row.result.votes) if row.result else ""

    def _callback(self, row: Row) -> Text:
        wanted, verified = row.wanted_callbacks, self._verified(row)
        if row.undeliverable:
            return Text(row.undeliverable, style="red")
        if wanted and wanted <= verified:
            return Text(f"✓ {len(verified)} verified", style="green")
        return Text(f"{len(verified)}/{len(wanted)}" if verified else "…", style="dim")


def _outcome(result: Result) -> str:
    return result.answer or (result.error.code if result.error else "—")
