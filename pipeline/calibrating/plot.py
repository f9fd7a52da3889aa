"""The reliability plot: how often answers of each confidence were right, before and after the map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.calibrating.fit import Fitted
from pipeline.calibrating.labelled import Labelled
from pipeline.errors import InvalidRequestError, MissingDependencyError
from pipeline.fusion.calibration import Bin, equal_mass

SUFFIXES = (".png", ".svg")
_BEFORE, _AFTER, _GREY = "#b45309", "#0f766e", "#64748b"


def draw_reliability(labelled: Labelled, fitted: Fitted, path: Path, bins: int = 10) -> None:
    """Write the plot, as PNG or SVG by the name's ending; the same results give the same picture.

    Raises:
        InvalidRequestError: another ending, or the file can not be written.
        MissingDependencyError: matplotlib is not installed.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidRequestError(f"{path}: a plot ends in {' or '.join(SUFFIXES)}", field="plot")
    figure = _figure(labelled, fitted, bins)
    try:
        # Without a date and with a fixed salt for ids, so that the same results give the same bytes.
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    except OSError as error:
        raise InvalidRequestError(f"{path}: {error.strerror}", field="plot") from error


def _figure(labelled: Labelled, fitted: Fitted, bins: int) -> Any:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingDependencyError(
            "matplotlib is not installed: pip install 'tallystream[calibrate]'"
        ) from error
    mpl.rcParams["svg.hashsalt"] = "tallystream"
    figure: Any = Figure(figsize=(7, 7.6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3.4, 1)})
    count, right = len(labelled.correct), sum(labelled.correct)
    figure.suptitle(f"Reliability of {count:,} labelled results, {right / count:.0%} right", fontsize=14)
    _curves(top, labelled, fitted, bins)
    _counts(bottom, labelled, fitted)
    return figure


def _curves(axes: Any, labelled: Labelled, fitted: Fitted, bins: int) -> None:
    axes.plot([0, 1], [0, 1], color=_GREY, linestyle=(0, (4, 3)), linewidth=1, label="perfectly calibrated")
    knots = fitted.calibration.knots
    axes.plot(
        [0, *(raw for raw, _ in knots), 1],
        [knots[0][1], *(calibrated for _, calibrated in knots), knots[-1][1]],
        color=_BEFORE,
        alpha=0.35,
        linewidth=1.5,
        label="the fitted map",
    )
    for confidences, color, name, quality in (
        (labelled.confidences, _BEFORE, "raw", fitted.before),
        (fitted.held_out, _AFTER, "calibrated, cross-validated", fitted.after),
    ):
        found = equal_mass(confidences, labelled.correct, bins)
        axes.errorbar(
            [each.confidence for each in found],
            [each.accuracy for each in found],
            yerr=_intervals(found),
            color=color,
            marker="o",
            markersize=5,
            linewidth=1.6,
            elinewidth=1,
            capsize=2.5,
            label=f"{name}: ECE {quality.ece_mass:.3f}, Brier {quality.brier:.3f}",
        )
    axes.set(xlim=(0, 1), ylim=(0, 1), ylabel="share that was right")
    axes.grid(color="#e2e8f0", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(loc="upper left", frameon=True, framealpha=0.9, edgecolor="none", fontsize=9.5)
    axes.set_title(
        f"{bins} bins of about one size each; bars are 95 % Wilson intervals",
        fontsize=9.5,
        color=_GREY,
        loc="left",
    )
    axes.spines[["top", "right"]].set_visible(False)


def _counts(axes: Any, labelled: Labelled, fitted: Fitted) -> None:
    edges = [place / 20 for place in range(21)]
    axes.hist(
        [labelled.confidences, fitted.held_out],
        bins=edges,
        color=[_BEFORE, _AFTER],
        label=["raw", "calibrated"],
    )
    axes.set(xlabel="confidence", ylabel="results")
    axes.grid(axis="y", color="#e2e8f0", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(loc="upper left", frameon=False, fontsize=9.5)
    axes.spines[["top", "right"]].set_visible(False)


def _intervals(found: Sequence[Bin]) -> list[list[float]]:
    """Below and above each accuracy: the 95 % interval of Wilson (1927), good for small counts and near 0 and 1."""
    z = 1.96
    below: list[float] = []
    above: list[float] = []
    for each in found:
        n, share = each.count, each.accuracy
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
        below.append(max(0.0, share - (middle - half)))
        above.append(max(0.0, middle + half - share))
    return [below, above]
