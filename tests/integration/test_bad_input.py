"""Bad input ends as a clear error, loses nothing, and its neighbours are served."""

from __future__ import annotations

import json
import os
import signal
import struct
from collections import Counter
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, TopicPartition

from pipeline.errors import InvalidRequestError, PayloadTooLargeError
from pipeline.events import (
    Callback,
    Delivery,
    DeliveryState,
    InferenceRequest,
    Mode,
    Sample,
    SampleTimings,
    SamplingOverrides,
    Status,
)
from pipeline.ids import new_request_id
from pipeline.kafka.clients import assigned_consumer, plain_producer
from pipeline.kafka.read_back import read_back
from pipeline.telemetry import now_ms
from pipeline.topics import REQUESTS, SAMPLES, request_partition, shard_of
from tests.integration.asker import Asker
from tests.integration.running import Running
from tests.unit import window_events

pytestmark = pytest.mark.integration


def _good(asker: Asker) -> bytes:
    return asker.codec.encode(
        InferenceRequest(new_request_id(now_ms()), "a prompt that is long enough to cut")
    )


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda good: b'{"prompt":"hi"}', "bad_magic"),
        (lambda good: b"", "too_short"),
        (lambda good: b"\xc3\x01" + b"\x11" * 8 + b"rest", "unknown_schema"),
        (lambda good: struct.pack(">bI", 0, 4711) + good[10:], "unknown_schema"),
        (lambda good: good[:30], "decode_error"),
        (lambda good: good[:10] + b"\x01" + good[11:], "decode_error"),
        (lambda good: good[:10] + bytes([2 * 40]) + b"only 12 byte", "decode_error"),
        (lambda good: good + b"\x00\x01\x02", "trailing_bytes"),
    ],
    ids=[
        "json",
        "empty",
        "fingerprint",
        "schema id",
        "truncated",
        "negative length",
        "text shorter than its length",
        "trailing",
    ],
)
def test_undecodable_bytes_go_to_dead_letters(asker: Asker, make, code: str) -> None:
    value = make(_good(asker))
    partition = request_partition("x", 3, asker.settings.shards)
    asker.put_bytes(value, partition, b"its key", [("traceparent", b"00-abc")])
    neighbour = asker.ask("answers=1")
    assert asker.finals([neighbour])[neighbour].status is Status.DONE
    cause = asker.dead_letter(value)
    assert (cause["code"], cause["topic"], cause["partition"]) == (code, REQUESTS, str(partition))
    letter = next(letter for letter in asker.dead if letter.value == value)
    assert letter.key == b"its key"
    assert ("traceparent", b"00-abc") in letter.headers


def test_the_record_behind_a_bad_one_is_served_and_both_are_done_with(asker: Asker) -> None:
    good = InferenceRequest(new_request_id(now_ms()), "answers=4")
    place = request_partition(good.request_id, good.priority, asker.settings.shards)
    asker.put_bytes(b'{"prompt":"behind me"}', place)
    asker.put(good)
    assert asker.finals([good.request_id])[good.request_id].answer == "4"
    cause = asker.dead_letter(b'{"prompt":"behind me"}')
    group = assigned_consumer(asker.settings, group_id=f"{asker.settings.app}-batcher")
    tp = TopicPartition(REQUESTS, place)
    asker.until(
        lambda: group.committed([tp], timeout=30)[0].offset == int(cause["offset"]) + 2,
        "the batcher's committed offset behind both",
    )
    group.close()


@pytest.mark.parametrize("priority", [9, -1])
def test_a_priority_that_is_none_goes_to_dead_letters(asker: Asker, priority: int) -> None:
    request = InferenceRequest(new_request_id(now_ms()), "hi", priority=priority)
    asker.put(request, partition=0)
    cause = asker.dead_letter(asker.codec.encode(request))
    assert cause["code"] == "invalid_request"
    assert "priority" in cause["message"]


def test_a_record_on_a_foreign_partition_goes_to_dead_letters(asker: Asker) -> None:
    request = InferenceRequest(new_request_id(now_ms()), "hi", priority=3)
    right = request_partition(request.request_id, 3, asker.settings.shards)
    asker.put(request, partition=(right + 1) % (6 * asker.settings.shards))
    cause = asker.dead_letter(asker.codec.encode(request))
    assert cause["code"] == "wrong_partition"
    assert str(right) in cause["message"]


def test_a_tombstone_and_a_record_without_key_are_no_trouble(asker: Asker) -> None:
    request = InferenceRequest(new_request_id(now_ms()), "answers=4")
    place = request_partition(request.request_id, request.priority, asker.settings.shards)
    asker.put_bytes(None, place, b"job-7")
    asker.put_bytes(asker.codec.encode(request), place, None)
    keyed = asker.ask("answers=4", priority=request.priority)
    results = asker.finals([request.request_id, keyed])
    assert {result.status for result in results.values()} == {Status.DONE}
    assert not asker.dead
    start = TopicPartition(REQUESTS, request_partition(keyed, request.priority, asker.settings.shards))
    written = read_back(asker.settings, [(start.topic, start.partition)])
    assert keyed.encode() in {message.key() for message in written}, "our own producer always sets the key"


