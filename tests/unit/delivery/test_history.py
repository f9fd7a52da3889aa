"""What the newest records say of deliveries and endpoints, and what a resend makes of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from webhook_servers import DELIVERY

from pipeline.commands.deliveries_view import body_text, delivery_object, endpoint_object
from pipeline.delivery.history import Endpoint, Kept, Selection, endpoint_named, endpoints, newest
from pipeline.delivery.resend import plan
from pipeline.events import Delivery, DeliveryState, ErrorInfo

PENDING, DELIVERED, FAILED = DeliveryState.PENDING, DeliveryState.DELIVERED, DeliveryState.FAILED
HOST = "hooks.example.com:80"
DOWN, DISABLED = ErrorInfo("http_error", "503"), ErrorInfo("endpoint_disabled", "")


def record(name: str, state: DeliveryState = FAILED, at: int = 2_000, **changes: object) -> Delivery:
    values: dict[str, object] = {
        "attempt": 3,
        "error": DOWN if state is FAILED else None,
        "next_due_at": None,
    }
    return replace(DELIVERY, delivery_id=name, state=state, updated_at=at, **values | changes)  # type: ignore[arg-type]


def kept(*records: Delivery, shards: Sequence[int] = ()) -> dict[str, Kept]:
    places = [(shards[offset] if shards else 0, offset) for offset in range(len(records))]
    return newest(zip(places, records, strict=True))


def test_the_newest_record_counts_and_bodies_are_not_held() -> None:
    found = kept(record("b", PENDING), record("a"), record("b", DELIVERED, body=b"12345"))
    assert [(each.delivery.delivery_id, each.delivery.state) for each in found.values()] == [
        ("a", FAILED),
        ("b", DELIVERED),
    ]
    assert (found["b"].place, found["b"].size, found["b"].delivery.body) == ((0, 2), 5, b"")


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(), True),
        (Selection(frozenset({"d"}), FAILED, HOST, "r1", "http_error", 2_000, 2_001), True),
        (Selection(endpoint="http://hooks.example.com/other?x"), True),
        (Selection(ids=frozenset({"e"})), False),
        (Selection(state=PENDING), False),
        (Selection(endpoint="hooks.example.com:443"), False),
        (Selection(request="r2"), False),
        (Selection(code="timeout"), False),
        (Selection(since=2_001), False),
        (Selection(until=2_000), False),
    ],
)
def test_a_selection_takes_what_fits_all_of_it(selection: Selection, taken: bool) -> None:
    assert selection.takes(kept(record("d"))["d"]) is taken


def test_an_endpoint_is_named_by_itself_or_by_a_url() -> None:
    assert {endpoint_named(text) for text in (HOST, "http://hooks.example.com", DELIVERY.url)} == {HOST}


def one(*records: Delivery, shards: Sequence[int] = ()) -> Endpoint:
    [endpoint] = endpoints(kept(*records, shards=shards).values()).values()
    return endpoint


def test_an_endpoint_counts_its_deliveries_and_has_the_newest_standing() -> None:
    endpoint = one(
        record("a", at=3_000, error=DISABLED, failing_since=7),
        record("b", at=2_000, failing_since=None, state=DELIVERED),
        record("c", PENDING, at=9_000, attempt=0),
    )
    assert endpoint.counts == {FAILED: 1, DELIVERED: 1, PENDING: 1}
    assert (endpoint.failing_since, endpoint.disabled) == (7, (0,))
    assert endpoint.last is not None and endpoint.last.delivery.delivery_id == "a"
    told = endpoint_object(endpoint)
    assert (told["endpoint"], told["disabled"], told["failed"], told["last_at"]) == (HOST, True, 1, 3_000)
    assert told["last_error"]["code"] == "endpoint_disabled"


def test_each_shard_has_a_standing_of_its_own() -> None:
    endpoint = one(
        record("a", error=DISABLED, failing_since=7, at=2_000),
        record("b", DELIVERED, at=3_000),
        shards=(1, 0),
    )
    assert (endpoint.disabled, endpoint.failing_since) == ((1,), 7)
    assert endpoint.newest[1].delivery.delivery_id == "a"


def test_of_two_records_of_one_millisecond_the_later_counts() -> None:
    disabled = record("a", error=DISABLED, failing_since=7)
    assert one(disabled, record("b", DELIVERED)).disabled == ()
    assert one(record("b", DELIVERED), disabled).disabled == (0,)


class TestPlan:
    FOUND = kept(
        record("late", at=3_000),
        record("early", at=1_000),
        record("waits", PENDING),
        record("arrived", DELIVERED, url="http://b.example/"),
    )

    def test_what_has_failed_is_sent_the_oldest_first(self) -> None:
        made = plan(self.FOUND, Selection(state=FAILED))
        assert [item.kept.delivery.delivery_id for item in made.sendable] == ["early", "late"]
        assert len(made.deliveries) == 2
        assert len(plan(self.FOUND, Selection(state=FAILED), limit=1).sendable) == 1

    def test_a_named_one_that_waits_or_has_arrived_is_left_and_an_unknown_one_is_said(self) -> None:
        made = plan(self.FOUND, Selection(frozenset({"waits", "arrived", "early", "none"}), FAILED))
        assert [item.kept.delivery.delivery_id for item in made.sendable] == ["early"]
        assert {item.reason for item in made.deliveries if item.needless} == {
            "it waits already",
            "it is delivered",
        }
        assert (made.refused, made.missing) == ((), ("none",))

    def test_what_has_arrived_is_sent_once_more_if_that_is_said(self) -> None:
        made = plan(self.FOUND, Selection(frozenset({"arrived"}), DELIVERED))
        assert [item.kept.delivery.delivery_id for item in made.sendable] == ["arrived"]

    def test_what_would_go_to_a_disabled_endpoint_can_not_be_sent(self) -> None:
        found = kept(record("d", error=DISABLED, failing_since=7), record("o", url="http://b.example/"))
        made = plan(found, Selection(state=FAILED))
        assert [(item.kept.delivery.delivery_id, item.reason) for item in made.refused] == [
            ("d", f"{HOST} is disabled")
        ]
        assert [item.kept.delivery.delivery_id for item in made.sendable] == ["o"]


def test_json_has_everything_but_the_body() -> None:
    told = delivery_object(kept(record("d", body=b"123"))["d"])
    assert told.keys() == {name for name in Delivery.__slots__ if name != "body"} | {"endpoint", "bytes"}
    assert (told["bytes"], told["endpoint"], told["state"]) == (3, HOST, "failed")


def test_a_body_is_shown_without_what_a_terminal_would_obey() -> None:
    assert body_text('{"a":"\\u001b[2J\x9b"}'.encode()) == '{\n  "a": "\\u001b[2J\\u009b"\n}'
    assert body_text(b"\x1b[2J") == "b'\\x1b[2J'"
