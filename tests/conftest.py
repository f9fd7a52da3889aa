"""What every test can ask for: the real Kafka of this session, a registry, and names of its own."""

from __future__ import annotations

import signal
import sys
import uuid
from collections.abc import Callable, Iterator

import hypothesis
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pipeline.kafka.local_broker import choose_broker
from pipeline.kafka.local_registry import LocalRegistry
from pipeline.settings import Settings, load_settings
from pipeline.tracing import spans
from tests.coordinators import load_coordinators
from tests.integration.running import asker, running
from tests.kafka_container import kafka_container, wanted

__all__ = ["asker", "running"]  # one pipeline for the whole session, so the fixture must have one home

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Run in the background, where a shell lets Ctrl-C be ignored by all that is started: its tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)

Say = Callable[[str], None]

hypothesis.settings.register_profile(
    "repeatable",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("repeatable")  # --hypothesis-profile=default draws new examples


@pytest.fixture(scope="session")
def say() -> Say:
    """Progress, shown by pytest when a test fails (or with ``-s``)."""
    return lambda line: print(line, file=sys.stderr)


@pytest.fixture(scope="session")
def bootstrap(say: Say) -> Iterator[str]:
    """The bootstrap address of one real Kafka for the whole session, started by the first test that asks."""
    settings = load_settings()
    chosen = kafka_container(say) if wanted(settings, say) else choose_broker(settings, say)
    with chosen as address:
        load_coordinators(address)
        yield address


@pytest.fixture(scope="session")
def registry_url(say: Say) -> Iterator[str]:
    """The Confluent-style address of one real schema registry for the whole session."""
    with LocalRegistry(load_settings().home, say=say) as registry:
        yield registry.url


@pytest.fixture
def told_spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What a collector would have had from this process during the test."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(spans, "_tracer", provider.get_tracer("test"))
    yield kept
    provider.shutdown()


@pytest.fixture
def app_name() -> str:
    """A name no other test has, for consumer groups and transactional ids."""
    return f"test-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic_prefix(app_name: str) -> str:
    """A prefix no other test has, for topics."""
    return f"{app_name}."


@pytest.fixture
def settings(bootstrap: str, app_name: str) -> Settings:
    """Settings on the session's Kafka, with an app name of their own."""
    return load_settings(bootstrap=bootstrap, app=app_name)