def test_a_clock_that_is_decades_ahead_moves_nobodys_deadline(asker: Asker) -> None:
    year_2099 = 4_070_908_800_000
    ahead = asker.ask("answers=5", created_at=year_2099)
    stray = replace(
        window_events.sample(0, "9", request_id=ahead),
        sample_index=40,
        timings=SampleTimings(year_2099, year_2099, year_2099, year_2099),
    )
    place = shard_of(ahead, asker.settings.shards)
    asker.put_bytes(asker.codec.encode(stray), place, ahead.encode(), topic=SAMPLES)
    normal = [asker.ask("answers=6") for _ in range(4)]
    results = asker.finals([ahead, *normal])
    assert [results[request_id].answer for request_id in normal] == ["6"] * 4
    assert results[ahead].status is Status.DONE
    assert results[ahead].answer == "5"
    assert results[ahead].timings.created_at < now_ms() + 60_000


def test_a_sample_that_comes_after_its_vote_changes_nothing(asker: Asker) -> None:
    voted = asker.ask("answers=7")
    before = asker.finals([voted])[voted]
    late = replace(window_events.sample(0, "8", request_id=voted), sample_index=4)
    place = shard_of(voted, asker.settings.shards)
    for _ in range(3):
        asker.put_bytes(asker.codec.encode(late), place, voted.encode(), topic=SAMPLES)
    after = next(
        new for _ in range(100) if shard_of(new := new_request_id(now_ms()), asker.settings.shards) == place
    )
    asker.put(InferenceRequest(after, "answers=1"))
    asker.finals([after])
    assert [result for result in asker.results() if result.request_id == voted] == [before]


def test_text_of_many_bytes_a_character_comes_back_as_it_was_sent(asker: Asker, running: Running) -> None:
    stamp = new_request_id(now_ms())
    request_id, answer = f"任务-广告-7-{stamp}", "求12元的50%🙂"
    callback = Callback(running.receiver.url)
    request = InferenceRequest(request_id, f"answers={answer} 求 12 元的 50% 🙂", callback=callback)
    asker.put(request)
    result = asker.finals([request_id])[request_id]
    assert (result.status, result.reasoning[0].text) == (Status.DONE, f"The answer is {answer}")
    asker.until(
        lambda: any(
            d.request_id == request_id and d.state is DeliveryState.DELIVERED for d in asker.of(Delivery)
        ),
        "the callback",
    )
    body = next(d.body for d in asker.of(Delivery) if d.request_id == request_id)
    data = json.loads(body)["data"]
    assert (data["request_id"], data["chosen_text"]) == (request_id, f"The answer is {answer}")
    assert answer.encode() in body


@pytest.mark.parametrize(
    "bad",
    [
        {"prompt": ""},
        {"prompt": "   "},
        {"prompt": "x", "sampling": SamplingOverrides(n=0)},
        {"prompt": "x", "sampling": SamplingOverrides(temperature=float("nan"))},
        {"prompt": "x", "deadline_ms": -5},
    ],
    ids=["empty", "blank", "n", "temperature", "deadline"],
)
def test_what_can_not_be_served_ends_as_failed(asker: Asker, bad: dict) -> None:
    request = InferenceRequest(new_request_id(now_ms()), mode=Mode.STANDARD, **bad)
    asker.put(request)
    neighbour = asker.ask("answers=1")
    results = asker.finals([request.request_id, neighbour])
    failed = results[request.request_id]
    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert failed.error.code == "invalid_request"
    assert results[neighbour].status is Status.DONE
    with pytest.raises(InvalidRequestError) as refused:
        asker.producer.send(request)
    assert refused.value.field


def test_a_prompt_of_3_mib_fails_fast_and_holds_up_nobody(asker: Asker) -> None:
    with pytest.raises(PayloadTooLargeError, match="prompt"):
        asker.ask("x" * (3 * 1024 * 1024))
    outcomes: list[KafkaError | None] = []
    upstream = plain_producer(asker.settings, message_max_bytes=8 * 1024 * 1024)
    value = asker.codec.encode(InferenceRequest(new_request_id(now_ms()), "x" * (3 * 1024 * 1024)))
    upstream.produce(REQUESTS, value, b"big", 0, on_delivery=lambda error, _: outcomes.append(error))
    neighbour = asker.ask("answers=1", priority=0)
    assert asker.finals([neighbour])[neighbour].status is Status.DONE
    assert upstream.flush(60) == 0
    assert outcomes[0] is not None
    assert outcomes[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_an_id_that_is_asked_again_with_other_content_goes_to_dead_letters_also_after_a_crash(
    asker: Asker, running: Running
) -> None:
    first = InferenceRequest(new_request_id(now_ms()), "answers=7", created_at=now_ms())
    others = [replace(first, prompt=f"answers={number}") for number in (1, 2, 3)]
    for request in (first, others[0], replace(first, created_at=now_ms() + 1)):  # as one lot or as several
        asker.put(request)
    assert asker.finals([first.request_id])[first.request_id].answer == "7"
    asker.put(others[1])
    causes = [asker.dead_letter(asker.codec.encode(other)) for other in others[:2]]
    os.kill(running.supervisor.pids["batcher-0"], signal.SIGKILL)
    asker.put(first)
    asker.put(others[2])
    causes.append(asker.dead_letter(asker.codec.encode(others[2])))
    assert {cause["code"] for cause in causes} == {"conflicting_request"}
    assert first.request_id in causes[0]["message"]
    neighbour = asker.ask("answers=4", priority=first.priority)
    asker.finals([neighbour])
    assert len(asker.dead) == len(others)
    assert [r.answer for r in asker.results() if r.request_id == first.request_id] == ["7"]
    seen = Counter(s.sample_index for s in asker.of(Sample) if s.request_id == first.request_id)
    assert max(seen.values()) == 1
