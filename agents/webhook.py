"""The webhook agent: results to signed callbacks.

One thread talks to Kafka (``DeliveryLog``); the event loop sends (``Dispatcher``, ``WebhookClient``).
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
import time

import structlog

from pipeline import metrics, process_memory
from pipeline.agent_main import run_agent
from pipeline.delivery.client import WebhookClient
from pipeline.delivery.delivery_log import DeliveryLog
from pipeline.delivery.dispatcher import Dispatcher
from pipeline.delivery.secret_store import SecretStore
from pipeline.events import Delivery
from pipeline.kafka.codec import Codec
from pipeline.kafka.connect import make_codec
from pipeline.kafka.quarantine import Quarantine
from pipeline.kafka.watchdog import watched
from pipeline.ledger import Ledger
from pipeline.settings import Settings, load_settings
from pipeline.telemetry import configure_telemetry

log = structlog.get_logger("agents.webhook")


async def serve(settings: Settings, codec: Codec, quarantine: Quarantine, ledger: Ledger) -> None:
    """Deliver until SIGTERM or SIGINT; raises when recording outcomes fails for good."""
    loop = asyncio.get_running_loop()
    stop, asked = threading.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    kafka = DeliveryLog(settings, codec, loop, quarantine, ledger)
    async with WebhookClient(
        settings.webhook, SecretStore.load(settings.webhook.secrets_file, os.environ)
    ) as client:
        dispatcher = Dispatcher(
            settings.webhook, client.attempt, kafka.record, now=time.time, jitter=random.random
        )
        metrics.DELIVERIES_HELD.set_function(lambda: len(dispatcher))
        thread = asyncio.create_task(asyncio.to_thread(kafka.run, dispatcher, stop))
        waiting = [asyncio.create_task(asked.wait()), asyncio.create_task(dispatcher.failure()), thread]
        log.info("ready")
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        closing = asyncio.create_task(dispatcher.close())
        await asyncio.wait(
            [closing, thread], return_when=asyncio.FIRST_COMPLETED
        )  # no record without the thread
        stop.set()
        await thread
        if waiting[1] in done:
            raise await dispatcher.failure()


def main() -> None:
    """Run the webhook agent until it is told to stop."""
    settings = load_settings()
    configure_telemetry(settings, f"webhook-{settings.slot}")
    process_memory.settle()
    with Quarantine.of(settings, "webhook") as quarantine, watched(settings, "webhook") as ledger:
        codec = make_codec(settings, writes=(Delivery,), asking=ledger.waiting(quarantine.let_go))
        asyncio.run(serve(settings, codec, quarantine, ledger))


if __name__ == "__main__":
    run_agent(main)
