"""A dispatcher whose attempts the test holds in its hand."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from webhook_servers import DELIVERY, delivery, settings

from pipeline.delivery.dispatcher import Dispatcher
from pipeline.delivery.outcome import Outcome, OutcomeCode
from pipeline.events import Delivery

OK = Outcome(200, OutcomeCode.DELIVERED, final=True)
DOWN = Outcome(503, OutcomeCode.HTTP_ERROR, "503")
START = 1_700_000_000.0


class Bench:
    """A dispatcher whose attempts end when the test says so, on a clock that the test moves."""

    def __init__(self, **changes: object) -> None:
        self.clock = START
        self.started: list[str] = []
        self.recorded: list[Delivery] = []
        self.store_up = asyncio.Event()
        self.store_up.set()
        self.store_error: Exception | None = None
        self.stamps: list[float] = []
        self._ends: dict[str, asyncio.Future[Outcome]] = {}
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self.dispatcher = Dispatcher(
            settings(**changes), self._attempt, self._record, now=lambda: self.clock, jitter=lambda: 0.0
        )

    async def _attempt(self, what: Delivery, now: float) -> Outcome:
        self.started.append(what.delivery_id)
        self.stamps.append(now)
        for key in (what.url, "all"):
            self.running[key] += 1
            self.most[key] = max(self.most[key], self.running[key])
        end = self._ends[what.delivery_id] = asyncio.get_running_loop().create_future()
        try:
            return await end
        finally:
            for key in (what.url, "all"):
                self.running[key] -= 1

    async def _record(self, updated: Delivery) -> None:
        await self.store_up.wait()
        if self.store_error:
            raise self.store_error
        self.recorded.append(updated)

    def submit(self, *names: str, url: str = "http://a.example/", **changes: object) -> None:
        for name in names:
            values = {"delivery_id": name, "request_id": name, "next_due_at": int(START * 1000)}
            self.dispatcher.submit(replace(DELIVERY, url=url, **(values | changes)))  # type: ignore[arg-type]

    async def end(self, name: str, outcome: Outcome = OK) -> None:
        self._ends.pop(name).set_result(outcome)
        await settle()

    def running_names(self) -> set[str]:
        """What is under way."""
        return set(self._ends)

    async def pass_time(self, seconds: float) -> None:
        """Move the clock; any submission makes the dispatcher look at it."""
        self.clock += seconds
        self.dispatcher.submit(
            delivery("http://clock.example/", delivery_id=f"tick{self.clock}", request_id="tick")
        )
        await settle()
        self.dispatcher.forget(f"tick{self.clock}")
        self.started = [name for name in self.started if not name.startswith("tick")]
        await settle()


async def settle() -> None:
    """Let everything that can run without time passing run."""
    for _ in range(30):
        await asyncio.sleep(0)


@asynccontextmanager
async def bench(**changes: object) -> AsyncIterator[Bench]:
    made = Bench(**changes)
    try:
        yield made
    finally:
        made.store_up.set()
        made.dispatcher.forget_all(lambda _: True)
        await made.dispatcher.close()
