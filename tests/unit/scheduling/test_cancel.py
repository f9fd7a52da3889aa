"""Orders to cancel on their way from ``control`` to ``samples``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest

from agents.canceller import Canceller
from pipeline.errors import BrokerDownError, DecodeError, InvalidRequestError, TooShortError
from pipeline.events import Control, ControlAction, Event
from pipeline.kafka.codec import Codec
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.fenced_sink import FencedSink
from pipeline.kafka.records import Output
from pipeline.scheduling.cancel import LONGEST_REASON, order_of
from pipeline.settings import load_settings
from pipeline.topics import CONTROL, DEAD_LETTERS, SAMPLES, shard_of
from tests.unit.window_events import opened

CODEC = Codec()
SETTINGS = load_settings(bootstrap="nowhere:1", shards=3)


def cancel(request_id: str = "q", run: int = 0, at: int = 5, reason: str = "") -> Control:
    return Control(request_id, run, ControlAction.CANCEL, at, reason)


def test_an_order_carries_the_brokers_time_and_a_bounded_reason() -> None:
    assert order_of(cancel(at=2**50, reason="r" * 10_000), 77) == cancel(at=77, reason="r" * LONGEST_REASON)


def test_other_words_are_no_orders() -> None:
    assert order_of(Control("q", 0, ControlAction.DECIDED, 5), 77) is None


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (opened(), DecodeError),
        (TooShortError("3 bytes"), TooShortError),
        (cancel(""), InvalidRequestError),
        (cancel("x" * 129), InvalidRequestError),
        (cancel("a\nb"), InvalidRequestError),
        (cancel(run=-1), InvalidRequestError),
    ],
)
def test_what_can_name_no_request_is_refused(event: Event, error: type[Exception]) -> None:
    with pytest.raises(error):
        order_of(event, 77)


@pytest.fixture
async def canceller() -> AsyncIterator[Canceller]:
    worker = Canceller(SETTINGS, CODEC, (CONTROL, 0))
    yield worker
    worker.close()


def record(event: Event | bytes, offset: int) -> Source:
    value = event if isinstance(event, bytes) else CODEC.encode(event)
    return Source(CONTROL, 0, offset, 1_000 + offset, b"a key", value)


async def test_orders_go_to_their_requests_shard_and_bad_records_to_dead_letters(
    canceller: Canceller,
) -> None:
    written: list[Output] = []

    async def emit(outputs: Iterable[Output]) -> None:
        written.extend(outputs)

    words = [cancel("a"), Control("b", 0, ControlAction.DECIDED, 5), b"{}", cancel("c", 2), cancel("a")]
    records = [record(word, offset) for offset, word in enumerate(words)]
    await canceller.handle([*records, Source(CONTROL, 0, 9, 1, b"q", None)], emit)
    orders = [CODEC.decode(out.value or b"") for out in written if out.topic == SAMPLES]
    assert orders == [cancel("a", at=1_000), cancel("c", 2, at=1_003), cancel("a", at=1_004)]
    places = [(out.partition, out.key) for out in written if out.topic == SAMPLES]
    assert places == [(shard_of(name, 3), name.encode()) for name in ("a", "c", "a")]
    assert [out.value for out in written if out.topic == DEAD_LETTERS] == [b"{}"]
    identities = [out.identities for out in written]
    assert len(set(identities)) == len(written) == 4, "the same id cancelled again is another order"
    again: list[Output] = []

    async def repeated(outputs: Iterable[Output]) -> None:
        again.extend(outputs)

    await canceller.handle(records, repeated)
    assert [out.identities for out in again] == identities, "the same record is the same order"


async def test_what_was_written_is_read_back_of_every_shard(
    canceller: Canceller, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def opening(*_: object, **fields: object) -> FencedSink:
        asked.append(fields["reach"])
        raise BrokerDownError("away")

    monkeypatch.setattr(FencedSink, "open", opening)
    with pytest.raises(BrokerDownError):
        canceller.open_sink(7)
    assert asked == [[(SAMPLES, 0), (SAMPLES, 1), (SAMPLES, 2), (DEAD_LETTERS, 0)]]
