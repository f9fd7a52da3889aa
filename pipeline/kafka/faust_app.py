"""Faust as the batcher and the aggregator use it: at least once, read committed, acks by hand."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

import faust
import structlog
from aiokafka.consumer import consumer as aiokafka_consumer  # pyright: ignore[reportMissingTypeStubs]
from aiokafka.consumer.group_coordinator import GroupCoordinator  # pyright: ignore[reportMissingTypeStubs]
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode.services import WaitResults

from pipeline.kafka.at_once import AtOnce
from pipeline.kafka.clients import MAX_MESSAGE_BYTES
from pipeline.kafka.security import login, tls_context, uses_login, uses_tls
from pipeline.settings import KafkaSettings, Settings

log = structlog.get_logger(__name__)


_PAUSE = 0.5
"""Seconds before a member joins its group again after an error."""


class PatientCoordinator(GroupCoordinator):
    """Joins its group again after whatever error, as a new member.

    aiokafka keeps an error until somebody asks for records, and joins again after that. Faust asks when it has
    partitions: after one bad answer, as from a coordinator that is still loading, it would wait for ever.

    A static member whose answer got lost has joined under an id that it was never told; under its old one the
    broker refuses it as somebody else's, with a code that aiokafka does not know.
    """

    async def _push_error_to_user(self, exc: BaseException) -> Any:
        me: Any = self
        log.warning("joining the group again", group=me.group_id, error=repr(exc))
        await asyncio.wait([me._closing], timeout=_PAUSE)
        self.reset_generation()


aiokafka_consumer.GroupCoordinator = PatientCoordinator


class _ReadCommittedThread(driver.AIOKafkaConsumerThread):
    """Faust reads uncommitted records unless it runs its own exactly-once mode; every reader here must not."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer: Any = super()._create_worker_consumer(transport)
        consumer._isolation_level = "read_committed"
        return consumer


class Consumer(driver.Consumer):
    """Faust's consumer, right about transactions: what it reads, and what the gaps between records are."""

    def _new_consumer_thread(self) -> driver.AIOKafkaConsumerThread:
        return _ReadCommittedThread(self, loop=self.loop, beacon=self.beacon)  # pyright: ignore[reportUnknownMemberType]

    async def wait_first(self, *coros: Any, **options: Any) -> WaitResults:
        """As mode's, which makes four tasks for each record: one that finds room is handed over without any."""
        handing_over, *others = coros
        if not isinstance(handing_over, Coroutine):
            return await super().wait_first(*coros, **options)  # pyright: ignore[reportUnknownMemberType]
        begun = AtOnce(handing_over)  # pyright: ignore[reportUnknownArgumentType]
        if not begun.done:
            return await super().wait_first(begun, *others, **options)  # pyright: ignore[reportUnknownMemberType]
        for other in others:
            other.close()
        return WaitResults([handing_over], [begun.result], False)

    async def _add_gap(self, tp: TP, offset_from: int, offset_to: int) -> None:
        """Note which offsets no record will come for; Faust takes the record behind the gap for a part of it.

        That record's offset then stands twice among the acknowledged ones, and a commit moves past one record
        a second only, however many are acknowledged.
        """
        await super()._add_gap(tp, offset_from, offset_to - 1)


class _SparingMonitor(faust.Monitor):
    """Faust's monitor without its statistics of each record, which cost a good part of the record's handling."""

    def track_tp_end_offset(self, tp: TP, offset: int) -> None: ...

    def on_message_in(self, tp: TP, offset: int, message: Any) -> None: ...

    def on_message_out(self, tp: TP, offset: int, message: Any) -> None: ...

    def on_stream_event_in(self, tp: TP, offset: int, stream: Any, event: Any) -> None:
        self.stream_inbound_time[tp] = time.monotonic()  # which its detector of standing streams looks at

    def on_stream_event_out(
        self, tp: TP, offset: int, stream: Any, event: Any, state: Any = None
    ) -> None: ...


class _Transport(driver.Transport):
    Consumer = Consumer


class _Worker(faust.Worker):
    def _setup_logging(self) -> None:
        """Leave the logging as ``configure_logging`` made it."""


def make_app(settings: Settings, role: str) -> faust.App:
    """The Faust app of one role; its id is the consumer group.

    ``max_poll_interval_ms`` is not for Faust: aiokafka never joins its group again once it has fetched nothing
    for so long, and Faust fetches nothing until it has joined. Its watchdog ends an app that stands still.
    """
    datadir = settings.home / "faust"
    datadir.mkdir(parents=True, exist_ok=True)
    app = faust.App(
        f"{settings.app}-{role}",
        broker=[f"kafka://{server}" for server in settings.bootstrap.split(",")],
        broker_credentials=_credentials(settings.kafka),
        broker_client_id=f"{settings.app}-{role}-{settings.slot}",
        consumer_group_instance_id=f"{settings.app}-{role}-{settings.slot}",
        processing_guarantee="at_least_once",
        cython_optimizations=True,  # takes what is in the queue already without waiting for it
        broker_session_timeout=settings.session_timeout_ms / 1000,
        broker_heartbeat_interval=settings.session_timeout_ms / 4000,
        broker_commit_interval=1.0,
        broker_commit_every=1000,
        producer_max_request_size=MAX_MESSAGE_BYTES,
        consumer_max_fetch_size=4 * MAX_MESSAGE_BYTES,
        producer_acks=-1,
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        store="memory://",
        stream_wait_empty=False,
        datadir=datadir,
        worker_redirect_stdouts=False,
    )
    app.transport = _Transport(app.conf.broker_consumer, app, app.loop)
    app.monitor = _SparingMonitor()
    return app


def _credentials(kafka: KafkaSettings) -> faust.SASLCredentials | faust.SSLCredentials | None:
    context = tls_context(kafka) if uses_tls(kafka) else None
    if uses_login(kafka):
        username, password = login(kafka)
        mechanism = kafka.sasl_mechanism.value
        return faust.SASLCredentials(
            username=username, password=password, ssl_context=context, mechanism=mechanism
        )
    return None if context is None else faust.SSLCredentials(context)


def run_app(app: faust.App, settings: Settings) -> None:
    """Run until SIGTERM or SIGINT; exits the process with Faust's code (non-zero after a crash)."""
    level = settings.log_level.upper()
    for name in ("faust", "aiokafka", "mode"):
        logging.getLogger(name).setLevel(logging.WARNING)
    worker: Any = _Worker(app, loglevel=level, redirect_stdouts=False)
    worker.spinner = None
    worker.execute_from_commandline()
