"""``tallystream replay`` on a running pipeline: each request once under its number, whatever happens meanwhile."""

from __future__ import annotations

import io
import json
import shlex
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from fastavro import schemaless_writer
from golden.golden_events import FOLDER

from pipeline.client import RequestProducer
from pipeline.commands.moments import moment
from pipeline.errors import DecodeError
from pipeline.events import Callback, Delivery, DeliveryState, InferenceRequest, SamplingOverrides, Status
from pipeline.ids import new_request_id
from pipeline.kafka.clients import value_of
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.read_back import read_back
from pipeline.kafka.schemas import SCHEMAS, make_schema
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import PRIORITIES, REQUESTS, request_partition
from tests.e2e.commands import Session, tallystream
from tests.eventually import eventually
from tests.integration.asker import Asker
from tests.integration.killed import environment_of, killed_before_each_call
from tests.integration.running import Running

pytestmark = pytest.mark.integration


def on_requests(settings: Settings, tenant: str) -> list[tuple[Source, InferenceRequest]]:
    """Everything that stands on requests for a tenant."""
    places = [(REQUESTS, partition) for partition in range(PRIORITIES * settings.shards)]
    found: list[tuple[Source, InferenceRequest]] = []
    for message in read_back(settings, places):
        with suppress(DecodeError):
            event = Codec().decode(value_of(message))
            if isinstance(event, InferenceRequest) and event.tenant == tenant:
                found.append((Source.of(message), event))
    return found


def runs(settings: Settings, tenant: str) -> Counter[tuple[str, int]]:
    """How often each run of each id of a tenant stands on requests."""
    return Counter((event.request_id, event.run) for _, event in on_requests(settings, tenant))


def results_of(asker: Asker, run: int) -> Counter[str]:
    """Final results of a run, by id."""
    return Counter(each.request_id for each in asker.results() if each.run == run and each.status.terminal)


def callbacks_of(asker: Asker, run: int) -> Counter[str]:
    return Counter(
        each.request_id
        for each in asker.of(Delivery)
        if each.run == run and each.state is DeliveryState.DELIVERED
    )


@contextmanager
def arriving(settings: Settings, tenant: str) -> Iterator[list[str]]:
    """New requests of a tenant come all the time while the block lasts."""
    stop, asked = threading.Event(), list[str]()

    def ask() -> None:
        producer = RequestProducer(settings, Codec())
        while not stop.wait(0.2):
            asked.append(new_request_id(now_ms()))
            producer.send(InferenceRequest(asked[-1], "answers=1", tenant=tenant))
            producer.flush()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield asked
    finally:
        stop.set()
        thread.join()


def test_a_replay_killed_before_each_of_its_calls_asks_every_request_once(asker: Asker) -> None:
    tenant, begin = "replay-killed", moment(now_ms() - 1)
    ids = [asker.ask("answers=7", tenant=tenant) for _ in range(5)]
    asker.finals(ids)
    end = moment(now_ms() + 1)
    with arriving(asker.settings, tenant) as others:
        run, kills = killed_before_each_call(
            *("replay", "--from", begin, "--to", end, "--where", f"tenant={tenant}"),
            *("--as-run", "1", "--rate", "1000", "--apply"),
            env=environment_of(asker.settings),
            lot=2,
        )
    assert run.returncode == 0, run.stderr
    assert kills >= 4, "killed before begin, before commit, and between transactions"
    counts = runs(asker.settings, tenant)
    assert {name for name, number in counts if number == 1} == set(ids)
    assert set(counts.values()) == {1}
    assert {name for name, number in counts if number == 0} == {*ids, *others}
    asker.until(lambda: set(ids) <= results_of(asker, 1).keys(), "results of run 1")
    asker.finals(others)
    assert [results_of(asker, 1)[each] for each in ids] == [1] * 5
    assert not [each for each in others if results_of(asker, 1)[each]]

    again = tallystream(
        *("replay", "--from", begin, "--where", f"tenant={tenant}", "--to", end, "--as-run", "1", "--apply"),
        env=environment_of(asker.settings),
    )
    assert (again.returncode, "0 requests asked again" in again.stderr) == (0, True), again.stderr
    assert runs(asker.settings, tenant) == counts


