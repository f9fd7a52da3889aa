"""The local broker and registry, for real: they come up, come back, and never stay behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pipeline import jars
from pipeline.errors import BrokerDownError, DependencyDownError, MissingDependencyError
from pipeline.kafka import local_broker
from pipeline.kafka.local_broker import LocalBroker, choose_broker
from pipeline.settings import load_settings
from tests.eventually import eventually

pytestmark = pytest.mark.integration

FAKE_MVN = """#!/bin/sh
for argument; do case "$argument" in -DoutputDirectory=*) folder="${argument#*=}";; esac; done
echo run >> "$COUNT_FILE"
echo jar > "$folder/one.jar"
exit "${MVN_EXIT:-0}"
"""


@pytest.fixture
def home() -> Path:
    """The real cache: the jars are fetched once."""
    return load_settings().home


@pytest.fixture
def fake_mvn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """A ``mvn`` that brings one file; returns how often it ran."""
    program, count = tmp_path / "bin" / "mvn", tmp_path / "count"
    program.parent.mkdir()
    program.write_text(FAKE_MVN)
    program.chmod(0o755)
    count.touch()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("COUNT_FILE", str(count))
    return lambda: count.read_text().count("run")


@pytest.fixture
def pom(tmp_path: Path) -> Path:
    path = tmp_path / "pom.xml"
    path.write_text("<project/>")
    return path


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def create(bootstrap: str, topic: str, *, copies: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, copies)])[topic].result(30)


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    errors: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "message.max.bytes": 3_000_000})
    producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        messages = consumer.consume(count, 60)
        return [message.value() or b"" for message in messages]
    finally:
        consumer.close()


def test_data_and_port_survive_a_crash_and_a_restart(home: Path, tmp_path: Path) -> None:
    large = b"x" * 2_900_000
    with LocalBroker(home, data=tmp_path) as broker:
        address = broker.bootstrap
        create(address, "kept")
        produce(address, "kept", b"before the crash")
        broker.kill()
        assert not broker.pids
        broker.start()
        assert broker.bootstrap == address
        # Otherwise its coordinators would load twice at once, and might end empty.
        assert "Fencing broker 1" in (tmp_path / "node-1" / "fencing.log").read_text()
        produce(address, "kept", large)
        assert 50_000_000 < broker.resident_bytes < 900_000_000
    with LocalBroker(home, data=tmp_path) as broker:
        assert broker.bootstrap == address
        assert consume(broker.bootstrap, "kept", 2) == [b"before the crash", large]


def test_three_nodes_lose_one_and_nothing_else(home: Path) -> None:
    with LocalBroker(home, nodes=3) as broker:
        assert set(broker.pids) == {1, 2, 3}
        create(broker.bootstrap, "safe", copies=3)
        produce(broker.bootstrap, "safe", b"one")
        broker.kill(2)
        produce(broker.bootstrap, "safe", b"two")
        assert consume(broker.bootstrap, "safe", 2) == [b"one", b"two"]
        broker.start()
        assert set(broker.pids) == {1, 2, 3}


def test_it_dies_with_a_killed_parent_and_the_next_run_sweeps(home: Path) -> None:
    code = f"""
import json, signal
from pathlib import Path
from pipeline.kafka.local_broker import LocalBroker
broker = LocalBroker(Path({str(home)!r}))
broker.start()
print(json.dumps([broker.pids[1], str(broker.folder)]), flush=True)
signal.pause()
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout
    with parent.stdout:
        pid, folder = json.loads(parent.stdout.readline())
    assert is_alive(pid)
    assert os.getsid(pid) == pid
    parent.kill()
    parent.wait()
    eventually(lambda: not is_alive(pid))
    assert Path(folder).is_dir()
    # Two at once: neither takes the other's ports or sweeps the other's folder.
    with ThreadPoolExecutor() as pool:
        brokers = [LocalBroker(home) for _ in range(2)]
        try:
            list(pool.map(LocalBroker.start, brokers))
            assert brokers[0].bootstrap != brokers[1].bootstrap
            assert not Path(folder).exists()
            folders = [broker.folder for broker in brokers]
            assert all(each and each.is_dir() for each in folders)
        finally:
            list(pool.map(LocalBroker.stop, brokers))
    assert not any(each and each.exists() for each in folders)


def test_a_failed_start_says_why(home: Path, tmp_path: Path) -> None:
    broker = LocalBroker(home, data=tmp_path)
    data = tmp_path / "node-1" / "data"
    data.mkdir(parents=True)
    (data / "meta.properties").write_text("version=1\ncluster.id=other\nnode.id=77\n")
    with pytest.raises(BrokerDownError, match="77"):
        broker.start()
    assert not broker.pids


def test_a_named_broker_is_used(bootstrap: str) -> None:
    said: list[str] = []
    with choose_broker(load_settings(bootstrap=bootstrap), said.append) as address:
        assert address == bootstrap
    assert said == [f"broker: {bootstrap} (TALLYSTREAM_BOOTSTRAP)"]


def test_a_named_broker_that_is_away_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_broker, "REACH_SECONDS", 0.5)
    settings = load_settings(bootstrap="127.0.0.1:1")
    with pytest.raises(BrokerDownError, match=r"127\.0\.0\.1:1"), choose_broker(settings, print):
        pass


@pytest.mark.parametrize(("program", "package"), [("java", "openjdk-17-jre-headless"), ("mvn", "maven")])
def test_a_missing_program_is_one_sentence(
    program: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingDependencyError, match=package) as caught:
        jars.require(program)
    assert "\n" not in caught.value.message


def test_jars_are_fetched_once_however_many_ask(
    fake_mvn: Callable[[], int], pom: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    with ThreadPoolExecutor() as pool:
        fetches = [
            pool.submit(jars.fetch_jars, pom, tmp_path / "jars", said.append, "once") for _ in range(4)
        ]
        targets = {fetch.result() for fetch in fetches}
    assert [[each.name for each in target.iterdir()] for target in targets] == [["one.jar"]]
    assert fake_mvn() == 1
    assert said == ["once"]
    pom.write_text("<project><!-- another --></project>")
    assert jars.fetch_jars(pom, tmp_path / "jars", said.append, "again") not in targets


def test_a_failed_fetch_leaves_nothing_behind(
    fake_mvn: Callable[[], int], pom: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MVN_EXIT", "1")
    with pytest.raises(DependencyDownError, match="Maven could not fetch"):
        jars.fetch_jars(pom, tmp_path / "jars", print, "")
    assert fake_mvn() == 1
    assert [each.name for each in (tmp_path / "jars").iterdir()] == [".lock"]


def test_the_registry_speaks_the_confluent_api(registry_url: str) -> None:
    schema = json.dumps({"schema": json.dumps({"type": "string"})}).encode()
    request = urllib.request.Request(
        f"{registry_url}/subjects/local-registry-test-value/versions",
        data=schema,
        headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        assert json.load(response)["id"] > 0
