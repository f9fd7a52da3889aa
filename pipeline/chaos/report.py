"""What a chaos run says at its end: as a table for people, as an object of counts for programs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipeline.chaos.faults import Injected
from pipeline.chaos.findings import Summary, Wrong
from pipeline.chaos.plan import FaultKind

ROLES = ("batcher", "worker", "aggregator", "webhook", "broker")


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the run: its length, what ended in it, and how long requests sent in it took; in seconds."""

    seconds: float
    results: int
    latencies: Sequence[float]

    def counts(self) -> dict[str, float]:
        return {
            "seconds": round(self.seconds, 1),
            "results_per_second": round(self.results / self.seconds, 2) if self.seconds else 0.0,
            **{f"latency_{name}_s": value for name, value in percentiles(self.latencies).items()},
        }


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a run found.

    Attributes:
        planned: kills that were asked for.
        exits: agents that ended by themselves, by role.
        counts: requests, results, samples, deliveries, received.
    """

    seed: int
    broken: str
    planned: int
    faults: Sequence[Injected]
    exits: Mapping[str, int]
    counts: Mapping[str, int]
    calm: Stretch
    chaos: Stretch
    findings: Sequence[Summary]
    seconds: float

    @property
    def kills(self) -> int:
        return sum(made.fault.kind is FaultKind.KILL for made in self.faults)

    @property
    def ok(self) -> bool:
        return not self.findings and self.kills == self.planned

    def of(self, wrong: Wrong) -> int:
        return sum(finding.count for finding in self.findings if finding.wrong is wrong)

    def json(self) -> dict[str, Any]:
        """One object of counts."""
        return {
            "ok": self.ok,
            "seed": self.seed,
            "broken": self.broken,
            "kills": self.kills,
            "stops": len(self.faults) - self.kills,
            **self.counts,
            **{wrong.value: self.of(wrong) for wrong in Wrong},
            "kills_by_role": dict(self._by_role(FaultKind.KILL)),
            "stops_by_role": dict(self._by_role(FaultKind.STOP)),
            "exits_by_role": dict(self.exits),
            "recovery_s": {
                role: percentiles(seconds) | {"measured": len(seconds)}
                for role in (*ROLES, "all")
                if (seconds := self._recoveries(role))
            },
            "calm": self.calm.counts(),
            "chaos": self.chaos.counts(),
            "seconds": round(self.seconds, 1),
            "findings": [
                {"wrong": f.wrong.value, "what": f.what, "count": f.count, "examples": list(f.examples)}
                for f in self.findings
            ],
        }

    def shown(self) -> Group:
        """Tables and a verdict."""
        parts: list[Any] = [self._role_table(), self._count_table()]
        if self.findings:
            parts.append(self._finding_table())
        return Group(*parts, Text(self.verdict(), style="green" if self.ok else "red"))

    def verdict(self) -> str:
        """One line."""
        wrong = ", ".join(
            f"{self.of(kind)} {kind.value.replace('_', ' ')}" for kind in Wrong if self.of(kind)
        )
        clean = "0 lost, 0 duplicated, 0 stuck"
        short = (
            "" if self.kills == self.planned else f"; only {self.kills} of {self.planned} kills could be made"
        )
        return f"{self.kills} kills, {self.counts['requests']} requests: {wrong or clean}{short}"

    def _by_role(self, kind: FaultKind) -> Counter[str]:
        return Counter(made.fault.actor.role for made in self.faults if made.fault.kind is kind)

    def _recoveries(self, role: str) -> list[float]:
        return [
            made.recovery.seconds
            for made in self.faults
            if made.recovery.seconds is not None
            and made.fault.kind is FaultKind.KILL
            and role in ("all", made.fault.actor.role)
        ]

    def _role_table(self) -> Table:
        table = Table(title="faults, and seconds from a kill to recovery", title_justify="left", box=None)
        table.add_column("role")
        for column in ("kills", "pauses", "own exits", "p50", "p99", "max"):
            table.add_column(column, justify="right")
        kills, stops = self._by_role(FaultKind.KILL), self._by_role(FaultKind.STOP)
        for role in ROLES:
            found = percentiles(self._recoveries(role))
            times = [f"{found[name]:.1f}" if found else "–" for name in ("p50", "p99", "max")]
            table.add_row(role, str(kills[role]), str(stops[role]), str(self.exits.get(role, 0)), *times)
        found = percentiles(self._recoveries("all"))
        times = [f"{found[name]:.1f}" if found else "–" for name in ("p50", "p99", "max")]
        total = str(kills.total()), str(stops.total()), str(sum(self.exits.values()))
        table.add_row("all", *total, *times, style="bold")
        return table

    def _count_table(self) -> Table:
        table = Table(title="\nwhat went through", title_justify="left", box=None, show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for name, count in self.counts.items():
            table.add_row(name, f"{count:,}")
        for name, stretch in (("calm", self.calm), ("with faults", self.chaos)):
            found = percentiles(stretch.latencies)
            rate = f"{stretch.results / stretch.seconds:.1f}/s" if stretch.seconds else "–"
            slow = f", p50 {found['p50']:.2f} s, p99 {found['p99']:.1f} s" if found else ""
            table.add_row(f"results, {name}", f"{rate}{slow}")
        return table

    def _finding_table(self) -> Table:
        table = Table(title="\nfindings", title_justify="left", box=None)
        for column in ("wrong", "what", "count", "examples"):
            table.add_column(column, overflow="fold")
        for finding in self.findings:
            table.add_row(finding.wrong.value, finding.what, str(finding.count), "\n".join(finding.examples))
        return table


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p99 (nearest rank) and the largest; empty of nothing."""
    if not values:
        return {}
    ordered = sorted(values)
    return {
        name: round(ordered[max(0, math.ceil(share * len(ordered)) - 1)], 3)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }
