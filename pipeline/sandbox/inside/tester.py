"""The tests' side: runs the tests here, the program's functions there, and reports test by test.

Only this process holds the report's pipe, the tests and what they expect; the program is in another sandbox.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import io
import os
import sys
import types
import unittest
from functools import partial
from typing import Any

from pipeline.sandbox.inside import jail, units, wire
from pipeline.sandbox.inside.remote import Module, Program, ProgramGoneError, stand_in

MODULE = "tests"
_FORBIDDEN_ERRNO = (1, 13, 30)  # EPERM, EACCES, EROFS


class Test:
    """One marked test: notes how it ended, and lets the next one run."""

    def __init__(self, report: Report, number: int) -> None:
        self._report, self._number = report, number

    def __enter__(self) -> None:
        self._report.program.taint = None
        self._report.program.last_error = ("", None)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: Any) -> bool:
        program = self._report.program
        if error is not None and not isinstance(error, Exception):
            return False
        if program.taint is not None:
            self._report.ended(self._number, "error", program.taint)
        elif error is None:
            self._report.ended(self._number, "passed", "")
        else:
            self._report.ended(self._number, *reason_of(error, program))
        program.taint = None
        return True


class Report:
    """Frames to the host: the number of tests, each test's end, the end of all."""

    def __init__(self, descriptor: int, program: Program) -> None:
        self._descriptor = descriptor
        self.program = program
        self.reached: set[int] = set()

    def say(self, *frame: Any) -> None:
        """Send a frame."""
        wire.send(self._descriptor, list(frame))

    def ended(self, number: int, state: str, text: str) -> None:
        """One test ended; a test that runs several times fails when one of them does."""
        self.reached.add(number)
        self.say("test", number, state, text[:200])


def reason_of(error: Exception, program: Program) -> tuple[str, str]:
    """State and text of a failed test."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, AssertionError) and program.last_error[0] != "AssertionError":
        return "wrong_answer", text
    if isinstance(error, MemoryError):
        return "memory", text
    if isinstance(error, OSError) and program.last_error[1] in _FORBIDDEN_ERRNO:
        return "forbidden", text
    return "error", text


def main(job: dict[str, Any]) -> None:
    """Run the job's tests.

    The job: ``tests`` (source), ``entry`` (name or null), ``limits``, ``channel`` and ``report`` (descriptors).
    """
    jail.enter(job["limits"])
    program = Program(job["channel"])
    report = Report(job["report"], program)
    try:
        tests = units.take_apart(job["tests"])
        code = compile(tests.tree, f"<{MODULE}>", "exec")
    except SyntaxError as error:
        report.say("unusable", f"not Python: {error.msg} (line {error.lineno or 0})")
        return
    except (RecursionError, MemoryError, ValueError):
        report.say("unusable", "not Python that can be compiled")
        return
    if not tests.labels:
        report.say("unusable", "no assertion in them")
        return
    report.say("tests", tests.labels)
    try:
        outcome = program.loaded()
        if outcome[0] != "value":
            report.say("not_loaded", *_load_failure(outcome))
            return
        _run(tests, code, program, report, job["entry"])
        report.say("end", "")
    except ProgramGoneError as error:
        report.say("gone", str(error))
    except SystemExit:
        report.say("end", "the tests ask to end")
    except Exception as error:
        report.say("end", *reason_of(error, program))
    os._exit(0)


def _load_failure(outcome: list[Any]) -> tuple[str, str]:
    match outcome:
        case ["exit", *_]:
            return "error", "the program ends itself while it is loaded"
        case ["raised", "MemoryError", *_]:
            return "memory", "MemoryError while the program is loaded"
        case ["raised", _, text, number]:
            return ("forbidden" if number in _FORBIDDEN_ERRNO else "error"), str(text)
        case _:
            return "error", "the program can not be loaded"


def _run(
    tests: units.TestCode, code: types.CodeType, program: Program, report: Report, entry: str | None
) -> None:
    module = types.ModuleType(MODULE)
    sys.modules[MODULE] = module
    space = module.__dict__
    space[units.MARK] = partial(Test, report)
    main_name = entry or (program.functions[-1] if program.functions else "")
    wanted = {name for name in tests.missing if name not in vars(builtins)}
    if entry:
        wanted.add(entry)
    for name in sorted(wanted):
        with contextlib.suppress(wire.CannotTravelError):
            if name in sys.stdlib_module_names:
                space[name] = importlib.import_module(name)
            elif name in program.names:
                space[name] = stand_in(program, name)
            elif name == "candidate" and main_name in program.names:
                space[name] = stand_in(program, main_name)
            elif name in units.PROGRAM_NAMES:
                space[name] = Module(program)
    exec(code, space)
    for check in tests.checks:
        if main_name not in program.names:
            raise NameError(f"the program has no function {main_name}".rstrip())
        space[check](stand_in(program, main_name))
    for function in tests.functions:
        space[function]()
    for name in tests.classes:
        if isinstance(space[name], type) and issubclass(space[name], unittest.TestCase):
            unittest.TextTestRunner(io.StringIO()).run(
                unittest.defaultTestLoader.loadTestsFromTestCase(space[name])
            )
        else:
            _run_plain_class(space[name])


def _run_plain_class(kind: Any) -> None:
    for name in dir(kind):
        if name.startswith("test"):
            getattr(kind(), name)()
