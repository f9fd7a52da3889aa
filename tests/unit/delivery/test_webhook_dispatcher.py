"""The dispatcher with attempts that the test holds in its hand, and once with real dripping servers."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest
from aiohttp import web
from dispatcher_bench import DOWN, OK, START, Bench, bench, settle
from webhook_servers import DELIVERY, STORE, delivery, listening, receiving, settings

from pipeline.delivery.client import WebhookClient
from pipeline.delivery.dispatcher import ORDER_HOLD_S, Dispatcher
from pipeline.delivery.outcome import Outcome, outcome_of_status
from pipeline.events import Delivery, DeliveryState


async def test_a_delivery_runs_through_the_schedule_and_then_has_failed() -> None:
    async with bench(retry_schedule=(5, 300)) as b:
        b.submit("d")
        await settle()
        for wait in (5, 300):
            await b.end("d", DOWN)
            await b.pass_time(wait - 0.001)
            count = len(b.started)
            await b.pass_time(0.001)
            assert len(b.started) == count + 1
        await b.end("d", DOWN)
        assert b.started == ["d", "d", "d"]
    states = [(d.attempt, d.state, d.next_due_at is None, d.status_code) for d in b.recorded]
    pending, failed = DeliveryState.PENDING, DeliveryState.FAILED
    assert states == [(1, pending, False, 503), (2, pending, False, 503), (3, failed, True, 503)]
    assert {(d.delivery_id, d.body, d.created_at) for d in b.recorded} == {("d", DELIVERY.body, 1_000)}
    assert b.recorded[-1].error is not None and not b.recorded[-1].error.retriable


async def test_gone_means_exactly_one_request() -> None:
    async with bench() as b:
        b.submit("d")
        await settle()
        await b.end("d", outcome_of_status(410, "", None))
        await b.pass_time(10 * 86_400)
        assert b.started == ["d"]
    [recorded] = b.recorded
    assert (recorded.state, recorded.next_due_at) == (DeliveryState.FAILED, None)
    assert recorded.error is not None and recorded.error.code == "gone"


async def test_a_due_time_survives_a_restart() -> None:
    async with bench() as before:
        before.submit("d")
        await settle()
        await before.end("d", DOWN)
    [stored] = before.recorded
    assert stored.next_due_at == int(START * 1000) + 5000
    async with bench() as early:
        early.clock = START + 4.9
        early.dispatcher.submit(stored)
        await settle()
        assert early.started == []
    async with bench() as late:
        late.clock = START + 500
        late.dispatcher.submit(stored)
        await settle()
        assert late.started == ["d"]
        await late.end("d")
    [done] = late.recorded
    assert (done.attempt, done.state, done.body) == (2, DeliveryState.DELIVERED, DELIVERY.body)


async def test_a_crash_before_the_record_repeats_the_attempt() -> None:
    async with bench() as crashed:
        crashed.submit("d")
        await settle()
    assert crashed.recorded == []
    async with bench() as after:
        after.submit("d")
        await settle()
        assert after.started == ["d"]


async def test_a_due_time_is_kept_by_a_timer() -> None:
    done = asyncio.Event()
    attempts: list[int] = []

    async def attempt(what: Delivery, now: float) -> Outcome:
        attempts.append(what.attempt)
        return OK if what.attempt == 3 else DOWN

    async def record(updated: Delivery) -> None:
        if updated.state is DeliveryState.DELIVERED:
            done.set()

    dispatcher = Dispatcher(
        settings(retry_schedule=(0.01, 0.02, 0.03)), attempt, record, now=time.time, jitter=lambda: 0.0
    )
    dispatcher.submit(DELIVERY)
    async with asyncio.timeout(20):
        await done.wait()
    await dispatcher.close()
    assert attempts == [0, 1, 2, 3]


async def test_terminal_and_known_deliveries_are_ignored() -> None:
    async with bench() as b:
        b.submit("d", "d")
        b.submit("x", state=DeliveryState.DELIVERED)
        b.submit("y", state=DeliveryState.FAILED)
        await settle()
        b.submit("d")
        await settle()
        assert b.started == ["d"]


class TestFairness:
    async def test_limits_per_endpoint_and_in_all(self) -> None:
        async with bench(per_endpoint=2, total=3) as b:
            b.submit("a1", "a2", "a3", "a4")
            b.submit("b1", "b2", url="http://b.example/")
            await settle()
            assert b.started == ["a1", "b1", "a2"]
            for name in ["a1", "b1", "a2"]:
                await b.end(name)
            for name in ["a3", "b2", "a4"]:
                await b.end(name)
        assert sorted(b.started) == ["a1", "a2", "a3", "a4", "b1", "b2"]
        assert b.most["http://a.example/"] == 2 and b.most["all"] == 3

    async def test_paths_of_one_server_share_its_limit(self) -> None:
        async with bench(per_endpoint=1) as b:
            b.submit("a1", url="http://a.example/1")
            b.submit("a2", url="http://a.example:80/2")
            await settle()
            assert b.started == ["a1"]

    async def test_dripping_endpoints_do_not_hold_up_a_good_one(self) -> None:
        async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.05)

        recorded: list[Delivery] = []
        delivered = asyncio.Event()

        async def record(updated: Delivery) -> None:
            recorded.append(updated)
            if updated.state is DeliveryState.DELIVERED:
                delivered.set()

        limits = settings(attempt_timeout=600, per_endpoint=1, total=5)
        async with AsyncExitStack() as stack:
            slow = [await stack.enter_async_context(listening(drip)) for _ in range(4)]
            good = await stack.enter_async_context(receiving())
            client = await stack.enter_async_context(WebhookClient(limits, STORE))
            dispatcher = Dispatcher(limits, client.attempt, record, now=time.time, jitter=lambda: 0.0)
            for number, listener in enumerate(slow * 3):
                dispatcher.submit(
                    delivery(listener.url, delivery_id=f"slow{number}", request_id=f"slow{number}")
                )
            dispatcher.submit(delivery(good.url, delivery_id="good", request_id="good"))
            async with asyncio.timeout(60):
                await delivered.wait()
            assert [(d.delivery_id, d.state) for d in recorded] == [("good", DeliveryState.DELIVERED)]
            dispatcher.forget_all(lambda _: True)
            await dispatcher.close()
            assert [listener.connections for listener in slow] == [1, 1, 1, 1]


class TestRecording:
    async def test_nothing_is_tried_again_before_its_outcome_is_recorded(self) -> None:
        async with bench(retry_schedule=(0,), per_endpoint=1) as b:
            b.store_up.clear()
            b.submit("d", "e")
            await settle()
            await b.end("d", DOWN)
            assert b.started == ["d"]
            b.store_up.set()
            await settle()
            assert b.started == ["d", "e"]
            await b.end("e")
            assert b.started == ["d", "e", "d"]

    async def test_a_store_that_fails_is_told_and_the_others_go_on(self) -> None:
        async with bench() as b:
            b.submit("d", "e")
            await settle()
            b.store_error = RuntimeError("fenced")
            await b.end("d")
            async with asyncio.timeout(20):
                assert await b.dispatcher.failure() is b.store_error
            b.store_error = None
            await b.end("e")
            assert [d.delivery_id for d in b.recorded] == ["e"]
            b.submit("d")
            await settle()
            assert b.started == ["d", "e", "d"]


class TestForget:
    @pytest.mark.parametrize("tasks_have_begun", [True, False])
    async def test_a_running_attempt_is_cancelled_and_not_recorded(self, tasks_have_begun: bool) -> None:
        async with bench(total=1) as b:
            b.submit("d", "e")
            await (settle() if tasks_have_begun else asyncio.sleep(0))
            b.dispatcher.forget("d")
            await settle()
            assert b.started == (["d", "e"] if tasks_have_begun else ["e"])
            await b.end("e")
            assert [d.delivery_id for d in b.recorded] == ["e"]

    async def test_waiting_and_queued_ones_never_run(self) -> None:
        async with bench(total=1) as b:
            b.submit("running", "queued")
            b.submit("waiting", next_due_at=int(START * 1000) + 5000)
            await settle()
            b.dispatcher.forget_all(lambda what: what.delivery_id in ("queued", "waiting"))
            await b.end("running")
            await b.pass_time(10)
            assert b.started == ["running"]

    async def test_one_that_is_being_recorded_ends_there(self) -> None:
        async with bench(retry_schedule=(0,)) as b:
            b.store_up.clear()
            b.submit("d")
            await settle()
            await b.end("d", DOWN)
            b.dispatcher.forget("d")
            b.store_up.set()
            await settle()
            assert [d.attempt for d in b.recorded] == [1] and b.started == ["d"]


class TestOrder:
    async def first_and_done(self, b: Bench) -> None:
        """Submitted in the wrong order, as a read-back may."""
        b.submit("done", request_id="r", revision=2)
        b.submit("first", request_id="r", revision=1)
        await settle()

    async def test_done_waits_for_the_first_answer(self) -> None:
        async with bench() as b:
            await self.first_and_done(b)
            b.submit("other")
            await settle()
            assert b.started == ["first", "other"]
            await b.end("first")
            assert b.started == ["first", "other", "done"]

    async def test_done_waits_for_a_retry_that_is_near_and_not_for_one_that_is_far(self) -> None:
        async with bench(retry_schedule=(5, ORDER_HOLD_S + 1)) as b:
            await self.first_and_done(b)
            await b.end("first", DOWN)
            assert b.started == ["first"]
            await b.pass_time(5)
            assert b.started == ["first", "first"]
            await b.end("first", DOWN)
            assert b.started == ["first", "first", "done"]

    async def test_done_goes_when_the_first_answer_is_given_up(self) -> None:
        for give_up in ("fails", "forgotten", "unrecorded"):
            async with bench() as b:
                await self.first_and_done(b)
                if give_up == "forgotten":
                    b.dispatcher.forget("first")
                    await settle()
                else:
                    b.store_error = RuntimeError() if give_up == "unrecorded" else None
                    await b.end("first", outcome_of_status(410, "", None))
                assert b.started == ["first", "done"], give_up

    async def test_other_runs_and_endpoints_do_not_wait(self) -> None:
        async with bench() as b:
            b.submit("first", request_id="r", revision=1)
            b.submit("rerun", request_id="r", revision=2, run=1)
            b.submit("elsewhere", request_id="r", revision=2, url="http://b.example/")
            await settle()
            assert sorted(b.started) == ["elsewhere", "first", "rerun"]


async def test_close_waits_for_what_runs_and_starts_nothing_more() -> None:
    async with bench(total=1) as b:
        b.submit("d", "e")
        await settle()
        closing = asyncio.create_task(b.dispatcher.close())
        await settle()
        assert not closing.done()
        await b.end("d")
        await closing
        assert b.started == ["d"] and [d.delivery_id for d in b.recorded] == ["d"]


async def test_a_pause_waits_for_what_runs_and_what_comes_meanwhile_goes_after_it() -> None:
    async with bench(total=1) as b:
        b.submit("d", "e")
        await settle()
        pausing = asyncio.create_task(b.dispatcher.pause())
        await settle()
        assert not pausing.done()
        await b.end("d")
        await pausing
        b.submit("f")
        await settle()
        assert b.started == ["d"] and [d.delivery_id for d in b.recorded] == ["d"]
        b.dispatcher.resume()
        await settle()
        await b.end("e")
        assert b.started == ["d", "e", "f"]


async def test_nothing_resumes_what_was_closed() -> None:
    async with bench() as b:
        await b.dispatcher.close()
        b.dispatcher.resume()
        b.submit("d")
        await settle()
        assert b.started == []


async def test_the_stamp_is_that_of_each_attempt() -> None:
    async with bench() as b:
        b.submit("d")
        await settle()
        await b.end("d", DOWN)
        await b.pass_time(3600)
        assert b.stamps[0] == START and b.stamps[-1] == START + 3600


async def test_fails_once_then_arrives_over_http() -> None:
    done = asyncio.Event()

    async def record(updated: Delivery) -> None:
        if updated.state is DeliveryState.DELIVERED:
            done.set()

    quick = settings(retry_schedule=(0.01,))
    async with (
        receiving(web.Response(status=500), web.Response()) as receiver,
        WebhookClient(quick, STORE) as client,
    ):
        dispatcher = Dispatcher(quick, client.attempt, record, now=time.time, jitter=lambda: 0.0)
        dispatcher.submit(delivery(receiver.url))
        async with asyncio.timeout(20):
            await done.wait()
        await dispatcher.close()
    (one, one_body), (two, two_body) = receiver.requests
    assert one_body == two_body == DELIVERY.body
    assert one["webhook-id"] == two["webhook-id"] == DELIVERY.delivery_id
