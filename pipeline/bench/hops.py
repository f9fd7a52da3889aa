"""Where a request's time goes, hop by hop, and how long a sample's publication takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.bench.effort import Effort
from pipeline.bench.figures import percentile
from pipeline.bench.parts import Say
from pipeline.bench.rows import Bound, Goal, Row, single
from pipeline.bench.running_pipeline import Pipeline, Setup, running_pipeline
from pipeline.bench.trace import Hop, Trace
from pipeline.bench.variant import DURATIONS, Variant
from pipeline.settings import Settings

_RATE = 20.0
_LONE_SHARE = 0.25
"""Of ``batching.max_wait_ms``: a lone request's whole hop, its transaction included, has to stay below it."""
_TRANSACTION = {0.5: 15.0, 0.95: 60.0}
"""ms, by percentile."""


def hops(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """One pipeline: idle with a lone request now and then, then at 20 requests/s."""
    with TemporaryDirectory(prefix="tallystream-hops-") as folder:
        durations = Path(folder) / "durations"
        say("hops: starting")
        setup = Setup(variant=Variant.TIMED, env={DURATIONS: str(durations)})
        with running_pipeline(settings, setup) as pipeline:
            pipeline.load.warm_up(effort.warm)
            say("hops: lone requests")
            idle = _traced_lone(pipeline, effort)
            say("hops: 20 requests/s")
            durations.write_text("")
            busy = _traced_steady(pipeline, effort)
            took = [float(line) for line in durations.read_text().split()]
    most = settings.batching.max_wait_ms
    limit = Goal(Bound.AT_MOST, _LONE_SHARE * most, f"a quarter of max_wait, {most} ms")
    yield from _hop_rows("idle", idle, {Hop.BATCHER: limit})
    yield from _hop_rows("20/s", busy, {})
    for share, most_ms in _TRANSACTION.items():
        name = f"worker: transaction of a publication, p{100 * share:.0f} at 20/s"
        yield single(name, percentile(took, share), "ms", Goal(Bound.AT_MOST, most_ms))


def _traced_lone(pipeline: Pipeline, effort: Effort) -> Mapping[Hop, Sequence[float]]:
    pause = 2 * pipeline.settings.batching.max_wait_ms / 1000
    with Trace(pipeline.settings) as trace:
        pipeline.load.lone(effort.lone, pause)
        return trace.hops(effort.lone)


def _traced_steady(pipeline: Pipeline, effort: Effort) -> Mapping[Hop, Sequence[float]]:
    count = round(_RATE * effort.steady)
    with Trace(pipeline.settings) as trace:
        pipeline.load.steady(_RATE, effort.steady)
        return trace.hops(count)


def _hop_rows(name: str, found: Mapping[Hop, Sequence[float]], goals: Mapping[Hop, Goal]) -> Iterable[Row]:
    for hop, took in found.items():
        yield single(f"{name}: {hop.value}, p50", percentile(took, 0.5), "ms", goals.get(hop))
        yield single(f"{name}: {hop.value}, p99", percentile(took, 0.99), "ms")
