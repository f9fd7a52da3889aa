"""``tallystream offsets``: what a person sees, and that a group is set exactly, and only while nobody is in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from pipeline.events import Batch, Callback, Event, Opened, Result
from pipeline.kafka.clients import assigned_consumer, transactional_producer, value_of
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Place
from pipeline.offsets.groups import Groups
from pipeline.settings import Settings
from pipeline.stack import AGENTS
from pipeline.topics import DELIVERIES, LANES, READ_BY, REQUESTS, RESULTS, SAMPLES
from tests.e2e.commands import tallystream
from tests.eventually import eventually
from tests.integration.asker import Asker
from tests.integration.killed import environment_of
from tests.integration.own_pipeline import own_pipeline

pytestmark = pytest.mark.integration


def idle(settings: Settings) -> None:
    """Wait until Kafka has given up the members of every group."""
    groups = Groups(settings)
    eventually(lambda: not any(groups.read(role).members for role in READ_BY))


def committed(settings: Settings, role: str) -> dict[Place, tuple[int, str]]:
    """Asked in another way than the command asks."""
    consumer = assigned_consumer(settings, group_id=f"{settings.app}-{role}")
    wanted = [TopicPartition(*each.place) for each in Groups(settings).read(role).offsets]
    found: list[Any] = consumer.committed(wanted, timeout=30)
    consumer.close()
    return {(tp.topic, tp.partition): (tp.offset, tp.metadata or "") for tp in found}


def all_of(asker: Asker, *topics: str) -> Iterator[Event]:
    for message in read_back(asker.settings, [(topic, 0) for topic in topics]):
        yield asker.codec.decode(value_of(message))


def offsets(settings: Settings, *argv: str) -> Any:
    return tallystream("offsets", *argv, env=environment_of(settings))


def test_groups_are_shown_and_set_only_while_nobody_is_in_them(tmp_path: Path) -> None:
    with own_pipeline(tmp_path, agents=()) as pipeline:
        settings = pipeline.settings
        nothing = offsets(settings, "show")
        assert nothing.returncode == 1, nothing.stderr
        with pipeline.agents(AGENTS), Asker(settings) as asker:
            callback = Callback(pipeline.receiver.url)
            ids = [asker.ask("answers=7", callback=callback) for _ in range(4)]
            asker.finals(ids)
            asker.until(lambda: sum(e.state == "delivered" for e in delivered(asker)) == 4, "callbacks")
            shown = offsets(settings, "show", "--json")
            assert shown.returncode == 0, shown.stderr
            lines = [json.loads(line) for line in shown.stdout.splitlines()]
            assert {line["agent"]: line["members"] for line in lines} == {
                role: [f"own-{role}-0"] for role in READ_BY
            }
            table = offsets(settings, "show", "--agent", "own-worker")
            assert "own-worker-0 at " in table.stdout
            for agent in ("batcher", "worker", "webhook"):
                for apply in ([], ["--apply"]):
                    live = offsets(settings, "reset", "--agent", agent, "--to", "earliest", *apply)
                    assert (live.returncode, f"own-{agent}-0 at" in live.stderr) == (2, True), live.stderr

        idle(settings)
        before = {role: committed(settings, role) for role in READ_BY}
        dry = offsets(settings, "reset", "--agent", "worker", "--to", "earliest")
        assert (dry.returncode, "add --apply" in dry.stderr) == (0, True), dry.stderr
        never = offsets(settings, "reset", "--agent", "aggregator", "--to", "earliest", "--apply")
        assert (never.returncode, "revote" in never.stderr) == (2, True), never.stderr
        outside = ("--topic", REQUESTS, "--partition", "3", "--to", "99999")
        wrong = offsets(settings, "reset", "--agent", "batcher", *outside, "--apply")
        assert (wrong.returncode, "the offset must be 0 to" in wrong.stderr) == (2, True), wrong.stderr
        assert {role: committed(settings, role) for role in READ_BY} == before

        one = ("--topic", REQUESTS, "--partition", "3", "--to", "1")
        done = offsets(settings, "reset", "--agent", "batcher", *one, "--apply")
        assert done.returncode == 0, done.stderr
        assert committed(settings, "batcher") == before["batcher"] | {(REQUESTS, 3): (1, "")}
        for agent in ("worker", "webhook"):
            done = offsets(settings, "reset", "--agent", agent, "--to", "earliest", "--apply")
            assert done.returncode == 0, done.stderr
            assert set(committed(settings, agent).values()) == {(0, "")}

        with pipeline.agents(AGENTS), Asker(settings) as asker:
            last = asker.ask("answers=8", callback=callback)
            asker.finals([last])
            again = {*ids, last}
            asker.until(lambda: {e.request_id for e in delivered(asker)} >= again, "all callbacks again")
            results = Counter(e.request_id for e in all_of(asker, RESULTS) if isinstance(e, Result))
            opened = Counter(e.request_id for e in all_of(asker, SAMPLES) if isinstance(e, Opened))
            batches = (e for e in all_of(asker, *LANES) if isinstance(e, Batch))
            tasks = Counter(
                (group.request_id, task.sample_index)
                for batch in batches
                for group in batch.groups
                for task in group.tasks
            )
        assert results == opened == dict.fromkeys(again, 1)
        assert set(tasks.values()) == {1}


def test_an_open_transaction_is_shown_and_nothing_is_set_beside_it(tmp_path: Path) -> None:
    with own_pipeline(tmp_path, agents=()) as pipeline:
        settings, place = pipeline.settings, (LANES[0], 0)
        member = assigned_consumer(settings, group_id=f"{settings.app}-worker")
        producer: Producer = transactional_producer(
            settings.model_copy(update={"transaction_timeout_ms": 300_000}), "open"
        )
        producer.init_transactions(60)
        producer.begin_transaction()
        position = TopicPartition(*place, 0, "1;2:5")
        producer.send_offsets_to_transaction([position], member.consumer_group_metadata(), 60)

        shown = offsets(settings, "show", "--agent", "worker", "--json")
        unstable = [line for line in map(json.loads, shown.stdout.splitlines()) if not line["stable"]]
        assert [(line["topic"], line["partition"]) for line in unstable] == [place], shown.stderr
        refused = offsets(settings, "reset", "--agent", "worker", "--to", "latest", "--apply")
        assert (refused.returncode, "open transaction" in refused.stderr) == (2, True), refused.stderr

        producer.commit_transaction(60)
        shown = offsets(settings, "show", "--agent", "worker", "--json")
        line = next(line for line in map(json.loads, shown.stdout.splitlines()) if line["topic"] == LANES[0])
        assert (line["stable"], line["committed"], line["finished"]) == (True, 0, {"2": [0, 2]})
        done = offsets(settings, "reset", "--agent", "worker", "--to", "latest", "--apply")
        assert (done.returncode, "2 in 1 finished" in done.stdout) == (0, True), done.stdout + done.stderr
        assert set(committed(settings, "worker").values()) == {(0, "")}
        member.close()


def delivered(asker: Asker) -> list[Any]:
    return [event for topic, _, event in asker.events if topic == DELIVERIES and event.state == "delivered"]
