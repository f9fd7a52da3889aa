"""What waits for its endpoint: behind an open circuit, for its rate, or for nothing because it is disabled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dispatcher_bench import DOWN, OK, START, Bench, bench, settle
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from webhook_servers import DELIVERY, steady

from pipeline.delivery.outcome import Outcome, OutcomeCode, outcome_of_status
from pipeline.delivery.schedule import RetryPolicy, conclude, give_up_at, refuse, send_again
from pipeline.delivery.standing import Standing, told_by
from pipeline.events import DeliveryState

DAY = 86_400
A = "a.example:80"
LATE = outcome_of_status(404, "", None)


async def opened(b: Bench, *names: str) -> None:
    """Two failures in a row; these wait behind the circuit then."""
    b.submit("x1", "x2")
    await settle()
    await b.end("x1", DOWN)
    await b.end("x2", DOWN)
    b.submit(*names)
    await settle()
    b.started.clear()


def ended(b: Bench) -> dict[str, str]:
    """Codes of what has failed."""
    return {d.delivery_id: d.error.code for d in b.recorded if d.state is DeliveryState.FAILED and d.error}


CIRCUIT = {"breaker_failures": 2, "breaker_wait": 30, "retry_schedule": (3600, 3600), "per_endpoint": 2}


class TestCircuit:
    async def test_what_comes_after_the_second_failure_waits_and_goes_on_in_order(self) -> None:
        async with bench(**CIRCUIT) as b:
            await opened(b, "d1", "d2", "d3", "d4")
            assert b.started == []
            await b.pass_time(29.999)
            assert b.started == []
            await b.pass_time(0.001)
            assert b.started == ["d1"], "the probe"
            await b.pass_time(300)
            assert b.started == ["d1"], "one probe at a time, however long it takes"
            await b.end("d1")
            assert b.started == ["d1", "d2", "d3"], "per_endpoint is two"
            await b.end("d2")
            assert b.started == ["d1", "d2", "d3", "d4"]

    async def test_a_probe_that_fails_waits_for_its_own_due_time_and_another_is_the_next_probe(self) -> None:
        async with bench(**CIRCUIT) as b:
            await opened(b, "d1", "d2")
            await b.pass_time(30)
            await b.end("d1", DOWN)
            assert b.started == ["d1"]
            await b.pass_time(30)
            assert b.started == ["d1", "d2"]
            d1 = next(d for d in b.recorded if d.delivery_id == "d1")
            assert (d1.attempt, d1.next_due_at) == (1, round((START + 30 + 3600) * 1000))

    async def test_other_endpoints_are_not_held_up(self) -> None:
        async with bench(**CIRCUIT) as b:
            await opened(b, "d1")
            b.submit("o1", url="http://b.example/")
            await settle()
            assert b.started == ["o1"]

    async def test_an_answer_about_one_url_is_no_failure_of_its_host(self) -> None:
        async with bench(**CIRCUIT | {"per_endpoint": 1}) as b:
            b.submit("d1", "d2", "d3")
            await settle()
            await b.end("d1", DOWN)
            await b.end("d2", LATE)
            await b.end("d3", DOWN)
            b.submit("d4")
            await settle()
            assert b.started == ["d1", "d2", "d3", "d4"]

    async def test_a_clock_that_is_set_back_does_not_keep_it_waiting(self) -> None:
        async with bench(**CIRCUIT) as b:
            await opened(b)
            b.submit("d1", next_due_at=0)
            await settle()
            assert b.started == []
            await b.pass_time(-DAY)
            assert b.started == ["d1"]

    async def test_a_record_that_says_it_is_well_closes_it(self) -> None:
        async with bench(**CIRCUIT) as b:
            await opened(b, "d1", "d2")
            b.dispatcher.learn({A: Standing(int(b.clock * 1000) + 1)})
            await settle()
            assert b.started == ["d1", "d2"]

    async def test_a_forgotten_probe_makes_room_for_the_next(self) -> None:
        async with bench(**CIRCUIT) as b:
            await opened(b, "d1", "d2")
            await b.pass_time(30)
            b.dispatcher.forget("d1")
            await settle()
            assert b.started == ["d1", "d2"]

    async def test_a_restart_begins_with_a_closed_circuit_and_loses_nothing(self) -> None:
        async with bench(**CIRCUIT) as before:
            await opened(before, "d1", "d2")
            stored = {d.delivery_id: d for d in before.recorded}
            assert set(stored) == {"x1", "x2"}, "what waits was not touched"
        async with bench(**CIRCUIT) as b:
            for name in ("d1", "d2"):
                b.submit(name)
            for delivery in stored.values():
                b.dispatcher.submit(delivery)
            await settle()
            assert b.started == ["d1", "d2"]

    async def test_waiting_is_no_attempt_and_ends_with_the_retries_it_would_have_had(self) -> None:
        async with bench(**CIRCUIT) as b:
            await opened(b, "d1", "d2", "d3")
            await b.pass_time(7199)
            b.submit("young", next_due_at=int(b.clock * 1000))
            assert b.started == ["d1"]
            await b.end("d1", DOWN)
            assert ended(b) == {}, "the others could still have their last attempts"
            await b.pass_time(30)
            assert b.started == ["d1", "d2"]
            await b.end("d2", DOWN)
            assert ended(b) == dict.fromkeys(["x1", "x2", "d3"], "circuit_open")
            await b.pass_time(30)
            assert b.started == ["d1", "d2", "young"]
        [d3] = [d for d in b.recorded if d.delivery_id == "d3"]
        assert (d3.attempt, d3.next_due_at, d3.body) == (0, None, DELIVERY.body)

    async def test_the_first_answer_comes_before_done_when_the_circuit_closes(self) -> None:
        async with bench(**CIRCUIT | {"retry_schedule": (5, 3600)}) as b:
            b.submit("done", request_id="r", revision=2)
            b.submit("first", request_id="r", revision=1)
            b.submit("x1")
            await settle()
            await b.end("first", DOWN)
            await b.end("x1", DOWN)
            await b.pass_time(30)
            assert b.started == ["first", "x1", "first"]
            await b.end("first")
            assert b.started[3:] == ["x1", "done"]

    async def test_it_says_that_it_opens_and_closes(self) -> None:
        with capture_logs() as lines:
            async with bench(**CIRCUIT) as b:
                await opened(b, "d1")
                await b.pass_time(30)
                await b.end("d1")
        said = [(line["event"], line["endpoint"]) for line in lines]
        assert said == [("circuit opened", A), ("circuit closed", A)]


class TestRate:
    async def test_so_many_begin_in_a_second_and_retries_count(self) -> None:
        async with bench(per_endpoint_rate=2, retry_schedule=(1,), per_endpoint=9) as b:
            b.submit("d1", "d2", "d3")
            b.submit("o1", url="http://b.example/")
            await settle()
            assert b.started == ["d1", "o1"]
            await b.end("d1", DOWN)
            await b.pass_time(0.5)
            assert b.started == ["d1", "o1", "d2"]
            await b.pass_time(0.5)
            assert b.started == ["d1", "o1", "d2", "d3"]
            await b.pass_time(0.499)
            assert b.started == ["d1", "o1", "d2", "d3"]
            await b.pass_time(0.001)
            assert b.started == ["d1", "o1", "d2", "d3", "d1"]

    async def test_the_first_answer_comes_before_done_over_its_retries(self) -> None:
        async with bench(per_endpoint_rate=0.1, retry_schedule=(5, 5, 5), per_endpoint=9) as b:
            b.submit("done", request_id="r", revision=2)
            b.submit("first", request_id="r", revision=1)
            b.submit("other")
            for _ in range(3):
                await b.pass_time(10)
                if "first" in b.running_names():
                    await b.end("first", DOWN)
            for _ in range(3):
                await b.pass_time(10)
            assert b.started == ["first", "other", "first", "first"]
            await b.end("first")
            await b.pass_time(10)
            assert b.started == ["first", "other", "first", "first", "done"]

    async def test_off_by_default(self) -> None:
        async with bench(per_endpoint=9) as b:
            b.submit(*(f"d{number}" for number in range(9)))
            await settle()
            assert len(b.started) == 9


DISABLE = {"disable_after": 5 * DAY, "breaker_failures": 0, "retry_schedule": (DAY,) * 9, "per_endpoint": 1}


class TestDisabled:
    async def failing(self, b: Bench) -> None:
        """Five days of failures, and one callback each that waits, is parked and is due later."""
        b.submit("d")
        await settle()
        for _ in range(5):
            await b.end("d", DOWN)
            await b.pass_time(DAY)
        b.submit("first", request_id="r", revision=1)
        b.submit("done", request_id="r", revision=2)
        b.submit("later", next_due_at=int((b.clock + 900) * 1000))
        b.submit("elsewhere", url="http://b.example/")
        await settle()
        await b.end("d", DOWN)

    async def test_what_waits_ends_with_a_code_and_what_comes_later_too(self) -> None:
        with capture_logs() as lines:
            async with bench(**DISABLE) as b:
                await self.failing(b)
                assert ended(b) == dict.fromkeys(["d", "first", "done", "later"], "endpoint_disabled")
                b.submit("new")
                await settle()
                assert ended(b)["new"] == "endpoint_disabled"
                assert b.started == ["d"] * 6 + ["elsewhere"]
        assert [line["event"] for line in lines] == ["endpoint disabled"]
        assert lines[0]["endpoint"] == A
        attempts = {d.delivery_id: d.attempt for d in b.recorded}
        assert attempts == {"d": 6, "first": 0, "done": 0, "later": 0, "new": 0}
        assert {d.failing_since for d in b.recorded} == {int(START * 1000)}

    async def test_what_was_given_up_before_its_due_time_is_not_taken_up_then(self) -> None:
        async with bench(**DISABLE | {"per_endpoint": 2}) as b:
            b.submit("later", next_due_at=int((b.clock + 900) * 1000))
            await settle()
            b.store_up.clear()
            b.dispatcher.learn({A: Standing(int(b.clock * 1000), 7, True)})
            await settle()
            await b.pass_time(900)
            b.store_up.set()
            await settle()
            await settle()
            assert [d.delivery_id for d in b.recorded] == ["later"]
            assert ended(b) == {"later": "endpoint_disabled"}

    async def test_the_newest_record_is_enough_to_know_it_after_a_restart(self) -> None:
        async with bench(**DISABLE) as before:
            await self.failing(before)
            killed_at = next(i for i, d in enumerate(before.recorded) if told_by(d).disabled)  # type: ignore[union-attr]
        standing = told_by(before.recorded[killed_at])
        assert standing is not None
        async with bench(**DISABLE) as b:
            b.clock = START + 6 * DAY
            b.dispatcher.learn({A: standing})
            b.submit("first", "new")
            await settle()
            assert b.started == []
            assert ended(b) == dict.fromkeys(["first", "new"], "endpoint_disabled")

    async def test_the_count_goes_on_over_a_restart(self) -> None:
        async with bench(**DISABLE) as before:
            before.submit("d")
            await settle()
            await before.end("d", DOWN)
        standing = told_by(before.recorded[-1])
        assert standing is not None
        async with bench(**DISABLE | {"retry_schedule": (3 * DAY,) * 3}) as b:
            b.dispatcher.learn({A: standing})
            b.clock = START + 5 * DAY
            b.submit("e")
            await settle()
            await b.end("e", DOWN)
            assert ended(b) == {"e": "endpoint_disabled"}

    async def test_enabled_again_it_is_tried_again(self) -> None:
        async with bench(**DISABLE) as b:
            await self.failing(b)
            with capture_logs() as lines:
                b.dispatcher.learn({A: Standing(int(b.clock * 1000) + 1)})
            assert [line["event"] for line in lines] == ["endpoint enabled"]
            b.submit("new")
            await settle()
            assert b.started[-1] == "new"
            await b.end("new", DOWN)
            assert "new" not in ended(b)

    async def test_an_older_record_changes_nothing(self) -> None:
        async with bench(**DISABLE) as b:
            await self.failing(b)
            b.dispatcher.learn({A: Standing(int(b.clock * 1000) - 1)})
            b.submit("new")
            await settle()
            assert ended(b)["new"] == "endpoint_disabled"

    async def test_a_success_of_what_ran_enables_it(self) -> None:
        async with bench(**DISABLE | {"per_endpoint": 2}) as b:
            b.submit("slow")
            await self.failing(b)
            assert "slow" not in ended(b)
            await b.end("slow")
            b.submit("new")
            await settle()
            assert b.started[-1] == "new"


class TestSentAgain:
    async def test_it_has_its_whole_schedule_and_counts_its_attempts_on(self) -> None:
        async with bench(retry_schedule=(5,)) as b:
            b.submit("d")
            await settle()
            await b.end("d", DOWN)
            await b.pass_time(5)
            await b.end("d", DOWN)
            assert b.recorded[-1].state is DeliveryState.FAILED
            b.dispatcher.submit(send_again(b.recorded[-1], int(b.clock * 1000)))
            await settle()
            await b.end("d", DOWN)
            await b.pass_time(5)
            await b.end("d")
        assert b.started == ["d"] * 4
        assert [d.attempt for d in b.recorded] == [1, 2, 3, 4]
        assert b.recorded[-1].state is DeliveryState.DELIVERED

    @pytest.mark.parametrize(("attempts", "taken"), [(1, True), (0, False)])
    async def test_one_that_comes_while_the_end_is_being_recorded_is_taken_after_it(
        self, attempts: int, taken: bool
    ) -> None:
        async with bench(retry_schedule=()) as b:
            b.store_up.clear()
            b.submit("d")
            await settle()
            await b.end("d", DOWN)
            b.submit("d", attempt=attempts, attempts_before=attempts)
            b.store_up.set()
            await settle()
            assert b.started == ["d"] * (1 + taken)


SCHEDULE = RetryPolicy((5, 300, 1800), 0.1)


@steady
@given(st.integers(0, 10**13), st.lists(st.floats(0, 1, exclude_max=True), min_size=4, max_size=4))
def test_no_attempt_is_ever_due_after_the_time_to_give_up(start: int, jitters: list[float]) -> None:
    delivery = replace(DELIVERY, next_due_at=start)
    limit = give_up_at(delivery, SCHEDULE)
    for jitter in jitters[:3]:
        assert delivery.next_due_at is not None and delivery.next_due_at <= limit
        delivery = conclude(delivery, DOWN, delivery.next_due_at, SCHEDULE, jitter)
    assert delivery.state is DeliveryState.PENDING
    assert delivery.next_due_at == give_up_at(delivery, SCHEDULE) <= limit + 2  # rounding
    assert conclude(delivery, DOWN, start, SCHEDULE, 0.0).state is DeliveryState.FAILED


@steady
@given(st.integers(0, 20), st.integers(0, 10**13))
def test_sent_again_keeps_id_body_and_attempts(attempt: int, now: int) -> None:
    failed = refuse(replace(DELIVERY, attempt=attempt), OutcomeCode.CIRCUIT_OPEN, "m", now)
    assert (failed.state, failed.attempt, failed.next_due_at) == (DeliveryState.FAILED, attempt, None)
    again = send_again(failed, now)
    assert (again.delivery_id, again.body, again.attempt) == (DELIVERY.delivery_id, DELIVERY.body, attempt)
    assert give_up_at(again, SCHEDULE) == give_up_at(replace(DELIVERY, next_due_at=now), SCHEDULE)


@pytest.mark.parametrize(
    ("outcome", "up"),
    [
        (OK, True),
        (LATE, True),
        (outcome_of_status(410, "", None), True),
        (outcome_of_status(302, "", None), True),
        (outcome_of_status(429, "", None), False),
        (DOWN, False),
        (Outcome(None, OutcomeCode.TIMEOUT), False),
        (Outcome(None, OutcomeCode.TLS), False),
        (Outcome(None, OutcomeCode.PROTOCOL_ERROR), False),
        (Outcome(None, OutcomeCode.CONNECT_ERROR), False),
        (Outcome(None, OutcomeCode.FORBIDDEN_URL, final=True), None),
        (Outcome(None, OutcomeCode.UNKNOWN_SECRET, final=True), None),
    ],
)
def test_which_outcomes_say_that_an_endpoint_is_up(outcome: Outcome, up: bool | None) -> None:
    assert outcome.up is up
