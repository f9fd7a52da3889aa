"""A webhook endpoint that fails, stalls and loses its answers, and remembers all that came."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence

from aiohttp import web

from pipeline.chaos.evidence import Reception
from pipeline.commands.demo_receiver import Receiver

ATTEMPT_TIMEOUT = 2.0
_SCHEDULE = "[0.3, 0.6, 1, 1, 2, 2, 3, 3, 5, 5]"
_FAILS, _LOSES, _STALLS = 0.10, 0.07, 0.03
"""Shares of callbacks; with eleven attempts hardly any is given up."""


class FaultyReceiver(Receiver):
    """What it does with a callback is a pure function of the seed, the callback's id and how often it came."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        self._received: defaultdict[str, list[Reception]] = defaultdict(list)

    def agent_environment(self) -> dict[str, str]:
        return (
            super().agent_environment()
            | {
                "TALLYSTREAM_WEBHOOK__RETRY_SCHEDULE": _SCHEDULE,
                "TALLYSTREAM_WEBHOOK__ATTEMPT_TIMEOUT": str(ATTEMPT_TIMEOUT),
                "TALLYSTREAM_WEBHOOK__BREAKER_WAIT": "0.5",  # well below the schedule: nothing is given up for waiting
            }
        )

    def received(self) -> Mapping[str, Sequence[Reception]]:
        """All callbacks with a good signature, by webhook-id."""
        with self._lock:
            return {webhook_id: tuple(came) for webhook_id, came in self._received.items()}

    async def answer(self, request: web.Request, webhook_id: str, body: bytes) -> web.StreamResponse:
        reception = Reception(round(time.time() * 1000), hashlib.sha256(body).hexdigest())
        with self._lock:
            self._received[webhook_id].append(reception)
            times = len(self._received[webhook_id])
        luck = random.Random(f"{self._seed} {webhook_id} {times}").random()
        if luck < _FAILS:
            return web.Response(status=500)
        if luck < _FAILS + _LOSES and request.transport is not None:
            request.transport.abort()
        elif luck < _FAILS + _LOSES + _STALLS:
            await asyncio.sleep(2 * ATTEMPT_TIMEOUT)
        return web.Response(status=204)
