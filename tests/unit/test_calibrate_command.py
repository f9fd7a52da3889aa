from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline.calibrating.fit import fit_calibration
from pipeline.calibrating.labelled import Labelled, read_labelled
from pipeline.cli import app
from pipeline.errors import ConfigError, InvalidRequestError, MissingDependencyError
from pipeline.fusion import Calibration
from pipeline.settings import load_settings
from pipeline.vote_options import vote_options


def overconfident(count: int = 400) -> list[dict[str, Any]]:
    """Right in 0.15 + 0.6 of the square of what they say."""
    chance = random.Random("labels")
    rows: list[dict[str, Any]] = []
    for index in range(count):
        raw = round(chance.betavariate(4, 1.4), 4)
        rows.append({"id": f"q-{index}", "confidence": raw, "correct": chance.random() < 0.15 + 0.6 * raw**2})
    return rows


def written(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_the_command_fits_reports_writes_and_draws(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    file, to = written(tmp_path / "results.jsonl", overconfident()), tmp_path / "map.json"
    for plot in ("plot.png", "plot.svg"):
        argv = ["calibrate", str(file), "--out", str(to), "--plot", str(tmp_path / plot)]
        done = CliRunner().invoke(app, argv)
        assert done.exit_code == 0, done.output
        assert "400 labelled results" in done.output
        assert "Brier score" in done.output
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert (
        "Reliability" in (tmp_path / "plot.svg").read_text() or "<svg" in (tmp_path / "plot.svg").read_text()
    )
    options = vote_options(load_settings(vote={"calibration": to}))
    assert options.calibration == Calibration.from_json(to.read_text())


def test_the_map_helps_on_results_that_it_has_not_seen() -> None:
    pytest.importorskip("sklearn")
    rows = overconfident()
    labelled = Labelled(tuple(r["confidence"] for r in rows), tuple(r["correct"] for r in rows), 0)
    fitted = fit_calibration(labelled)
    assert fitted.after.ece_width < 0.5 * fitted.before.ece_width
    assert fitted.after.brier < fitted.before.brier
    assert fitted == fit_calibration(labelled)


def test_an_answer_is_compared_with_the_gold_one(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "confidence": 0.9, "answer": "12.0", "gold": "12"},
        {"id": "b", "confidence": 0.8, "answer": "1/2", "metadata": {"gold": "0.5"}},
        {"request_id": "c", "confidence": 0.7, "answer": "Paris"},
        {"id": "d", "confidence": None, "answer": None},
    ]
    gold = written(tmp_path / "gold.jsonl", [{"id": "c", "answer": "Rome"}])
    labelled = read_labelled(written(tmp_path / "results.jsonl", rows), gold)
    assert labelled == Labelled((0.9, 0.8, 0.7), (True, True, False), 1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", r"results\.jsonl:1: not JSON"),
        ("[]", "not a JSON object"),
        ('{"confidence": "high"}', "confidence is no number"),
        ('{"confidence": 2, "correct": true}', r"not in \[0, 1\]"),
        ('{"confidence": 0.5}', "no label"),
        ('{"confidence": 0.5, "correct": "yes"}', "neither true nor false"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text(line)
    with pytest.raises(InvalidRequestError, match=reason):
        read_labelled(path)


def test_too_little_to_fit_on() -> None:
    with pytest.raises(InvalidRequestError, match="too few"):
        fit_calibration(Labelled((0.5,) * 3, (True,) * 3, 0))
    with pytest.raises(InvalidRequestError, match="right and"):
        fit_calibration(Labelled((0.5,) * 30, (True,) * 30, 0))


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr("pipeline.calibrating.fit.import_module", missing)
    with pytest.raises(MissingDependencyError, match=r"tallystream\[calibrate\]"):
        fit_calibration(Labelled((0.5,) * 30, (True, False) * 15, 0))


def test_a_map_that_can_not_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"TALLYSTREAM_VOTE__CALIBRATION.*No such file"):
        vote_options(load_settings(vote={"calibration": tmp_path / "none.json"}))
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ConfigError, match="tallystream_calibration is missing"):
        vote_options(load_settings(vote={"calibration": tmp_path / "bad.json"}))
