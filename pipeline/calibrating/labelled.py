"""Labelled results: how sure each was, and whether it was right."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pipeline.errors import InvalidRequestError
from pipeline.fusion import equivalent


@dataclass(frozen=True, slots=True)
class Labelled:
    """Results with a confidence and a label, in order of the file.

    Attributes:
        confidences: raw, in [0, 1].
        correct: of each, whether its answer was right.
        skipped: lines without a confidence, of requests that ended without an answer.
    """

    confidences: tuple[float, ...]
    correct: tuple[bool, ...]
    skipped: int


def read_labelled(path: Path, gold: Path | None = None) -> Labelled:
    """Read a file of results, one JSON object a line.

    A line has ``confidence`` and a label: ``correct``, or the right answer, which is compared with its ``answer`` by
    ``equivalent``: in ``gold``, in ``metadata.gold``, or in the gold file under the line's ``id`` or ``request_id``.

    Raises:
        InvalidRequestError: a file can not be read, or a line is wrong; names file, line and field.
    """
    answers = read_gold(gold) if gold is not None else {}
    confidences: list[float] = []
    correct: list[bool] = []
    skipped = 0
    for where, row in _rows(path):
        confidence = row.get("confidence")
        if confidence is None:
            skipped += 1
            continue
        if isinstance(confidence, bool) or not isinstance(confidence, int | float):
            raise InvalidRequestError(f"{where}: confidence is no number", field="confidence")
        if not (math.isfinite(confidence) and 0 <= confidence <= 1):
            raise InvalidRequestError(
                f"{where}: confidence is {confidence}, not in [0, 1]", field="confidence"
            )
        correct.append(_label(where, row, answers))
        confidences.append(float(confidence))
    return Labelled(tuple(confidences), tuple(correct), skipped)


def read_gold(path: Path) -> dict[str, str]:
    """The right answers by id: one JSON object with ``id`` and ``answer`` (or ``gold``) a line.

    Raises:
        InvalidRequestError: as for results.
    """
    found: dict[str, str] = {}
    for where, row in _rows(path):
        right = row.get("gold", row.get("answer"))
        if row.get("id") is None or right is None:
            raise InvalidRequestError(f"{where}: needs id and answer", field="id")
        found[str(row["id"])] = str(right)
    return found


def _label(where: str, row: Mapping[str, Any], answers: Mapping[str, str]) -> bool:
    if "correct" in row:
        if row["correct"] not in (True, False):
            raise InvalidRequestError(f"{where}: correct is neither true nor false", field="correct")
        return bool(row["correct"])
    metadata = row.get("metadata")
    right = row.get("gold")
    if right is None and isinstance(metadata, dict):
        right = cast("dict[str, Any]", metadata).get("gold")
    if right is None:
        right = answers.get(str(row.get("id", row.get("request_id"))))
    if right is None:
        raise InvalidRequestError(
            f"{where}: no label: add correct (true or false) or gold (the right answer), or give --gold FILE",
            field="correct",
        )
    return row.get("answer") is not None and equivalent(str(row["answer"]), str(right))


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise InvalidRequestError(f"{path}: {reason}") from error
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise InvalidRequestError(f"{path}:{number}: not JSON: {error.msg}") from error
        if not isinstance(row, dict):
            raise InvalidRequestError(f"{path}:{number}: not a JSON object")
        yield f"{path}:{number}", cast("dict[str, Any]", row)
