"""A chaos run from its first process to its audit."""

from __future__ import annotations

import json
import shutil
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.admin import create_topics
from pipeline.chaos.audit import audit
from pipeline.chaos.collect import handed_over, read_log
from pipeline.chaos.evidence import Disturbance, Evidence
from pipeline.chaos.faults import PATIENCE, Injected, Injector
from pipeline.chaos.findings import summarised
from pipeline.chaos.guarantees import VICTIMS
from pipeline.chaos.history import keep_history
from pipeline.chaos.load import Load
from pipeline.chaos.mending import Mender
from pipeline.chaos.options import Options, Progress
from pipeline.chaos.receiver import FaultyReceiver
from pipeline.chaos.report import Report
from pipeline.chaos.stages import Stages
from pipeline.chaos.watch import Watch
from pipeline.errors import ConfigError
from pipeline.events import PRIORITIES, Delivery, Opened, Result, Sample
from pipeline.kafka.clients import admin_client
from pipeline.kafka.local_broker import LocalBroker, choose_broker
from pipeline.settings import Security, Settings
from pipeline.stack import agent_specs
from pipeline.supervisor import Exit, ProcessSpec, RestartPolicy, Supervisor
from pipeline.topics import declared_topics

_PATIENT = RestartPolicy(first_delay=0.1, factor=1.0, give_up_after=1_000_000)
_SCRIPT = {"min_ms": 20, "max_ms": 300, "fail_rate": 0.05}
_GRACE = 15.0
_MOST_WAITING = 40.0
"""Seconds' worth of requests that may wait: longer than any outage here, far from the deadline."""

Say = Callable[[str], None]


def run_chaos(settings: Settings, options: Options, say: Say, progress: Progress) -> Report:
    """Run everything, stop everything, audit.

    Raises:
        ConfigError: the Kafka that was named is not empty.
        BrokerDownError: Kafka does not start, or is gone when the audit reads.
        MissingDependencyError: a program is not installed; says which.
    """
    began = time.monotonic()
    exits: Counter[str] = Counter()
    with ExitStack() as stack:
        broker, settings = stack.enter_context(_fresh_kafka(settings, options, say))
        receiver = stack.enter_context(FaultyReceiver(options.seed))
        home = stack.enter_context(TemporaryDirectory(prefix="tallystream-chaos-"))
        watch = Watch(settings, PRIORITIES * settings.shards)
        load = Load(
            settings,
            seed=options.seed,
            rate=options.rate,
            callback_url=receiver.url,
            asked=watch.asked,
            room=lambda: watch.unanswered < _MOST_WAITING * options.rate,
        )
        with Supervisor(
            _specs(settings, options, receiver.agent_environment() | {"TALLYSTREAM_HOME": home}),
            lambda _: None,
            folder=options.logs,
            policy=_PATIENT,
            grace=_GRACE,
            on_exit=lambda end: _count(end, exits),
        ) as supervisor:
            injector = Injector(supervisor, broker, watch)
            stages = Stages(settings, options, load, watch, injector, progress)
            progress.watch = watch
            with watch, load:
                stages.start_up()
                calm = stages.calm()
                chaos = stages.faults()
                stages.finish()
            progress.stage = "stopping"
        stages.snap()
        progress.stage = "auditing"
        log = read_log(settings.bootstrap)
        evidence = Evidence(
            accepted=load.accepted,
            records=log.records,
            dead_letters=log.dead_letters,
            unreadable=log.unreadable,
            snapshots=stages.snapshots,
            ends=log.ends,
            received=receiver.received(),
            rejected=receiver.counts()[2],
            disturbances=[
                *(_disturbance(made) for made in injector.done if _repeats_callbacks(made)),
                *(Disturbance(at, at) for at in handed_over(settings.bootstrap, f"{settings.app}-webhook")),
            ],
        )
    return Report(
        seed=options.seed,
        broken=options.broken or "",
        planned=options.kills,
        faults=injector.done,
        exits=exits,
        counts=_counts(evidence) | _mended(injector.mender),
        calm=calm,
        chaos=chaos,
        findings=summarised(audit(evidence)),
        seconds=time.monotonic() - began,
    )


