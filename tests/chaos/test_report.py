"""What a run says at its end."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from pipeline.chaos.faults import Injected
from pipeline.chaos.findings import EXAMPLES, Finding, Wrong, summarised
from pipeline.chaos.plan import Actor, Fault, FaultKind
from pipeline.chaos.report import Report, Stretch, percentiles
from pipeline.chaos.watch import Recovery


def killed(role: str, seconds: float | None) -> Injected:
    fault = Fault(FaultKind.KILL, Actor(role, 0), 0.0, 0.0, overlaps=False)
    return Injected(fault, 0, Recovery(0.0, seconds))


def report(*findings: Finding, planned: int = 2) -> Report:
    return Report(
        seed=1,
        broken="",
        planned=planned,
        faults=[killed("worker", 2.0), killed("broker", 5.0)],
        exits={},
        counts={"requests": 9},
        calm=Stretch(10.0, 50, [0.1, 0.2]),
        chaos=Stretch(10.0, 40, []),
        findings=summarised(findings),
        seconds=30.0,
    )


def text(of: Report) -> str:
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(of.shown())
    return console.export_text()


def test_all_is_well_without_findings_when_every_kill_was_made() -> None:
    assert report().ok
    assert "2 kills, 9 requests: 0 lost, 0 duplicated, 0 stuck" in text(report())


def test_a_finding_is_counted_shown_and_not_well() -> None:
    spoilt = report(*(Finding(Wrong.LOST, "a request is gone", f"id-{n}") for n in range(9)))
    assert not spoilt.ok
    assert spoilt.json()["lost"] == 9
    assert spoilt.json()["findings"][0]["examples"] == [f"id-{n}" for n in range(EXAMPLES)]
    assert "a request is gone" in text(spoilt)


def test_kills_that_could_not_be_made_are_not_well() -> None:
    assert not report(planned=3).ok
    assert "only 2 of 3 kills could be made" in text(report(planned=3))


def test_the_object_of_counts_has_every_kind_and_recovery_by_role() -> None:
    counts = json.loads(json.dumps(report().json()))
    assert {wrong.value for wrong in Wrong} <= set(counts)
    assert counts["kills_by_role"] == {"worker": 1, "broker": 1}
    assert counts["recovery_s"]["worker"] == {"p50": 2.0, "p99": 2.0, "max": 2.0, "measured": 1}
    assert counts["recovery_s"]["all"]["max"] == 5.0
    assert counts["calm"]["results_per_second"] == 5.0


@pytest.mark.parametrize(
    ("values", "p50", "p99"), [([1.0], 1.0, 1.0), ([2.0, 1.0], 1.0, 2.0), (list(range(1, 201)), 100, 198)]
)
def test_percentiles_are_by_nearest_rank(values: list[float], p50: float, p99: float) -> None:
    assert percentiles(values) == {"p50": p50, "p99": p99, "max": max(values)}


def test_nothing_has_no_percentiles() -> None:
    assert percentiles([]) == {}
