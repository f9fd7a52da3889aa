"""``tallystream calibrate``: what a confidence is worth, and the map that makes it worth what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from pipeline.calibrating.fit import Fitted, fit_calibration
from pipeline.calibrating.labelled import Labelled, read_labelled
from pipeline.calibrating.plot import draw_reliability
from pipeline.commands.console import out, say
from pipeline.errors import InvalidRequestError


def calibrate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Labelled results, one JSON object a line.")],
    gold: Annotated[
        Path | None, typer.Option(metavar="FILE", help='Right answers by id: {"id": …, "answer": …} a line.')
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", metavar="MAP.json", help="Where to write the map.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to draw the reliability plot: .png or .svg.")
    ] = None,
    bins: Annotated[
        int, typer.Option(min=2, max=100, help="Bins of the calibration errors and the plot.")
    ] = 10,
) -> None:
    """Fit the map from raw to true confidence on labelled results, and say what it is worth.

    A line of FILE has "confidence" and a label: "correct" (true or false), or the right answer in "gold" or in
    "metadata", {"gold": …}, which is compared with its "answer". So the output of `tallystream batch` is a FILE as
    it is, if the input's lines had their gold in metadata; else --gold names the right answers by id.

    Use results that were published without a map: a map of a map is no map. The agents apply the written map with
    TALLYSTREAM_VOTE__CALIBRATION=MAP.json. Exit codes: 0 done, 1 the map is no better than none, 2 a mistake.
    """
    labelled = read_labelled(file, gold)
    if labelled.skipped:
        say(f"{labelled.skipped} results without a confidence are left out: they hold no answer")
    fitted = fit_calibration(labelled, bins)
    _report(labelled, fitted, bins)
    if to is not None:
        try:
            to.write_text(fitted.calibration.to_json(), encoding="utf-8")
        except OSError as error:
            raise InvalidRequestError(f"{to}: {error.strerror}", field="out") from error
        say(
            f"map: {to} ({len(fitted.calibration.knots)} knots); use it with TALLYSTREAM_VOTE__CALIBRATION={to}"
        )
    if plot is not None:
        draw_reliability(labelled, fitted, plot, bins)
        say(f"plot: {plot}")
    if fitted.after.brier > fitted.before.brier:
        say(
            "on results that it was not fitted on the map is worse than none: do not use it, label more results"
        )
        raise typer.Exit(1)


def _report(labelled: Labelled, fitted: Fitted, bins: int) -> None:
    count, right = len(labelled.correct), sum(labelled.correct)
    out.print(f"{count} labelled results, {right} right ({right / count:.1%})", markup=False)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for header in ("", "before", "after, cross-validated"):
        table.add_column(header, justify="left" if not header else "right")
    for name, before, after in (
        (f"ECE, {bins} bins of one width", fitted.before.ece_width, fitted.after.ece_width),
        (f"ECE, {bins} bins of one size", fitted.before.ece_mass, fitted.after.ece_mass),
        ("Brier score", fitted.before.brier, fitted.after.brier),
    ):
        table.add_row(name, f"{before:.4f}", f"{after:.4f}", style="" if after <= before else "yellow")
    out.print(table)