@contextmanager
def _fresh_kafka(
    settings: Settings, options: Options, say: Say
) -> Generator[tuple[LocalBroker | None, Settings]]:
    """An empty Kafka with the topics: one of our own, which can be hit too, or the one that is named."""
    app = f"chaos-{uuid.uuid4().hex[:8]}"
    settings = settings.model_copy(update={"app": app, "shards": options.shards, "registry_url": ""})
    with ExitStack() as stack:
        broker: LocalBroker | None = None
        if settings.kafka.security is not Security.PLAINTEXT:
            raise ConfigError("the audit reads Kafka with clients of its own, which speak PLAINTEXT only")
        if settings.bootstrap:
            bootstrap = stack.enter_context(choose_broker(settings, say))
            _refuse_used(settings)
        else:
            broker = stack.enter_context(LocalBroker(settings.home, nodes=options.brokers, say=say))
            bootstrap = broker.bootstrap
            settings = settings.model_copy(update={"replication": options.brokers})
        settings = settings.model_copy(update={"bootstrap": bootstrap})
        create_topics(settings)
        keep_history(settings)
        try:
            yield broker, settings
        finally:
            if broker is not None and options.logs is not None:
                _keep_logs(broker, options.logs)


def _keep_logs(broker: LocalBroker, folder: Path) -> None:
    """Kafka's own logs end with its data otherwise."""
    for node, log in broker.logs.items():
        shutil.copyfile(log, folder / f"kafka-{node}.log")


def _refuse_used(settings: Settings) -> None:
    present = admin_client(settings).list_topics(timeout=10).topics
    used = sorted(
        spec.name for spec in declared_topics(settings.shards, settings.app) if spec.name in present
    )
    if used:
        raise ConfigError(
            f"TALLYSTREAM_BOOTSTRAP: the Kafka at {settings.bootstrap} is in use (it has {', '.join(used)}); "
            "chaos needs an empty one, or none: then it starts its own"
        )


def _specs(settings: Settings, options: Options, own: Mapping[str, str]) -> list[ProcessSpec]:
    agents = ["batcher"] * 2 + ["worker"] * options.workers + ["aggregator"] * 2 + ["webhook"] * 2
    script = json.dumps(_SCRIPT | {"seed": options.seed})
    env = {"TALLYSTREAM_ENGINE__NAME": "scripted", "TALLYSTREAM_ENGINE__SCRIPT": script, **own}
    specs = agent_specs(settings, agents, env)
    if options.broken is None:
        return specs
    victims, mode = VICTIMS[options.broken], options.broken.value
    return [
        replace(spec, argv=(sys.executable, "-m", "pipeline.chaos.broken", mode, spec.argv[-1]))
        if spec.name.partition("-")[0] in victims
        else spec
        for spec in specs
    ]


def _count(end: Exit, exits: Counter[str]) -> None:
    """An agent that ended otherwise than by our ``kill -9``."""
    if end.status != -9:
        exits[end.name.partition("-")[0]] += 1


def _repeats_callbacks(made: Injected) -> bool:
    return made.fault.actor.role in ("webhook", "broker")


def _disturbance(made: Injected) -> Disturbance:
    lasted = PATIENCE if made.recovery.seconds is None else made.recovery.seconds
    return Disturbance(made.at, made.at + round(1000 * max(lasted, made.fault.lasts)))


def _mended(mender: Mender) -> dict[str, int]:
    return {"kafka_restarts": mender.restarts, "kafka_hanging_transactions": mender.hanging}


def _counts(evidence: Evidence) -> dict[str, int]:
    kinds = Counter(type(record.event) for record in evidence.records)
    return {
        "requests": len(evidence.accepted),
        "opened": kinds[Opened],
        "results": kinds[Result],
        "final_results": len(evidence.final_at),
        "samples": kinds[Sample],
        "deliveries": len(evidence.deliveries),
        "attempts_recorded": kinds[Delivery] - len(evidence.deliveries),
        "callbacks_received": sum(map(len, evidence.received.values())),
        "snapshots_of_offsets": len(evidence.snapshots),
    }