def test_a_dry_run_says_what_it_would_do_and_its_command_does_that(asker: Asker, running: Running) -> None:
    tenant, begin = "replay-dry", moment(now_ms() - 1)
    callback = Callback(running.receiver.url)
    sampling = SamplingOverrides(n=2, seed=11, temperature=0.25)
    asked = InferenceRequest(
        new_request_id(now_ms()),
        "answers=7",
        tenant=tenant,
        callback=callback,
        sampling=sampling,
        created_at=now_ms(),
    )
    asker.put(asked)
    silent = asker.ask("answers=8", tenant=tenant, priority=1)
    other = asker.ask("answers=8", tenant="replay-other")
    garbage = b"\x7breplay"
    asker.put_bytes(garbage, 0)
    asker.dead_letter(garbage)
    asker.finals([asked.request_id, silent, other])
    command = ("replay", "--from", begin, "--where", f"tenant={tenant}")
    env = environment_of(asker.settings)

    dry = tallystream(*command, env=env)
    assert dry.returncode == 0, dry.stderr
    assert "2 requests would be asked again as run 1" in dry.stderr
    assert "1 with a callback" in dry.stderr
    assert "1 bad_magic (requests[0]@" in dry.stderr
    assert asked.request_id in dry.stdout
    assert other not in dry.stdout
    listed = tallystream(*command, "--json", env=env)
    lines = [json.loads(line) for line in listed.stdout.splitlines()]
    assert [(line["request_id"], line["run"], line["callback"]) for line in lines] == [
        (asked.request_id, 1, True),
        (silent, 1, False),
    ]
    assert {number for _, number in runs(asker.settings, tenant)} == {0}

    said = next(line for line in dry.stderr.splitlines() if line.startswith("tallystream replay"))
    done = tallystream(*shlex.split(said)[1:], env=env)
    assert done.returncode == 0, done.stderr
    asker.until(lambda: results_of(asker, 1).keys() >= {asked.request_id, silent}, "results of run 1")
    source, again = next(
        (source, event)
        for source, event in on_requests(asker.settings, tenant)
        if event.run and event.callback is None and event.request_id == asked.request_id
    )
    assert (again.sampling, again.prompt, again.metadata) == (sampling, asked.prompt, asked.metadata)
    assert (again.created_at, again.replay_id) == (0, "/".join(shlex.split(said)[5:8:2]))
    assert dict(source.headers)["tallystream.replayed.from"].startswith(
        f"requests[{source.partition}]@".encode()
    )
    first, second = (
        next(r for r in asker.results() if r.request_id == asked.request_id and r.run == run)
        for run in (0, 1)
    )
    assert (first.answer, second.answer) == ("7", "7")
    assert second.timings.created_at > first.timings.finished_at, "the deadline counts from the replay"

    loud = tallystream(*command, "--as-run", "2", "--deliver", "--apply", env=env)
    assert loud.returncode == 0, loud.stderr
    asker.until(lambda: bool(callbacks_of(asker, 2)), "the callback of run 2")
    asker.until(lambda: results_of(asker, 2).keys() >= {asked.request_id, silent}, "results of run 2")
    assert [callbacks_of(asker, run)[asked.request_id] for run in range(3)] == [1, 0, 1]
    assert not any(callbacks_of(asker, run)[silent] for run in range(3))
    late = tallystream(*command, "--as-run", "1", "--limit", "1", env=env)
    assert (late.returncode, "1 asked before, 1 beyond the limit" in late.stderr) == (0, True), late.stderr


def test_a_number_that_is_too_low_and_an_empty_range_end_with_one(asker: Asker) -> None:
    tenant, begin = "replay-low", moment(now_ms() - 1)
    request = InferenceRequest(new_request_id(now_ms()), "answers=7", tenant=tenant, run=3)
    asker.put(request)
    asker.finals([request.request_id])
    env = environment_of(asker.settings)
    low = tallystream(
        "replay", "--from", begin, "--where", f"tenant={tenant}", "--as-run", "2", "--apply", env=env
    )
    assert (low.returncode, "1 can not be" in low.stderr) == (1, True), low.stderr
    assert runs(asker.settings, tenant) == {(request.request_id, 3): 1}
    none = tallystream("replay", "--from", "2001-01-01", "--to", "2001-01-02", env=env)
    assert none.returncode == 1, none.stderr


def test_requests_of_earlier_schema_versions_are_asked_again(asker: Asker) -> None:
    begin = moment(now_ms() - 1)
    old = InferenceRequest(new_request_id(now_ms()), "answers=7")
    place = request_partition(old.request_id, old.priority, asker.settings.shards)
    asker.put_bytes(_first_version(old), place, b"old")
    asker.finals([old.request_id])
    done = tallystream(
        *("replay", "--from", begin, "--where", f"id={old.request_id}", "--as-run", "9", "--apply"),
        env=environment_of(asker.settings),
    )
    assert done.returncode == 0, done.stderr
    asker.until(lambda: old.request_id in results_of(asker, 9), "the result of run 9")
    result = next(each for each in asker.results() if each.run == 9)
    assert (result.status, result.answer) == (Status.DONE, "7")


def _first_version(request: InferenceRequest) -> bytes:
    """As a producer of the first schema writes it: its fingerprint, then its fields."""
    schema = make_schema((SCHEMAS / "history" / "InferenceRequest.v1.avsc").read_text("utf-8"))
    body = io.BytesIO()
    schemaless_writer(body, schema.parsed, msgspec.to_builtins(request))
    value = (FOLDER / "InferenceRequest.v1.bin").read_bytes()[:10] + body.getvalue()
    assert Codec().decode(value) == request
    return value


def test_a_replay_that_is_interrupted_says_how_to_go_on(asker: Asker, tmp_path: Path) -> None:
    tenant, begin, count = "replay-stopped", moment(now_ms() - 1), 60
    ids = [asker.ask("answers=7", tenant=tenant, mode="fast") for _ in range(count)]
    asker.finals(ids)
    env = environment_of(asker.settings)
    session = Session(
        *(
            "replay",
            "--from",
            begin,
            "--where",
            f"tenant={tenant}",
            "--as-run",
            "1",
            "--rate",
            "1",
            "--apply",
        ),
        log=tmp_path / "log",
        env=env,
    )
    eventually(lambda: any(number for _, number in runs(asker.settings, tenant)), 120)
    assert session.stop(signal.SIGINT) == 130, session.log.read_text()
    log = session.log.read_text()
    assert "Traceback" not in log
    said = shlex.split(next(line for line in log.splitlines() if line.startswith("tallystream replay")))
    assert 0 < sum(number for _, number in runs(asker.settings, tenant)) < count
    said[said.index("--rate") + 1] = "1000"
    done = tallystream(*said[1:], env=env)
    assert done.returncode == 0, done.stderr
    assert runs(asker.settings, tenant) == {(each, run): 1 for each in ids for run in (0, 1)}
    asker.until(lambda: results_of(asker, 1).keys() >= set(ids), "results of run 1")
