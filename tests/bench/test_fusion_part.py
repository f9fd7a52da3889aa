"""The bench of the vote: everything tiny; what a hang counts as, and what an interval is."""

from __future__ import annotations

import json
import math
from collections import Counter
from multiprocessing import Pipe
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from pipeline.bench import fusion_rivals
from pipeline.bench.fusion_rivals import Pair
from pipeline.bench.harness_match import normalised_match
from pipeline.bench.proportions import gain, share
from pipeline.cli import app


def test_early_stop_and_equivalence_have_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fusion_rivals, "find_spec", lambda _: None)
    file = tmp_path / "bench.json"
    argv = [
        "bench",
        "fusion",
        "--quick",
        "--only",
        "early-stop",
        "--only",
        "equivalence",
        "--json",
        str(file),
    ]
    ran = CliRunner().invoke(app, argv)
    assert ran.exit_code == 0, ran.output
    rows = {row["name"]: row for row in json.loads(file.read_text())["rows"]}
    assert rows["early stop lossless, hard: answers of the full vote"]["value"] == 1
    assert rows["early stop esc, easy: against its ideal"]["value"] >= 1
    ours = {name.rpartition(": ")[2]: row for name, row in rows.items() if "this project" in name}
    assert (ours["wrong"]["value"], ours["hung"]["value"]) == (0, 0)
    contenders = {name.partition(" directions, ")[2].partition(":")[0] for name in rows} - {""}
    assert sum("lm-evaluation-harness" in each for each in contenders) == 2
    absent = next(row for name, row in rows.items() if "Math-Verify" in name)
    assert (absent["value"], "pip install" in absent["note"]) == (None, True)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (r"$\frac12$", r"\dfrac{1}{2}", True),
        ("x = 5.", "5", True),
        (r"24\text{ square units}", "24", True),
        ("1,250.00", "1250", True),
        (r"60^\circ", "60 degrees", True),
        ("The Nile", "nile.", True),
        ("3/4", r"\frac{3}{4}", True),
        ("0.5", "1/2", False),
        ("x^2+1", "1+x^2", False),
        (r"(-\infty,5]", r"(-\infty,5)", False),
        ("$", "$", False),
    ],
)
def test_the_normalised_match_compares_text(a: str, b: str, same: bool) -> None:
    assert normalised_match(a, b) is normalised_match(b, a) is same


@pytest.mark.model
def test_abacus_has_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    ran = CliRunner().invoke(app, ["bench", "fusion", "--quick", "--only", "abacus", "--json", str(file)])
    assert ran.exit_code == 0, ran.output
    rows = {row["name"]: row for row in json.loads(file.read_text())["rows"]}
    assert {"Abacus: accuracy, greedy, one sample", "Abacus: accuracy, 15 samples"} <= set(rows)
    whole = rows["Abacus: tokens a right answer costs, 15 samples"]["value"]
    assert 0 < rows["Abacus: tokens a right answer costs, 15 samples, lossless early stop"]["value"] <= whole
    assert rows["Abacus: gain from 1 to 5 samples"]["goal"] is not None


def test_what_does_not_answer_is_hung_and_the_rest_is_taken_up_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fusion_rivals, "_PATIENCE", 0.05)
    here, there = Pipe()
    pairs = [Pair("1", "1", True), Pair("1", "2", False), Pair("a", "b", True), Pair("x", "x", True)]
    for said in ((True, True), (True, False)):
        there.send(said)
    found = Counter[str]()
    assert fusion_rivals._follow(here, pairs, found) == 3
    assert found == {"right": 1, "wrong": 1, "hung": 1}


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_an_interval_holds_its_share_and_stays_within_0_and_1(hits: list[bool]) -> None:
    found = share(hits)
    assert found.value == sum(hits) / len(hits)
    assert -1e-12 <= found.low <= found.value <= found.high <= 1 + 1e-12


def test_an_interval_by_hand() -> None:
    # Wilson, 8 of 10: (0.8 + 1.96²/20 ± 1.96·sqrt(0.016 + 1.96²/400)) / (1 + 1.96²/10)
    found = share([True] * 8 + [False] * 2)
    assert math.isclose(found.low, 0.4902, abs_tol=1e-4)
    assert math.isclose(found.high, 0.9433, abs_tol=1e-4)


def test_a_gain_is_of_the_same_questions() -> None:
    before = [False] * 50 + [True] * 50
    assert gain(before, before).low == gain(before, before).high == 0
    found = gain(before, [True] * 100)
    assert found.low < found.value == 0.5 < found.high
