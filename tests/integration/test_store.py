"""The view follows a real pipeline: the same whenever it is built, and one gateway's task is seen by another."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.admin import create_topics
from pipeline.errors import DependencyDownError
from pipeline.events import Callback, Delivery, DeliveryState, InferenceRequest, Mode, Result, Role, Sample
from pipeline.free_ports import free_ports
from pipeline.ids import new_request_id
from pipeline.kafka.clients import admin_client
from pipeline.kafka.local_broker import LocalBroker
from pipeline.settings import Settings, load_settings
from pipeline.store import follower
from pipeline.store.rows import Stored
from pipeline.store.store import Store
from pipeline.store.tasks import TaskFilter
from pipeline.store.view import View
from pipeline.telemetry import now_ms
from pipeline.topics import REQUESTS, RESULTS
from tests.e2e.commands import PATIENCE
from tests.eventually import eventually
from tests.integration.asker import Asker
from tests.integration.killed import environment_of
from tests.integration.running import Running

pytestmark = pytest.mark.integration


@asynccontextmanager
async def following(asker: Asker, folder: Path, **gateway: Any) -> AsyncIterator[Store]:
    """A store that has read all that there is."""
    async with Store(patient(asker.settings, **gateway), asker.codec, folder) as store:
        async with asyncio.timeout(PATIENCE):
            await store.wait_ready()
        yield store


def patient(settings: Settings, **gateway: Any) -> Settings:
    changed = settings.gateway.model_copy(update={"catch_up": PATIENCE} | gateway)
    return settings.model_copy(update={"gateway": changed})


async def true(condition: Callable[[], object]) -> None:
    await asyncio.to_thread(eventually, condition, PATIENCE)


def rows_of(folder: Path, ids: Collection[str]) -> list[tuple[Any, ...]]:
    """All that a view's file holds of these requests."""
    marks = ", ".join("?" * len(ids))
    connection = sqlite3.connect(folder / "view.sqlite")
    columns = [name for _, name, *_ in connection.execute("PRAGMA table_info(runs)") if name != "id"]
    found: list[tuple[Any, ...]] = []
    for query in (
        f"SELECT {', '.join(columns)} FROM runs",
        "SELECT request_id, runs.run, kind, number, at, records.partition, records.offset, data "
        "FROM records JOIN runs ON runs.id = records.run",
        "SELECT request_id, partition, offset, at, delivery_id, newest, data FROM deliveries",
    ):
        found += connection.execute(f"{query} WHERE request_id IN ({marks}) ORDER BY 1, 2, 3, 4", (*ids,))
    connection.close()
    return found


@pytest.fixture(scope="module")
def asked(running: Running) -> tuple[str, ...]:
    """Requests of several modes that have ended, the last with callbacks, all of which were delivered."""
    callback = Callback(running.receiver.url, events=("first_answer", "done"))
    with Asker(running.settings) as asker:
        ids = [asker.ask("answers=1", priority=number, tenant="store") for number in range(3)]
        ids.append(asker.ask("answers=4", mode=Mode.DEEP, tenant="store", callback=callback))
        asker.finals(ids)

        def delivered() -> bool:
            states = {each.event: each.state for each in asker.of(Delivery) if each.request_id == ids[3]}
            results = [each.status for each in asker.results() if each.request_id == ids[3]]
            return [states[event] for event in states] == [DeliveryState.DELIVERED] * len(results)

        asker.until(delivered, "all callbacks")
        asker.put_bytes(b"no event", 0)
        asker.dead_letter(b"no event")
    return tuple(ids)


