"""``tallystream capacity``: what a load needs, from measured rates."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pipeline.capacity import Demand, Plan, Prices, Rates, plan
from pipeline.commands.console import out
from pipeline.errors import ConfigError

CORE_MS = {"kafka": 1.0, "batcher": 0.7, "worker": 0.8, "aggregator": 1.5, "webhook": 0.2}
"""Measured on two cores of an AMD EPYC with three samples a request; docs/benchmarks.md, "Where the time goes"."""
_TOKENS_ROW = "model, mixed: slots"


def capacity(
    requests_per_day: Annotated[float, typer.Option(min=1, help="E.g. 1e6.")],
    peak: Annotated[float, typer.Option(min=1, help="The busiest second over the mean one.")] = 3.0,
    samples: Annotated[float, typer.Option(min=1, help="Of a request, on average.")] = 3.0,
    paths: Annotated[int, typer.Option(min=1, help="Different prompts of its samples; mode deep has 3.")] = 1,
    prompt_tokens: Annotated[float, typer.Option(min=1, help="Of a prompt, on average.")] = 200.0,
    answer_tokens: Annotated[float, typer.Option(min=1, help="Of a sample, on average.")] = 150.0,
    callbacks: Annotated[float, typer.Option(min=0, help="Of a request, on average.")] = 1.0,
    worker_tokens: Annotated[
        float | None, typer.Option(min=0.1, help="Tokens a second of one worker, all its rows together.")
    ] = None,
    bench: Annotated[
        Path | None,
        typer.Option(help="JSON of `tallystream bench engine`: the worker's rate is read from it."),
    ] = None,
    replication: Annotated[int, typer.Option(min=1, help="Copies of each partition.")] = 3,
    busy: Annotated[float, typer.Option(min=0.05, max=1, help="Share of a limit to plan with.")] = 0.6,
    broker_mb: Annotated[float, typer.Option(min=1, help="MB/s that one broker writes.")] = 60.0,
    broker_disk_gb: Annotated[float, typer.Option(min=1, help="Of one broker.")] = 2_000.0,
    worker_hour: Annotated[float, typer.Option(min=0, help="Price of a worker and its device.")] = 0.0,
    core_hour: Annotated[float, typer.Option(min=0, help="Price of a processor core.")] = 0.0,
    disk_gb_month: Annotated[float, typer.Option(min=0, help="Price of a GB of disk.")] = 0.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Plan workers, shards, brokers and disks for a load, and say what is full first when it grows.

    The worker's rate is yours to measure, on your model and device: `tallystream bench engine --only engine-mixed`.
    """
    rate = worker_tokens if worker_tokens is not None else _measured(bench)
    demand = Demand(requests_per_day, peak, samples, paths, prompt_tokens, answer_tokens, callbacks)
    found = plan(
        demand,
        Rates(rate, CORE_MS, busy, broker_mb, broker_disk_gb),
        replication=replication,
        prices=Prices(worker_hour, core_hour, disk_gb_month),
    )
    if as_json:
        out.print_json(json.dumps(asdict(found)))
    else:
        _show(demand, found, replication)


def _measured(bench: Path | None) -> float:
    if bench is None:
        raise typer.BadParameter("give --worker-tokens, or --bench with a file of `bench engine`")
    try:
        rows = json.loads(bench.read_text("utf-8"))["rows"]
        found = [row["value"] for row in rows if row["name"] == _TOKENS_ROW]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"--bench: {bench} is no JSON of `tallystream bench`: {error}") from error
    if not found or not found[0]:
        raise ConfigError(
            f"--bench: {bench} has no row {_TOKENS_ROW!r}: run bench engine --only engine-mixed"
        )
    return float(found[0])


def _show(demand: Demand, found: Plan, replication: int) -> None:
    needs = Table("needed", "", "why", box=None, pad_edge=False)
    needs.add_row("workers", f"{found.workers:,}", f"{found.tokens_per_second:,.0f} tokens/s at the peak")
    needs.add_row("shards", f"{found.shards:,}", f"{found.per_second:,.1f} requests/s at the peak")
    written, kept = found.mb_per_second * replication, found.kept_gb * replication
    needs.add_row(
        "brokers",
        f"{found.brokers:,}",
        f"{written:,.1f} MB/s, {kept:,.0f} GB and {found.partitions * replication:,} partitions, copies included",
    )
    for role, cores in found.cores.items():
        needs.add_row(f"cores: {role}", f"{cores:,.1f}", "")
    if found.cost_per_day:
        thousand = found.cost_per_day / demand.per_day * 1_000
        needs.add_row("cost", f"{found.cost_per_day:,.2f} a day", f"{thousand:,.4f} a thousand requests")
    out.print(needs)
    topics = Table(
        "topic", "bytes a request", "MB/s at the peak", "GB kept, one copy", box=None, pad_edge=False
    )
    for topic in found.topics:
        topics.add_row(
            topic.name, f"{topic.request_bytes:,.0f}", f"{topic.mb_per_second:,.2f}", f"{topic.kept_gb:,.1f}"
        )
    out.print()
    out.print(topics)
    out.print("\nfull first, in times the planned peak:")
    for limit in found.limits:
        out.print(f"  {limit.times:6.2f} ×  {limit.what}", highlight=False)
