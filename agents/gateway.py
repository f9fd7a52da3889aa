"""The gateway: HTTP, live events and the page, answered from a view of the topics. Any number of them may run."""

from __future__ import annotations

import asyncio
import signal

import structlog

from agents.web.routes import add_page
from pipeline import process_memory
from pipeline.agent_main import run_agent
from pipeline.events import Control, Delivery, InferenceRequest
from pipeline.gateway.app import build_app
from pipeline.gateway.openai.setup import add_openai
from pipeline.gateway.running import running_gateway
from pipeline.gateway.server import served
from pipeline.health_server import noted
from pipeline.kafka.codec import Codec
from pipeline.kafka.connect import make_codec
from pipeline.settings import Settings, load_settings
from pipeline.telemetry import configure_telemetry

log = structlog.get_logger("agents.gateway")


async def serve(settings: Settings, codec: Codec) -> None:
    """Serve until SIGTERM or SIGINT."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked.set)
    async with running_gateway(settings, codec) as gateway:
        app = build_app(gateway)
        add_openai(app)
        add_page(app)
        async with served(app, settings) as url:
            with noted(settings, "gateway", f"{url}/healthz"):
                log.info("ready", url=url)
                await asked.wait()


def main() -> None:
    """Run a gateway until it is told to stop."""
    settings = load_settings()
    configure_telemetry(settings, f"gateway-{settings.slot}")
    codec = make_codec(settings, writes=(InferenceRequest, Control, Delivery))
    process_memory.settle()
    asyncio.run(serve(settings, codec))


if __name__ == "__main__":
    run_agent(main)
