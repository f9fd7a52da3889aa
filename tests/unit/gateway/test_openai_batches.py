"""Batches without Kafka: whatever stops their server and whenever, each line is in one of the two files, once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.delivery.guard import Guard
from pipeline.errors import BrokerDownError, TallystreamError
from pipeline.events import Callback, Delivery, DeliveryState, InferenceRequest, Status
from pipeline.gateway.keys import Principal
from pipeline.gateway.openai.asking import Asker
from pipeline.gateway.openai.batch_lines import CHAT, BadLine, Line, error_line, read_line
from pipeline.gateway.openai.batch_log import BatchLog
from pipeline.gateway.openai.batch_record import Batch, BatchFolder, BatchStatus, new_batch_id
from pipeline.gateway.openai.batch_run import ERRORS, OUTPUT, BatchRun
from pipeline.gateway.openai.file_store import FileStore
from pipeline.store.tasks import LaneLoad, Load
from tests.unit.gateway.gateway_world import World, world
from tests.unit.gateway.openai_results import result_of
from tests.unit.gateway.until import until

OWNER = Principal("k", "acme")
NOW = 4_000_000_000


def line(number: int, **changes: Any) -> bytes:
    body = {"model": "tallystream", "messages": [{"role": "user", "content": f"{number}?"}]}
    told = {"custom_id": f"c{number}", "method": "POST", "url": CHAT, "body": body} | changes
    return json.dumps(told).encode()


class Served:
    """A batch on a world, and what answers its lines."""

    def __init__(self, here: World, home: Path) -> None:
        self.here = here
        self.files = FileStore(home / "other")  # not those that the world itself serves
        self.folder = BatchFolder(self.files.folder)
        self.run: BatchRun | None = None

    def batch(self, lines: Sequence[bytes], **changes: Any) -> Batch:
        """A new one, taken by no gateway."""
        batch = Batch(new_batch_id(), OWNER, CHAT, "file-x", NOW - 86_400, NOW, **changes)
        self.folder.input(batch.id).write_bytes(b"\n".join(lines) + b"\n")
        self.folder.write(batch)
        return batch

    def serve(self, batch_id: str) -> asyncio.Task[None]:
        """As a gateway does that has just taken the lease."""
        batch = self.folder.read(batch_id)
        assert batch is not None
        self.run = BatchRun(self.here.gateway, self.files, self.folder, batch)
        return asyncio.create_task(self.run.run())

    def answer(self, request_id: str, status: Status = Status.DONE) -> None:
        task = self.here.store.by_id[request_id]
        if not task.status.terminal:
            self.here.finish(request_id, status, result=result_of(task.request, status))
        assert self.run is not None
        self.run.has_ended(request_id)

    def open(self) -> list[str]:
        return [name for name, task in self.here.store.by_id.items() if not task.status.terminal]

    async def all_answered(self, serving: asyncio.Task[None]) -> None:
        """Answer everything as it is asked."""

        def done() -> bool:
            for request_id in self.open():
                self.answer(request_id)
            return serving.done()

        await until(done)
        await serving

    def rows(self, batch: Batch, what: str) -> list[dict[str, Any]]:
        path = self.files.data(batch.file_id(what))
        return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []

    def ended(self, batch_id: str) -> Batch:
        batch = self.folder.read(batch_id)
        assert batch is not None
        assert batch.status.terminal
        return batch


@asynccontextmanager
async def served(home: Path, **gateway: Any) -> AsyncGenerator[Served]:
    async with world(home, gateway=gateway) as here:
        yield Served(here, home)


async def test_bad_lines_stop_no_others(tmp_path: Path) -> None:
    bad = [
        b"no JSON",
        line(3, url="/v1/responses"),
        line(1),
        line(5, body={"model": "gpt-7", "messages": []}),
    ]
    async with served(tmp_path) as here:
        batch = here.batch([line(1), bad[0], bad[1], bad[2], bad[3], b"", line(7)])
        await here.all_answered(here.serve(batch.id))
        ended = here.ended(batch.id)
        assert (ended.status, ended.total, ended.completed, ended.failed) == ("completed", 6, 2, 4)
        assert [row["custom_id"] for row in here.rows(batch, OUTPUT)] == ["c1", "c7"]
        errors = [row["error"] for row in here.rows(batch, ERRORS)]
        assert [(error["line"], error["param"]) for error in errors] == [
            (2, None),
            (3, "url"),
            (4, "custom_id"),
            (5, "messages"),
        ]
        assert here.files.find(batch.file_id(OUTPUT), OWNER).purpose == "batch_output"
        request = here.here.intake.requests[0]
        assert (request.priority, request.tenant, request.deadline_ms) == (5, "acme", 86_400_000)
        assert request.metadata == {"batch": batch.id, "custom_id": "c1"}


@pytest.mark.parametrize("calls", range(1, 40, 2))
async def test_each_line_once_though_its_servers_die(tmp_path: Path, calls: int) -> None:
    """Every server dies, as by a signal, at its nth call of Kafka or the view, until one gets through."""
    lines = [*(line(number) for number in range(6)), b"bad"]
    async with served(tmp_path, batch_window=2) as here:
        batch = here.batch(lines)
        left = calls
        died = 0

        async def counted(call: Any, *arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise KilledError
            answer = await call(*arguments)
            left -= 1
            if left == 0:  # it was done, and nobody knows
                raise KilledError
            return answer

        store, intake = here.here.store, here.here.intake
        for whose, name in ((store, "task"), (store, "fresh_task"), (intake, "write")):
            call = getattr(whose, name)
            setattr(whose, name, lambda *arguments, call=call: counted(call, *arguments))
        while True:
            try:
                await here.all_answered(here.serve(batch.id))
                break
            except KilledError:
                died += 1
                left = calls + died  # or none would ever get further
        ended = here.ended(batch.id)
        assert (ended.status, ended.completed, ended.failed) == ("completed", 6, 1)
        assert sorted(row["custom_id"] for row in here.rows(batch, OUTPUT)) == [f"c{n}" for n in range(6)]
        assert [row["error"]["line"] for row in here.rows(batch, ERRORS)] == [7]
        asked = [request.request_id for request in intake.requests]
        assert sorted(asked) == sorted(f"{batch.id}-{number}" for number in range(1, 7)), (
            "what is there is seen"
        )


async def test_a_line_that_is_too_long_is_one_bad_line(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        batch = here.batch([line(1), b"x" * 3_000_000, line(3)])
        await here.all_answered(here.serve(batch.id))
        assert {row["custom_id"] for row in here.rows(batch, OUTPUT)} == {"c1", "c3"}
        (row,) = here.rows(batch, ERRORS)
        assert (row["error"]["line"], row["error"]["code"]) == (2, "body_too_large")


class KilledError(BaseException):
    """Nothing may catch it."""


async def test_a_full_house_is_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path, backlog_limit=1) as here:
        here.here.store.busy = Load((LaneLoad(waiting=5),), finished_per_second=10.0)
        batch = here.batch([line(1)])
        serving = here.serve(batch.id)
        await until(lambda: (here.folder.read(batch.id) or batch).status is BatchStatus.IN_PROGRESS)
        assert not here.here.intake.requests
        here.here.store.busy = Load(())
        await here.all_answered(serving)
        assert here.ended(batch.id).completed == 1


async def test_the_window_is_kept(tmp_path: Path) -> None:
    async with served(tmp_path, batch_window=3) as here:
        batch = here.batch([line(number) for number in range(9)])
        serving = here.serve(batch.id)
        most = 0

        def done() -> bool:
            nonlocal most
            most = max(most, len(here.open()))
            if len(here.open()) >= 3 or len(here.here.intake.requests) == 9:
                for request_id in here.open()[:1]:
                    here.answer(request_id)
            return serving.done()

        await until(done)
        assert most == 3
        assert here.ended(batch.id).completed == 9


@pytest.mark.parametrize("again", [False, True])
async def test_a_cancelled_batch_has_what_was_answered(tmp_path: Path, again: bool) -> None:
    async with served(tmp_path, batch_window=3) as here:
        batch = here.batch([line(number) for number in range(6)])
        serving = here.serve(batch.id)
        await until(lambda: len(here.open()) == 3)
        answered, *stopped = here.open()
        here.answer(answered)
        await until(lambda: len(here.open()) == 3 and answered not in here.open())
        if again:
            serving.cancel()
            await asyncio.wait([serving])
        here.folder.cancel(batch.id)
        serving = here.serve(batch.id) if again else serving
        await until(lambda: len({word.request_id for word in here.here.intake.words}) >= 3)
        for request_id in here.open():
            here.answer(request_id, Status.CANCELLED)
        await until(serving.done)
        ended = here.ended(batch.id)
        assert (ended.status, ended.completed, ended.failed) == ("cancelled", 1, 5)
        assert [row["custom_id"] for row in here.rows(batch, OUTPUT)] == ["c0"]
        assert {row["error"]["code"] for row in here.rows(batch, ERRORS)} == {"batch_cancelled"}
        assert len({row["custom_id"] for row in here.rows(batch, ERRORS)}) == 5
        assert len(here.here.store.by_id) == 4, "what was not asked is not asked any more"
        assert stopped


async def test_a_batch_that_is_too_old_ends(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        batch = replace(here.batch([line(1)]), expires_at=1, created_at=0)
        here.folder.write(batch)
        serving = here.serve(batch.id)
        await until(lambda: here.here.intake.words)
        here.answer(here.open()[0], Status.CANCELLED)
        await until(serving.done)
        assert here.ended(batch.id).status is BatchStatus.EXPIRED
        assert here.rows(batch, ERRORS)[0]["error"]["code"] == "batch_expired"


async def test_a_batch_of_nothing_fails(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        batch = here.batch([b"", b"  "], callback=Callback("http://x/", events=()))
        await here.serve(batch.id)
        assert here.ended(batch.id).status is BatchStatus.FAILED
        assert "0" in here.ended(batch.id).failure
        assert len(here.here.intake.written) == 1, "that it failed is told too"


async def test_the_end_is_told(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        batch = here.batch([line(1)], callback=Callback("http://x/", events=()))
        await here.all_answered(here.serve(batch.id))
        events = [here.here.gateway.codec.decode(record.value or b"") for record in here.here.intake.written]
        (delivery,) = [event for event in events if isinstance(event, Delivery)]
        assert (delivery.state, delivery.event, delivery.request_id) == (
            DeliveryState.PENDING,
            "batch.completed",
            batch.id,
        )
        assert json.loads(delivery.body)["data"] == {"id": batch.id}


async def test_one_gateway_at_a_time(tmp_path: Path) -> None:
    first, second = BatchFolder(tmp_path), BatchFolder(tmp_path)
    lease = first.lease("batch_1")
    assert lease is not None
    assert second.lease("batch_1") is None
    lease.close()
    assert second.lease("batch_1") is not None


async def test_kafka_that_is_away_ends_nothing(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        here.here.intake.refuses = BrokerDownError("away", retry_after=0.01)
        batch = here.batch([line(1)])
        serving = here.serve(batch.id)
        await until(lambda: (here.folder.read(batch.id) or batch).status is BatchStatus.IN_PROGRESS)
        here.here.intake.refuses = None
        await here.all_answered(serving)
        assert here.ended(batch.id).completed == 1


def _log(folder: Path) -> tuple[Path, Path]:
    return folder / OUTPUT, folder / ERRORS


@hypothesis.settings(max_examples=25)
@given(st.lists(st.integers(1, 99), unique=True, min_size=1, max_size=6), st.data())
def test_a_torn_log_is_gone_on_with(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("log")
    texts = [(number, error_line("batch_1", number, f"c{number}", "bad", "é\n")) for number in numbers]
    log = BatchLog(*_log(folder))
    log.write((), texts)
    log.close()
    path = folder / ERRORS
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole)))])
    log = BatchLog(*_log(folder))
    assert log.done <= set(numbers)
    assert log.failed == len(log.done)
    log.write((), texts)
    log.close()
    assert path.read_bytes() == whole


def test_a_line_is_the_same_request_whoever_reads_it() -> None:
    asker = Asker("acme", Guard(allow_private=True, allowed_ports=()), 5, 1000)

    def read(text: bytes) -> Line | BadLine:
        return read_line(text, 3, "batch_1", CHAT, asker, lambda name: None)

    first = read(line(3))
    assert isinstance(first, Line)
    assert first == read(line(3))
    assert first.request.request_id == "batch_1-3"
    assert isinstance(first.request, InferenceRequest)
    for text in (
        line(3, method="GET"),
        line(3, custom_id=""),
        line(3, more=1),
        b"[]",
        b"\xff",
        b"x" * 2_000_000,
    ):
        bad = read(text)
        assert isinstance(bad, BadLine)
        assert isinstance(bad.error, TallystreamError)
