"""The fit: isotonic regression, judged on results that it was not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from pipeline.calibrating.labelled import Labelled
from pipeline.errors import InvalidRequestError, MissingDependencyError
from pipeline.fusion.calibration import (
    Calibration,
    brier_score,
    equal_mass,
    equal_width,
    expected_calibration_error,
)

FEWEST = 20
"""Labelled results. Isotonic regression follows its data closely; some hundreds are better."""
FOLDS = 5
DIGITS = 6


@dataclass(frozen=True, slots=True)
class Quality:
    """How far confidences are from the truth; smaller is better.

    Attributes:
        ece_width, ece_mass: expected calibration error over bins of one width, and of one size.
        brier: mean square of confidence minus truth.
    """

    ece_width: float
    ece_mass: float
    brier: float


@dataclass(frozen=True, slots=True)
class Fitted:
    """A map and what it is worth.

    Attributes:
        calibration: fitted on all results.
        held_out: for each result the confidence by a map that was fitted on other results.
        before, after: the raw confidences and the held-out ones, judged.
    """

    calibration: Calibration
    held_out: tuple[float, ...]
    before: Quality
    after: Quality


def fit_calibration(labelled: Labelled, bins: int = 10) -> Fitted:
    """Fit the monotone map, and judge it by cross-validation in ``FOLDS`` parts. The same results give the same map.

    Raises:
        InvalidRequestError: too few results, or all of one label.
        MissingDependencyError: scikit-learn is not installed.
    """
    confidences, correct = labelled.confidences, labelled.correct
    right, count = sum(correct), len(correct)
    if count < FEWEST:
        raise InvalidRequestError(
            f"{count} labelled results are too few: {FEWEST} are needed, better hundreds"
        )
    if min(right, count - right) < FOLDS:
        raise InvalidRequestError(
            f"{right} of {count} results are right: at least {FOLDS} right and {FOLDS} wrong ones are needed"
        )
    held_out = _cross_validated(confidences, correct)
    return Fitted(
        calibration=_fitted(confidences, correct),
        held_out=held_out,
        before=_quality(confidences, correct, bins),
        after=_quality(held_out, correct, bins),
    )


def _fitted(confidences: Sequence[float], correct: Sequence[bool]) -> Calibration:
    # No confidence of 0 or 1 from a few results: the bounds are Laplace's rule of succession.
    edge = 1 / (len(correct) + 2)
    model: Any = _scikit("isotonic").IsotonicRegression(y_min=edge, y_max=1 - edge, out_of_bounds="clip")
    model.fit(list(confidences), [float(each) for each in correct])
    knots: dict[float, float] = {}
    for raw, calibrated in zip(model.X_thresholds_, model.y_thresholds_, strict=True):
        x = round(float(raw), DIGITS)
        knots[x] = max(knots.get(x, 0.0), round(float(calibrated), DIGITS))
    return Calibration(tuple(sorted(knots.items())), len(correct))


def _cross_validated(confidences: Sequence[float], correct: Sequence[bool]) -> tuple[float, ...]:
    folds: Any = _scikit("model_selection").StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    held_out = [0.0] * len(correct)
    rest: list[int]
    part: list[int]
    for rest, part in folds.split([[each] for each in confidences], list(correct)):
        calibration = _fitted([confidences[i] for i in rest], [correct[i] for i in rest])
        for index in part:
            held_out[index] = calibration.apply(confidences[index])
    return tuple(held_out)


def _quality(confidences: Sequence[float], correct: Sequence[bool], bins: int) -> Quality:
    return Quality(
        ece_width=expected_calibration_error(equal_width(confidences, correct, bins)),
        ece_mass=expected_calibration_error(equal_mass(confidences, correct, bins)),
        brier=brier_score(confidences, correct),
    )


def _scikit(module: str) -> Any:
    try:
        return import_module(f"sklearn.{module}")
    except ImportError as error:
        raise MissingDependencyError(
            "scikit-learn is not installed: pip install 'tallystream[calibrate]'"
        ) from error