async def test_a_finished_task_is_told_whole(asker: Asker, asked: tuple[str, ...], tmp_path: Path) -> None:
    async with following(asker, tmp_path) as store:
        task = await store.task(asked[3])
        assert task is not None
        assert task.result is not None
        assert task.request.mode is Mode.DEEP
        assert task.status is task.result.status
        times = (task.accepted_at, task.opened_at, task.first_sample_at, task.finished_at)
        assert None not in times
        assert list(times) == sorted(times, key=lambda time: time or 0)
        samples = await store.samples(asked[3], 0)
        assert (
            task.samples == sum(sample.role is not Role.REVIEW for sample in samples) <= (task.expected or 0)
        )
        last = (await store.deliveries(asked[3]))[-1]
        assert last.event == "done"
        attempts = await store.attempts(last.delivery_id)
        assert [each.state for each in attempts] == [DeliveryState.PENDING, DeliveryState.DELIVERED]
        told = await store.history(asked[3], 0)
        assert {type(each.event) for each in told} >= {InferenceRequest, Sample, Result}
        assert [each.at for each in told] == sorted(each.at for each in told)
        page = await store.tasks(TaskFilter(tenant="store"))
        assert [each.request.request_id for each in page.tasks] == sorted(asked, reverse=True)
        assert any(letter.cause.code == "bad_magic" for letter in await store.letters())
        assert await store.waiting_of("store") == 0
        assert store.load().as_of > 0
        assert store.problem is None


