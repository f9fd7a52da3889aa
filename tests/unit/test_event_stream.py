from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.event_stream import EventStreamReader, StreamEvent

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["tokens", "state", ""]), st.sampled_from(["s1", "p2", ""]), st.text(min_size=1)
    ),
    max_size=5,
)


@given(EVENTS, st.sampled_from(["\n", "\r\n"]), st.data())
def test_events_do_not_depend_on_where_the_bytes_are_cut(
    events: list[tuple[str, str, str]], ending: str, data: st.DataObject
) -> None:
    sent, expected, last = f": hello{ending * 2}", list[StreamEvent](), ""
    for name, place, text in events:
        line = text.encode(errors="ignore").decode().replace("\r", "").replace("\n", "")
        sent += f"event: {name}{ending}" if name else ""
        sent += f"id: {place}{ending}" if place else ""
        sent += f"data: {line}{ending * 2}"
        last = place or last
        expected.append(StreamEvent(name or "message", last, line))
    reader, found, rest = EventStreamReader(10**6), list[StreamEvent](), sent.encode()
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        found += reader.feed(rest[:size])
        rest = rest[size:]
    assert found == expected


def test_an_id_holds_until_the_next_one_and_a_name_for_one_event() -> None:
    reader = EventStreamReader(100)
    assert reader.feed(b"event: a\nid: 1\ndata: x\n\ndata: y\n\n") == [
        StreamEvent("a", "1", "x"),
        StreamEvent("message", "1", "y"),
    ]


def test_an_endless_event_is_given_up() -> None:
    reader = EventStreamReader(1_000)
    with pytest.raises(ValueError, match="1,000"):
        for _ in range(100):
            reader.feed(b"data: " + b"x" * 100 + b"\n")
