from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from webhook_servers import steady

from pipeline.delivery.fair_queue import FairQueue


def test_an_endpoint_with_many_waiting_does_not_delay_one_with_few() -> None:
    queue = FairQueue(per_endpoint=4, total=4)
    for index in range(1000):
        queue.push("busy", f"busy-{index}")
    queue.push("calm", "calm-0")
    assert [queue.take() for _ in range(5)] == ["busy-0", "calm-0", "busy-1", "busy-2", None]
    queue.give_back("calm")
    assert queue.take() == "busy-3"


def test_a_discarded_item_is_not_served() -> None:
    queue = FairQueue(1, 1)
    queue.push("a", "one")
    queue.push("a", "two")
    queue.discard("a", "one")
    queue.discard("b", "none")
    assert queue.take() == "two"
    queue.give_back("a")
    assert queue.take() is None


@steady
@given(
    st.lists(
        st.tuples(st.sampled_from(["push", "take", "give", "drop"]), st.integers(0, 3), st.integers(0, 9))
    ),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_limits_hold_and_nothing_is_lost_or_served_twice(steps, per_endpoint, total) -> None:
    queue = FairQueue(per_endpoint, total)
    waiting: dict[str, str] = {}
    busy: Counter[str] = Counter()
    for action, number, name in steps:
        endpoint = f"e{number}"
        item = f"{endpoint}/{name}"
        if action == "push":
            queue.push(endpoint, item)
            waiting[item] = endpoint
        elif action == "drop":
            queue.discard(endpoint, item)
            waiting.pop(item, None)
        elif action == "give" and busy[endpoint]:
            queue.give_back(endpoint)
            busy[endpoint] -= 1
        elif action == "take":
            taken = queue.take()
            can = busy.total() < total and any(busy[where] < per_endpoint for where in waiting.values())
            assert (taken is not None) == can
            if taken is not None:
                busy[waiting.pop(taken)] += 1
        assert busy.total() <= total and all(count <= per_endpoint for count in busy.values())


def test_an_endpoint_that_is_held_back_is_passed_over_and_keeps_its_order() -> None:
    queue = FairQueue(per_endpoint=2, total=2)
    queue.push("a", "a1")
    queue.push("a", "a2")
    queue.hold("a")
    queue.push("a", "a3")
    queue.push("b", "b1")
    assert [queue.take(), queue.take()] == ["b1", None]
    assert queue.waiting("a") == ("a1", "a2", "a3")
    queue.give_back("b")
    queue.discard("a", "a2")
    queue.release("a")
    assert [queue.take(), queue.take(), queue.take()] == ["a1", "a3", None]
    queue.release("none")
    assert queue.waiting("none") == ()
