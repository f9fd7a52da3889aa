from __future__ import annotations

import asyncio
import threading

from agents.web.agents_here import AgentsHere
from pipeline.health_server import AgentHealth


class Agents:
    """Answers when it is let, with how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.began, self.let = threading.Event(), threading.Event()
        self.now = 100.0
        self.here = AgentsHere(self, lambda: self.now)

    def __call__(self) -> list[AgentHealth]:
        self.asked += 1
        self.began.set()
        self.let.wait()
        if self.asked == 2:
            raise OSError("no notes")
        return [AgentHealth(f"worker-{self.asked}", "", {})]

    async def names(self) -> list[str]:
        return [each.name for each in await self.here.look()]

    async def settled(self) -> None:
        if self.here._looking is not None:
            await asyncio.wait([self.here._looking])
            await asyncio.sleep(0)


async def test_who_looks_first_waits_and_all_look_together() -> None:
    agents = Agents()
    looks = [asyncio.create_task(agents.names()) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.to_thread(agents.began.wait)
    agents.let.set()
    assert await asyncio.gather(*looks) == [["worker-1"]] * 3
    assert agents.asked == 1


async def test_later_nobody_waits_and_what_fails_changes_nothing() -> None:
    agents = Agents()
    agents.let.set()
    assert await agents.names() == ["worker-1"]
    agents.now += 1.9
    await agents.names()
    assert agents.asked == 1, "it is not old yet"
    agents.let.clear()
    for _ in range(2):
        agents.now += 2
        assert await agents.names() == ["worker-1"]
        agents.let.set()
        await agents.settled()
    assert await agents.names() == ["worker-3"]
