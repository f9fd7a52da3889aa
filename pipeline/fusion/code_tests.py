"""The forms in which a request's ``tests`` can be written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from pipeline.errors import InvalidRequestError

MAX_TESTS = 1_000_000
"""Characters of all tests; a request's record is not larger."""
MAX_PYTHON = 200_000
"""Characters of tests that are Python."""
MAX_CASES = 200
"""Runs of the program, one for each pair of input and output."""


@dataclass(frozen=True, slots=True)
class PythonTests:
    """Assertions, test functions, or a function ``check(candidate)``.

    Attributes:
        entry: the program's function under test; ``None`` when the tests call functions by name.
    """

    source: str
    entry: str | None = None


@dataclass(frozen=True, slots=True)
class OutputTests:
    """What the program reads and what it has to print."""

    cases: tuple[tuple[str, str], ...]


def parse_tests(text: str) -> PythonTests | OutputTests:
    """Tell the form by the text: JSON in one of the documented shapes, anything else is Python.

    Raises:
        InvalidRequestError: empty, too long, or JSON of another shape; names the field ``tests``.
    """
    if not text.strip():
        raise _bad("are empty")
    if len(text) > MAX_TESTS:
        raise _bad(f"have more than {MAX_TESTS} characters")
    if text.lstrip()[0] not in "[{":
        return _python(text)
    try:
        data = json.loads(text)
    except RecursionError as error:
        raise _bad("are nested too deeply") from error
    except ValueError:
        return _python(text)
    if isinstance(data, list):
        return _outputs(cast("list[Any]", data))
    match data:
        case {"test": str(source), "entry_point": str(entry)}:
            return _python(source, entry)
        case {"fn_name": str(entry), "inputs": [*inputs], "outputs": [*outputs]} if len(inputs) == len(
            outputs
        ):
            return _calls(entry, inputs, outputs)
        case {"inputs": [*inputs], "outputs": [*outputs]} if len(inputs) == len(outputs):
            return _outputs(
                [{"stdin": given, "stdout": wanted} for given, wanted in zip(inputs, outputs, strict=True)]
            )
        case _:
            raise _bad("are JSON, but neither test and entry_point nor inputs and outputs of one length")


def same_output(printed: str, wanted: str) -> bool:
    """Whether two outputs are equal up to white space at the ends of lines and blank lines at the end."""
    return _lines(printed) == _lines(wanted)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _python(source: str, entry: str | None = None) -> PythonTests:
    if len(source) > MAX_PYTHON:
        raise _bad(f"have more than {MAX_PYTHON} characters of Python")
    return PythonTests(source, entry)


def _outputs(items: list[Any]) -> OutputTests:
    cases: list[tuple[str, str]] = []
    for item in items:
        match item:
            case {"stdin": str(given), "stdout": str(wanted)} | {"input": str(given), "output": str(wanted)}:
                cases.append((given, wanted))
            case _:
                raise _bad("are a JSON array, but not of objects with the texts stdin and stdout")
    if not 0 < len(cases) <= MAX_CASES:
        raise _bad(f"hold {len(cases)} pairs of stdin and stdout, 1 to {MAX_CASES} are allowed")
    return OutputTests(tuple(cases))


def _calls(entry: str, inputs: list[Any], outputs: list[Any]) -> PythonTests:
    if not entry.isidentifier() or not all(isinstance(given, list) for given in inputs):
        raise _bad("name a function that is no name, or inputs that are not lists of arguments")
    lines = [
        f"assert {entry}(*{given!r}) == {wanted!r}" for given, wanted in zip(inputs, outputs, strict=True)
    ]
    return _python("\n".join(lines), entry)


def _bad(problem: str) -> InvalidRequestError:
    return InvalidRequestError(f"tests {problem}", field="tests")
