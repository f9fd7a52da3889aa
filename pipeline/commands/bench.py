"""``tallystream bench``: measure, side by side, against goals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pipeline.bench import effort
from pipeline.bench.machine import describe_machine
from pipeline.bench.parts import ALL, PARTS, measures_of
from pipeline.bench.report import Report
from pipeline.bench.rows import Row
from pipeline.commands.console import out, say
from pipeline.settings import load_settings


def bench(
    part: Annotated[str, typer.Argument(metavar="PART", help=f"One of {', '.join(PARTS)}, {ALL}.")],
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write machine and rows to this file.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Rounds over all contenders of a comparison.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Everything tiny: shows that it runs, measures nothing.")
    ] = False,
    only: Annotated[list[str] | None, typer.Option(help="Only this measure; can be repeated.")] = None,
) -> None:
    """Measure one part of the system, or all, each on a Kafka of its own.

    What is compared runs side by side in one run, one contender at a time, again and again in turn; a row shows
    the median and the spread. Leave the machine alone meanwhile.

    Exit codes: 0 measured, whether goals are met or not; 2 something is missing or wrong; 130 Ctrl-C.
    """
    if part not in (*PARTS, ALL):
        raise typer.BadParameter(f"{part!r} is none of {', '.join(PARTS)}, {ALL}", param_hint="PART")
    measures = measures_of(part)
    for name in only or ():
        if name not in measures:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(measures)}", param_hint="--only")
    chosen = effort.quick(repeats) if quick else effort.full(repeats)
    settings, machine = load_settings(), describe_machine()
    rows: list[Row] = []
    for name, measure in measures.items():
        if not only or name in only:
            rows += measure(settings, chosen, say)
    report = Report(machine, rows)
    out.print(report.shown())
    if json_file is not None:
        json_file.write_text(json.dumps(report.json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
