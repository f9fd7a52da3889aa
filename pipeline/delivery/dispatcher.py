"""Runs attempts when they are due: fair between endpoints, in order within a request.

The life of one delivery:

1. `Dispatcher.submit` takes it, fresh or read back after a restart; it waits for ``next_due_at``.
2. It queues for a slot of its endpoint and of all (`FairQueue`).
3. The attempt runs. Its slot stays taken until step 4 is over, so that a store that is down stops the
   sending too: an attempt that can not be recorded would be made again.
4. ``on_outcome`` records the delivery with its outcome and next due time.
5. Only then does it wait again (step 1), or is done.

A crash between 3 and 5 repeats the attempt with the same id and body; none is lost.

An endpoint whose circuit is open, or that has had its share of this second, is passed over in step 2; what
waits keeps its turn. What waits behind an open circuit for longer than all its retries would have taken is
given up when the endpoint has just failed once more, and everything that waits for an endpoint when it is
disabled: step 3 is then left out.

Order: the first attempt of a result waits for earlier revisions of the same request, run and URL, until
each has been delivered, has failed, or after at least one attempt waits for a retry further away than
``ORDER_HOLD_S``. So "done" follows a first answer that failed once and comes back after 5 s, but an
endpoint that lost the first answer twice gets "done" without waiting minutes for it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial

from pipeline.delivery.endpoints import Endpoints
from pipeline.delivery.fair_queue import FairQueue
from pipeline.delivery.guard import endpoint_of
from pipeline.delivery.outcome import Outcome, OutcomeCode
from pipeline.delivery.schedule import RetryPolicy, conclude, give_up_at, refuse
from pipeline.delivery.standing import Standing
from pipeline.events import Delivery, DeliveryState
from pipeline.settings import WebhookSettings

ORDER_HOLD_S = 30.0
# The clock is the wall's, which can be set: a due time is looked at again at least this often.
_RECHECK_S = 30.0

Attempt = Callable[[Delivery, float], Awaitable[Outcome]]
OnOutcome = Callable[[Delivery], Awaitable[None]]
_Chain = tuple[str, int, str]

_DISABLED = Outcome(
    None,
    OutcomeCode.ENDPOINT_DISABLED,
    "the endpoint is disabled: it has taken nothing for too long",
    final=True,
)
_CIRCUIT_OPEN = Outcome(
    None, OutcomeCode.CIRCUIT_OPEN, "the endpoint was down for as long as this is tried", final=True
)


class _Stage(Enum):
    WAITING = auto()  # for its due time
    QUEUED = auto()  # for a slot
    PARKED = auto()  # behind an earlier revision
    RUNNING = auto()
    RECORDING = auto()


_NOT_BEGUN = (_Stage.WAITING, _Stage.QUEUED, _Stage.PARKED)


@dataclass(slots=True, eq=False)
class _Entry:
    delivery: Delivery
    endpoint: str
    stage: _Stage = _Stage.WAITING
    task: asyncio.Task[None] | None = None
    probe: bool = False
    refusal: Outcome | None = None
    again: Delivery | None = None

    @property
    def lane(self) -> str:
        """Where it queues: what is given up never waits for its endpoint."""
        return f"refused {self.endpoint}" if self.refusal else self.endpoint

    @property
    def fresh(self) -> bool:
        """Whether nothing was attempted since it was (last) sent."""
        return self.delivery.attempt == self.delivery.attempts_before

    @property
    def due_ms(self) -> int:
        return self.delivery.next_due_at or 0

    @property
    def chain(self) -> _Chain:
        return self.delivery.request_id, self.delivery.run, self.delivery.url


class Dispatcher:
    """Sends deliveries until each is delivered or has failed. Lives on one event loop."""

    def __init__(
        self,
        settings: WebhookSettings,
        attempt: Attempt,
        on_outcome: OnOutcome,
        *,
        now: Callable[[], float],
        jitter: Callable[[], float],
    ) -> None:
        """Wire the parts.

        Args:
            attempt: makes one attempt, as `WebhookClient.attempt` does; raises nothing.
            on_outcome: returns when the updated delivery is durable.
            now: seconds since 1970-01-01 UTC.
            jitter: a number in [0, 1), as `random.random` gives.
        """
        self._attempt = attempt
        self._on_outcome = on_outcome
        self._now = now
        self._jitter = jitter
        self._policy = RetryPolicy(settings.retry_schedule, settings.jitter)
        self._queue = FairQueue(settings.per_endpoint, settings.total)
        self._endpoints = Endpoints(settings)
        self._held: list[tuple[float, str]] = []
        self._pumped_at = 0.0
        self._entries: dict[str, _Entry] = {}
        self._chains: dict[_Chain, list[_Entry]] = {}
        self._due: list[tuple[int, int, _Entry]] = []
        self._sequence = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake_up: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._closing = self._paused = False
        self._error: Exception | None = None
        self._failed = asyncio.Event()

    def __len__(self) -> int:
        """Deliveries that are held: none of them is at its end."""
        return len(self._entries)

    def submit(self, delivery: Delivery) -> None:
        """Take a delivery; one that is terminal or held already is ignored, so a read-back can overlap.

        One that was sent again while the end of its last attempt was still being recorded is taken after that.
        """
        if delivery.state is not DeliveryState.PENDING:
            return
        if (held := self._entries.get(delivery.delivery_id)) is not None:
            if delivery.attempts_before > held.delivery.attempts_before:
                held.again = delivery
            return
        entry = _Entry(delivery, endpoint_of(delivery.url))
        self._entries[delivery.delivery_id] = entry
        self._chains.setdefault(entry.chain, []).append(entry)
        self._wait(entry)

    def learn(self, told: Mapping[str, Standing]) -> None:
        """Take what records say of endpoints, by `endpoint_of`; what is newer is kept."""
        self._endpoints.learn(told)
        for endpoint in told:
            self._regulate(endpoint, self._now())
            if self._endpoints.standing(endpoint).disabled:
                self._refuse_all(endpoint)
        self._wake()

    def forget(self, delivery_id: str) -> None:
        """As `forget_all` for one delivery."""
        self.forget_all(lambda delivery: delivery.delivery_id == delivery_id)

    def forget_all(self, predicate: Callable[[Delivery], bool]) -> None:
        """Drop deliveries that another process owns now.

        A running attempt is cancelled and ``on_outcome`` is not called for it; one that is being recorded
        is left to finish, without a next attempt.
        """
        for entry in [entry for entry in self._entries.values() if predicate(entry.delivery)]:
            if entry.task is not None and entry.stage is _Stage.RUNNING:
                entry.task.cancel()
            self._drop(entry)
        # A due time can be a day away: do not keep what is forgotten until then.
        self._due = [item for item in self._due if self._holds(item[2])]
        heapq.heapify(self._due)

    async def failure(self) -> Exception:
        """Wait until recording an outcome (or an attempt itself) raises, and return what it raised.

        That delivery is not held any longer: what is durable is its last recorded state, from which a new
        owner goes on.
        """
        await self._failed.wait()
        assert self._error is not None
        return self._error

    async def pause(self) -> None:
        """Start nothing more until `resume`; return when the running attempts have ended and are recorded."""
        self._paused = True
        for handle in (self._timer, self._wake_up):
            if handle is not None:
                handle.cancel()
        self._timer = self._wake_up = None
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def resume(self) -> None:
        """Go on after `pause`; not after `close`."""
        self._paused = self._closing
        self._wake()

    async def close(self) -> None:
        """As `pause`, for good."""
        self._closing = True
        await self.pause()

    def _holds(self, entry: _Entry) -> bool:
        return self._entries.get(entry.delivery.delivery_id) is entry

    def _wait(self, entry: _Entry) -> None:
        entry.stage = _Stage.WAITING
        heapq.heappush(self._due, (entry.due_ms, next(self._sequence), entry))
        self._wake()

    def _wake(self) -> None:
        # Not at once: deliveries submitted in one go are seen together, so that their order counts.
        if self._wake_up is None and not self._paused:
            self._wake_up = asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._wake_up = None
        now = self._now()
        while self._due and self._due[0][0] <= now * 1000:
            entry = heapq.heappop(self._due)[2]
            if entry.stage is _Stage.WAITING:  # not given up meanwhile
                self._enqueue(entry)
        self._release(now)
        while (item := self._queue.take()) is not None:
            self._start(self._entries[item])
        self._set_timer(now)

    def _release(self, now: float) -> None:
        """Let the endpoints go on whose wait is over."""
        if now < self._pumped_at:  # the clock was set back: ask all of them
            self._held = [(now, endpoint) for _, endpoint in self._held]
        self._pumped_at = now
        while self._held and self._held[0][0] <= now:
            self._regulate(heapq.heappop(self._held)[1], now)

    def _regulate(self, endpoint: str, now: float) -> None:
        """Hold an endpoint back until its next attempt may begin."""
        at = self._endpoints.begin_at(endpoint, now)
        if at <= now:
            self._queue.release(endpoint)
            return
        self._queue.hold(endpoint)
        if at < math.inf:
            heapq.heappush(self._held, (at, endpoint))

    def _set_timer(self, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        times = [self._due[0][0] / 1000] if self._due else []
        times += [self._held[0][0]] if self._held else []
        if times:
            delay = min(min(times) - now, _RECHECK_S)
            self._timer = asyncio.get_running_loop().call_later(delay, self._wake)

    def _enqueue(self, entry: _Entry) -> None:
        if self._endpoints.standing(entry.endpoint).disabled and entry.refusal is None:
            entry.refusal = _DISABLED
        entry.stage = _Stage.QUEUED
        self._queue.push(entry.lane, entry.delivery.delivery_id)

    def _refuse(self, entry: _Entry, refusal: Outcome) -> None:
        """Give up what has not begun; that is recorded as an attempt would be, by the slots there are."""
        self._queue.discard(entry.lane, entry.delivery.delivery_id)
        entry.refusal = refusal
        self._enqueue(entry)

    def _refuse_all(self, endpoint: str) -> None:
        for entry in self._entries.values():
            if entry.endpoint == endpoint and entry.refusal is None and entry.stage in _NOT_BEGUN:
                self._refuse(entry, _DISABLED)

    def _give_up(self, endpoint: str) -> None:
        """The endpoint has failed once more: what has waited for it for longer than its retries ends."""
        now_ms = self._now() * 1000
        for delivery_id in self._queue.waiting(endpoint):
            entry = self._entries[delivery_id]
            if give_up_at(entry.delivery, self._policy) <= now_ms:
                self._refuse(entry, _CIRCUIT_OPEN)

    def _start(self, entry: _Entry) -> None:
        if entry.refusal is None and entry.fresh and self._is_behind(entry):
            entry.stage = _Stage.PARKED
            self._queue.give_back(entry.lane)
            return
        if entry.refusal is None:
            now = self._now()
            entry.probe = self._endpoints.begun(entry.endpoint, now)
            self._regulate(entry.endpoint, now)
        entry.stage = _Stage.RUNNING
        entry.task = asyncio.create_task(self._run(entry))
        self._tasks.add(entry.task)
        # Not in a finally of the task: one that is cancelled before its first step never enters it.
        entry.task.add_done_callback(partial(self._ended, entry))

    def _ended(self, entry: _Entry, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._queue.give_back(entry.lane)
        if entry.probe:  # its outcome was not awaited
            self._ended_with(entry, None)
        self._wake()

    def _ended_with(self, entry: _Entry, outcome: Outcome | None) -> None:
        """Tell the endpoint's circuit and standing, and let what waits for it follow them."""
        endpoint, now = entry.endpoint, self._now()
        disabled = self._endpoints.standing(endpoint).disabled
        probe, entry.probe = entry.probe, False
        self._endpoints.ended(endpoint, outcome, now, probe=probe)
        self._regulate(endpoint, now)
        if self._endpoints.standing(endpoint).disabled and not disabled:
            self._refuse_all(endpoint)
        elif outcome is not None and self._endpoints.failing(endpoint):
            self._give_up(endpoint)

    def _is_behind(self, entry: _Entry) -> bool:
        horizon_ms = (self._now() + ORDER_HOLD_S) * 1000
        return any(
            other.fresh or other.stage is not _Stage.WAITING or other.due_ms <= horizon_ms
            for other in self._chains[entry.chain]
            if other.delivery.revision < entry.delivery.revision
        )

    async def _run(self, entry: _Entry) -> None:
        try:
            if entry.refusal is None:
                outcome = await self._attempt(entry.delivery, self._now())
                self._ended_with(entry, outcome)
                updated = self._conclude(entry, outcome)
            else:
                updated = self._with_standing(entry, self._refused(entry.delivery, entry.refusal))
            entry.stage = _Stage.RECORDING
            await self._on_outcome(updated)
            if self._holds(entry):
                self._advance(entry, updated)
        except Exception as error:
            self._error = self._error or error
            self._failed.set()
            if self._holds(entry):
                self._drop(entry)

    def _conclude(self, entry: _Entry, outcome: Outcome) -> Delivery:
        now_ms = int(self._now() * 1000)
        updated = conclude(entry.delivery, outcome, now_ms, self._policy, self._jitter())
        if outcome.sent and self._endpoints.standing(entry.endpoint).disabled:
            last = replace(_DISABLED, message=f"{_DISABLED.message}; at last: {outcome.code}")
            updated = self._refused(updated, last)
        return self._with_standing(entry, updated)

    def _refused(self, delivery: Delivery, refusal: Outcome) -> Delivery:
        return refuse(delivery, refusal.code, refusal.message, int(self._now() * 1000))

    def _with_standing(self, entry: _Entry, updated: Delivery) -> Delivery:
        return replace(updated, failing_since=self._endpoints.standing(entry.endpoint).failing_since)

    def _advance(self, entry: _Entry, updated: Delivery) -> None:
        entry.delivery = updated
        if updated.state is DeliveryState.PENDING:
            self._wait(entry)
            self._unpark(entry.chain)
        else:
            self._drop(entry)
            if entry.again is not None:
                self.submit(entry.again)

    def _drop(self, entry: _Entry) -> None:
        del self._entries[entry.delivery.delivery_id]
        self._queue.discard(entry.lane, entry.delivery.delivery_id)
        self._chains[entry.chain].remove(entry)
        self._unpark(entry.chain)
        if not self._chains[entry.chain]:
            del self._chains[entry.chain]
        self._wake()

    def _unpark(self, chain: _Chain) -> None:
        for entry in self._chains[chain]:
            if entry.stage is _Stage.PARKED:
                self._enqueue(entry)
