"""Bad input ends as a clear error, loses nothing, and its neighbours are served."""

from __future__ import annotations

import struct

import pytest
from confluent_kafka import KafkaError

from pipeline.errors import InvalidRequestError, PayloadTooLargeError
from pipeline.events import InferenceRequest, Mode, SamplingOverrides, Status
from pipeline.ids import new_request_id
from pipeline.kafka.clients import plain_producer
from pipeline.telemetry import now_ms
from pipeline.topics import REQUESTS, request_partition
from tests.integration.asker import Asker

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
        (lambda good: good + b"\x00\x01\x02", "trailing_bytes"),
    ],
    ids=["json", "empty", "fingerprint", "schema id", "truncated", "negative length", "trailing"],
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
    assert asker.finals([request.request_id])[request.request_id].status is Status.DONE
    assert not asker.dead


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


def test_a_record_just_under_the_limit_is_served(asker: Asker) -> None:
    overhead = len(asker.codec.encode(InferenceRequest(new_request_id(now_ms()), "", mode=Mode.DEEP)))
    edge = asker.ask("answers=1 " + "x" * (999_950 - overhead - 20), mode=Mode.DEEP)
    neighbour = asker.ask("answers=1")
    results = asker.finals([edge, neighbour])
    assert {r.status for r in results.values()} == {Status.DONE}