async def test_a_view_that_was_removed_exchanged_or_outrun_is_built_again(
    asker: Asker, asked: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "harmed"
    file = folder / "view.sqlite"

    def remove() -> None:
        file.unlink()

    def damage() -> None:
        file.write_bytes(b"no database at all")

    def overwrite() -> None:
        whole = file.read_bytes()
        file.write_bytes(whole[:4096] + b"x" * (len(whole) - 4096))

    def change(statement: str) -> Callable[[], None]:
        def execute() -> None:
            connection = sqlite3.connect(file)
            connection.execute("DELETE FROM records")
            connection.execute(statement)
            connection.commit()
            connection.close()

        return execute

    async with following(asker, tmp_path / "whole"):
        for harm in (
            lambda: None,
            remove,
            damage,
            overwrite,
            change("PRAGMA user_version = 5"),
            change("UPDATE meta SET value = 'another cluster'"),
            change(f"UPDATE positions SET next = next + 1000000 WHERE topic = '{RESULTS}'"),
        ):
            harm()
            async with following(asker, folder):
                await true(lambda: rows_of(folder, asked) == rows_of(tmp_path / "whole", asked))
                assert rows_of(folder, asked)


@pytest.mark.parametrize(("number", "when"), [(1, "after"), (4, "before")])
async def test_a_store_that_is_killed_goes_on_exactly(
    asker: Asker, asked: tuple[str, ...], tmp_path: Path, number: int, when: str
) -> None:
    command = [sys.executable, "-m", "tests.integration.killed_store", str(tmp_path / "killed")]
    env = environment_of(asker.settings)
    run = await asyncio.to_thread(
        subprocess.run, [*command, str(number), when], env=env, timeout=PATIENCE, check=False
    )
    assert run.returncode == -signal.SIGKILL
    async with following(asker, tmp_path / "killed"), following(asker, tmp_path / "whole"):
        await true(lambda: rows_of(tmp_path / "killed", asked) == rows_of(tmp_path / "whole", asked))


async def test_two_stores_see_each_others_tasks_at_once(asker: Asker, tmp_path: Path) -> None:
    async with following(asker, tmp_path / "a") as one, following(asker, tmp_path / "b") as other:
        for store in (one, other) * 5:
            request_id = await asyncio.to_thread(asker.ask, mode=Mode.FAST)
            task = await store.fresh_task(request_id)
            assert task is not None
            assert task.request.request_id == request_id
        missing = await asyncio.gather(*(one.fresh_task(new_request_id(now_ms())) for _ in range(20)))
        assert missing == [None] * 20
        assert [await one.fresh_task(name) for name in ("", "a\0b", "\ud800", "x" * 200, "../..")] == [
            None
        ] * 5


async def test_what_is_stored_is_told_in_order_and_a_lost_file_is_built_again_meanwhile(
    asker: Asker, asked: tuple[str, ...], tmp_path: Path
) -> None:
    told: list[Stored] = []
    async with following(asker, tmp_path) as store:
        store.listen(lambda _: 1 / 0)
        store.listen(told.extend)
        request_id = await asyncio.to_thread(asker.ask, mode=Mode.FAST)
        await true(lambda: any(isinstance(each.event, Result) for each in of(request_id, told)))
        places = [(each.topic, each.partition, each.offset) for each in told]
        assert len(places) == len(set(places))
        for topic in {each.topic for each in told}:
            for partition in range(12):
                offsets = [offset for *place, offset in places if place == [topic, partition]]
                assert offsets == sorted(offsets)
        (tmp_path / "view.sqlite").unlink()
        await true(lambda: any(each.event for each in of(asked[3], told)))
        async with asyncio.timeout(PATIENCE):
            await store.wait_ready()
        assert await store.fresh_task(asked[3]) is not None


def of(request_id: str, told: list[Stored]) -> list[Stored]:
    return [each for each in list(told) if getattr(each.event, "request_id", None) == request_id]


async def test_a_disk_that_is_full_is_told_of_and_waited_for(
    asker: Asker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, told = threading.Event(), list[Stored]()
    take = View.take

    def failing(view: View, *lot: Any) -> Any:
        mine = view.connections.mine()
        mine.execute(f"PRAGMA max_page_count = {1 if full.is_set() else 2**30}")
        if full.is_set():
            mine.execute("CREATE TABLE filler AS SELECT zeroblob(10000000)")
        return take(view, *lot)

    monkeypatch.setattr(View, "take", failing)
    monkeypatch.setattr(follower, "_LONG_PAUSE", 0.05)
    async with following(asker, tmp_path, catch_up=0.5) as store:
        store.listen(told.extend)
        full.set()
        request_id = await asyncio.to_thread(asker.ask, mode=Mode.FAST)
        await true(lambda: "full" in (store.problem or ""))
        with pytest.raises(DependencyDownError, match="full"):
            await store.fresh_task(request_id)
        full.clear()
        await true(lambda: store.problem is None)
        await true(lambda: of(request_id, told))
        assert await store.task(request_id) is not None


async def test_a_kafka_that_is_away_is_said_and_not_taken_for_an_empty_one(
    asker: Asker, tmp_path: Path
) -> None:
    nowhere = load_settings(bootstrap=f"127.0.0.1:{free_ports(1)[0]}", app="it", shards=2)
    async with Store(patient(nowhere, catch_up=0.2), asker.codec, tmp_path) as store:
        await true(lambda: store.problem)
        assert not await store.caught_up()
        assert store.load().as_of == 0
        with pytest.raises(DependencyDownError):
            await store.fresh_task("a")
        assert await store.task("a") is None


async def test_a_kafka_that_stands_still_is_waited_for_and_topics_made_again_are_read_again(
    tmp_path: Path,
) -> None:
    with LocalBroker(load_settings().home) as broker:
        settings = patient(load_settings(bootstrap=broker.bootstrap, app="own"))
        create_topics(settings)
        with Asker(settings) as own:
            async with following(own, tmp_path) as store:
                first = await asyncio.to_thread(own.ask)
                assert await store.fresh_task(first) is not None
                os.kill(broker.pids[1], signal.SIGSTOP)
                await true(lambda: store.problem)
                heard = store.load().as_of
                os.kill(broker.pids[1], signal.SIGCONT)
                await true(lambda: store.problem is None and store.load().as_of > heard)
                second = await asyncio.to_thread(own.ask)
                assert await store.fresh_task(second) is not None
                admin: Any = admin_client(settings)
                admin.delete_topics([REQUESTS])[REQUESTS].result()
                await true(lambda: REQUESTS not in admin.list_topics(timeout=30).topics)
                create_topics(settings)
                with Asker(settings) as later:
                    third = await asyncio.to_thread(later.ask)
                    await true(lambda: store.load().waiting == 1)
                    assert await store.task(third) is not None
                    assert await store.task(first) is None
