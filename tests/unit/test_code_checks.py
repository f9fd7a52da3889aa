from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from window_events import sample

from pipeline import code_checks
from pipeline.code_checks import ProgramChecker, check_programs
from pipeline.errors import SandboxUnavailableError
from pipeline.events import Sample
from pipeline.fusion import CodeReason, CodeVerdict
from pipeline.settings import CodeSettings

LIMITS = CodeSettings.model_validate({})
GOOD, BAD = "def f(x):\n    return x + 1", "def f(x):\n    return x"


def drawn(*codes: str) -> list[Sample]:
    return [replace(sample(i, "x"), text=f"```python\n{code}\n```") for i, code in enumerate(codes)]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, str]]:
    """What would have been run; a program holds every test that has its own text's result."""
    jobs: list[tuple[str | None, str]] = []

    def check_all(given: list[tuple[str | None, str]], limits: Any, **_: Any) -> list[CodeVerdict]:
        jobs.extend(given)
        return [
            CodeVerdict("+ 1" in (code or ""), CodeReason.PASSED, ("+ 1" in (code or ""),))
            for code, _ in given
        ]

    monkeypatch.setattr(code_checks, "check_all", check_all)
    return jobs


def test_each_program_meets_the_requests_tests(ran: list[tuple[str | None, str]]) -> None:
    checks = check_programs(drawn(BAD, GOOD), "assert f(1) == 2", LIMITS)
    assert ran == [(BAD, "assert f(1) == 2"), (GOOD, "assert f(1) == 2")]
    assert checks.given and [program.outcomes for program in checks.programs] == [(False,), (True,)]


def test_without_tests_the_samples_own_are_taken_together(ran: list[tuple[str | None, str]]) -> None:
    checks = check_programs(
        drawn(f"{GOOD}\nassert f(1) == 2", f"{BAD}\nassert f(1) == 2\nassert f(0) == 0"), None, LIMITS
    )
    assert not checks.given and [suite for _, suite in ran] == ["assert f(1) == 2\nassert f(0) == 0"] * 2


@pytest.mark.parametrize("codes", [(GOOD,), ()])
def test_without_any_test_or_program_nothing_is_run(codes: tuple[str, ...], ran: list[object]) -> None:
    assert check_programs(drawn(*codes), None, LIMITS).programs == () and ran == []


def test_a_machine_without_a_sandbox_is_told_in_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise SandboxUnavailableError("nothing here confines a program")

    monkeypatch.setattr(code_checks, "check_all", refuse)
    checks = check_programs(drawn(GOOD), "assert f(1) == 2", LIMITS)
    assert checks.programs == ()
    assert checks.note == "no program was run (sandbox_unavailable): the samples' agreement decided"


def test_outcomes_are_handed_over_once(ran: list[object]) -> None:
    checker = ProgramChecker[str](LIMITS)
    checker.submit("q", drawn(GOOD), "assert f(1) == 2")
    checker.submit("q", drawn(GOOD), "assert f(1) == 2")
    found: list[tuple[str, Any]] = []
    while not found:
        found += checker.done()
    assert [key for key, _ in found] == ["q"] and list(checker.done()) == [] and len(ran) == 1
    checker.close()
