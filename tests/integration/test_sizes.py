"""Records near, at and above every limit: each ends quickly and says why, and its neighbours are served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.admin import create_topics
from pipeline.errors import PayloadTooLargeError, RecordTooLargeError
from pipeline.events import (
    Batch,
    Callback,
    Delivery,
    DeliveryState,
    Event,
    FinishReason,
    InferenceRequest,
    Mode,
    SamplingOverrides,
    Status,
)
from pipeline.ids import new_request_id
from pipeline.kafka.clients import plain_producer
from pipeline.kafka.read_back import read_back
from pipeline.kafka.records import Output, size_of
from pipeline.kafka.transactional_producer import TransactionalProducer
from pipeline.replay.letters import Selection
from pipeline.replay.resend import Replay
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import (
    LANES,
    REQUESTS,
    RESULTS,
    SAMPLES,
    largest_record,
    request_partition,
    shard_of,
)
from pipeline.windows import Window
from tests.e2e.commands import tallystream
from tests.integration.asker import Asker
from tests.integration.killed import environment_of
from tests.integration.running import Running
from tests.unit import window_events

pytestmark = pytest.mark.integration

MIB = 1024 * 1024


def of_size(asker: Asker, size: int, **fields: Any) -> InferenceRequest:
    """A request whose record's value has so many bytes."""
    request = InferenceRequest(new_request_id(now_ms()), "answers=1 ", **fields)
    for room in (100, 0):  # a longer text has a longer length before it
        missing = size - room - len(asker.codec.encode(request))
        request = InferenceRequest(request.request_id, request.prompt + "x" * missing, **fields)
    assert len(asker.codec.encode(request)) == size
    return request


def put_compressed(
    asker: Asker, topic: str, partition: int, value: bytes, headers: list[tuple[str, bytes]] | None = None
) -> None:
    """As a foreign producer does: whatever the size, it fits when it is compressed."""
    refused: list[Any] = []
    producer = plain_producer(asker.settings, compression_type="gzip", message_max_bytes=64 * MIB)
    producer.produce(
        topic,
        value,
        b"foreign",
        partition,
        headers=headers or [],
        on_delivery=lambda error, _: refused.append(error) if error else None,
    )
    assert producer.flush(60) == 0
    assert not refused, refused


@pytest.mark.parametrize("size", [999_950, 999_999, 1_000_000])
def test_a_request_up_to_the_limit_is_served(asker: Asker, size: int) -> None:
    edge = of_size(asker, size, mode=Mode.DEEP)
    asker.producer.send(edge)
    neighbour = asker.ask("answers=1", priority=edge.priority)
    results = asker.finals([edge.request_id, neighbour])
    assert {result.status for result in results.values()} == {Status.DONE}


@pytest.mark.parametrize("size", [1_000_001, MIB, 3 * MIB, 20 * MIB])
def test_a_request_above_the_limit_is_refused_before_it_is_sent(asker: Asker, size: int) -> None:
    with pytest.raises(PayloadTooLargeError, match=f"{size:,} bytes, at most 1,000,000") as refused:
        asker.producer.send(of_size(asker, size))
    assert refused.value.code == "payload_too_large"
    neighbour = asker.ask("answers=1")
    assert asker.finals([neighbour])[neighbour].status is Status.DONE


def test_a_batch_file_with_a_line_that_is_too_large_goes_on(asker: Asker, tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    prompts = ["answers=1", "x" * 3 * MIB, "answers=2"]
    source.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    done = tallystream("batch", str(source), str(target), env=environment_of(asker.settings))
    assert done.returncode == 1, done.stderr
    outcomes = {line["line"]: line for line in map(json.loads, target.read_text().splitlines())}
    assert (outcomes[1]["answer"], outcomes[3]["answer"]) == ("1", "2")
    assert outcomes[2]["error"]["code"] == "payload_too_large"
    assert outcomes[2]["error"]["field"] == "prompt"


@pytest.mark.parametrize("size", [MIB + 1, 3 * MIB, 20 * MIB])
def test_a_request_that_was_compressed_to_fit_ends_as_failed(asker: Asker, size: int) -> None:
    large = of_size(asker, size)
    place = request_partition(large.request_id, large.priority, asker.settings.shards)
    put_compressed(asker, REQUESTS, place, asker.codec.encode(large))
    neighbours = [asker.ask("answers=1") for _ in range(4)]
    results = asker.finals([large.request_id, *neighbours])
    failed = results[large.request_id]
    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert failed.error.code == "payload_too_large"
    assert f"{size:,} bytes" in failed.error.message
    assert all(results[neighbour].status is Status.DONE for neighbour in neighbours)


def test_a_bad_record_as_large_as_its_topic_takes_is_kept_whole(asker: Asker) -> None:
    headers = [(f"header-{number}", b"h" * 100) for number in range(50)]
    most = largest_record(REQUESTS)
    value = b"{" * (most - size_of(b"foreign", b"", tuple(headers)))
    asker.put_bytes(value, 0, b"foreign", headers)
    asker.dead_letter(value)
    letter = next(letter for letter in asker.dead if letter.value == value)
    assert list(letter.headers[: len(headers)]) == headers
    plan = Replay(asker.settings, asker.codec).plan(Selection(key="foreign", since=letter.timestamp))
    assert [item.target for item in plan.letters if item.letter.place == (0, letter.offset)] == [
        (REQUESTS, 0)
    ]


def test_of_a_bad_record_beyond_every_limit_the_beginning_is_kept_and_it_is_not_replayed(
    asker: Asker,
) -> None:
    value = b"[" * (20 * MIB)
    put_compressed(asker, REQUESTS, 0, value, [("own", b"1")])
    asker.until(lambda: any((letter.value or b"").startswith(b"[[") for letter in asker.dead), "a letter")
    letter = next(letter for letter in asker.dead if (letter.value or b"").startswith(b"[["))
    cause = asker.dead_letter(letter.value or b"")
    assert cause["code"] == "bad_magic"
    assert int(cause["whole_size"]) >= len(value)
    plan = Replay(asker.settings, asker.codec).plan(Selection(since=letter.timestamp))
    (item,) = [item for item in plan.letters if item.letter.place == (letter.partition, letter.offset)]
    assert item.target is None
    assert f"@{cause['offset']}" in item.reason


def large_events(asker: Asker) -> list[tuple[str, Event, str]]:
    """One of each record between the hops, larger than any that the pipeline writes, and who meets it."""
    sample = window_events.sample(0, "x" * 5 * MIB, request_id=new_request_id(now_ms()))
    opened = window_events.opened(request_id=new_request_id(now_ms()))
    opened.metadata["large"] = "x" * 5 * MIB
    window = Window(opened=window_events.opened(1))
    window.add(window_events.sample(0, "1"))
    (result,) = window.settle(now_ms())
    result.metadata["large"] = "x" * 5 * MIB
    batch = Batch("b" * 5 * MIB, 3, now_ms(), ())
    return [
        (SAMPLES, sample, "aggregator"),
        (SAMPLES, opened, "aggregator"),
        (RESULTS, result, "webhook"),
        (LANES[3], batch, "worker"),
    ]


def test_records_between_the_hops_that_are_too_large_are_parked(asker: Asker) -> None:
    for topic, event, stage in large_events(asker):
        known = len(asker.dead)
        put_compressed(asker, topic, 0, asker.codec.encode(event))
        asker.until(lambda known=known: len(asker.dead) > known, f"a letter of {stage}")
        letter = asker.dead[-1]
        cause = asker.dead_letter(letter.value or b"")
        assert (cause["code"], cause["stage"], cause["topic"]) == ("record_too_large", stage, topic)
    neighbours = [asker.ask("answers=1") for _ in range(4)]
    assert {result.status for result in asker.finals(neighbours).values()} == {Status.DONE}


def test_64_long_chains_become_one_result_and_one_callback(asker: Asker, running: Running) -> None:
    answers = ",".join(letter * 230_000 for letter in "abcd")
    request_id = asker.ask(
        f"answers={answers}",
        sampling=SamplingOverrides(n=64, max_new_tokens=4096),
        callback=Callback(running.receiver.url),
        priority=0,
    )
    neighbour = asker.ask("answers=1", priority=0)
    results = asker.finals([request_id, neighbour])
    result = results[request_id]
    assert results[neighbour].status is Status.DONE
    assert result.status.terminal
    assert len(asker.codec.encode(result)) <= largest_record(RESULTS)
    assert any(chain.note.endswith("text shortened") for chain in result.reasoning)
    assert all(chain.finish_reason is FinishReason.STOP for chain in result.reasoning)
    asker.until(
        lambda: any(
            d.request_id == request_id and d.state is DeliveryState.DELIVERED for d in asker.of(Delivery)
        ),
        "the callback",
    )


def test_a_record_larger_than_its_topic_takes_ends_a_transaction_at_once(settings: Settings) -> None:
    create_topics(settings)
    shard = shard_of("x", settings.shards)
    fine = Output(SAMPLES, shard, b"neighbour", b"\x00")
    for size in (largest_record(SAMPLES) + 1, 8 * MIB):
        producer = TransactionalProducer(settings, f"{settings.app}-large")
        producer.fence()
        with pytest.raises(RecordTooLargeError):
            producer.commit([fine, Output(SAMPLES, shard, b"large", b"x" * size)])
        producer.close()
    assert all(message.key() != b"large" for message in read_back(settings, [(SAMPLES, shard)]))
