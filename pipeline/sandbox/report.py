"""What the tests' sandbox reports, read by the host."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

from pipeline.fusion.code_verdict import CodeReason

MAX_REPORT = 4 * 1024 * 1024
PASSED = "passed"


@dataclass(slots=True)
class TestReport:
    """Frames so far.

    Attributes:
        labels: one line a test.
        states: of each test that was reached: ``passed`` or the reason, and a text.
        unusable: what is wrong with the tests themselves.
        stopped: why the run stopped before its end: a reason, or ``None`` when the program is gone, and a text.
        ended: the tests ran to their end.
    """

    labels: list[str] = field(default_factory=list[str])
    states: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    unusable: str | None = None
    stopped: tuple[CodeReason | None, str] | None = None
    ended: bool = False

    @property
    def outcomes(self) -> tuple[bool, ...]:
        """For each test whether it was reached and held."""
        return tuple(self.states.get(number, ("", ""))[0] == PASSED for number in range(len(self.labels)))

    def first_failure(self) -> tuple[CodeReason, str] | None:
        """Reason and sentence of the first test that was reached and did not hold."""
        for number, (state, text) in sorted(self.states.items()):
            if state != PASSED:
                place = f"test {number + 1} of {len(self.labels)}, {self.labels[number]}"
                return _reason(state), f"{place}: {text}" if text else place
        return None


def read_report(content: bytes) -> TestReport:
    """The complete frames of a report; what is no frame is passed over."""
    report = TestReport()
    position = 0
    while position + 4 <= len(content):
        size = int.from_bytes(content[position : position + 4], "big")
        body = content[position + 4 : position + 4 + size]
        position += 4 + size
        if len(body) < size:
            break
        try:
            frame = json.loads(body)
        except (ValueError, RecursionError):
            break
        if isinstance(frame, list):
            _take(report, cast("list[Any]", frame))
    return report


def _take(report: TestReport, frame: list[Any]) -> None:
    match frame:
        case ["tests", [*labels]]:
            report.labels = [str(label) for label in labels]
        case ["test", int(number), str(state), str(text)] if 0 <= number < len(report.labels):
            # A test that runs several times fails when one of its runs does.
            if report.states.get(number, (PASSED, ""))[0] == PASSED:
                report.states[number] = (state, text)
        case ["unusable", str(text)]:
            report.unusable = text
        case ["not_loaded", str(state), str(text)]:
            report.stopped = (_reason(state), text)
        case ["gone", str(text)]:
            report.stopped = (None, text)
        case ["end", ""]:
            report.ended = True
        case ["end", str(state), *texts]:
            report.stopped = (_reason(state), str(texts[0]) if texts else state)
        case _:
            pass


def _reason(state: str) -> CodeReason:
    return CodeReason(state) if state in tuple(CodeReason) and state != PASSED else CodeReason.ERROR


def failure_of(kind: str, text: str, number: object) -> tuple[CodeReason, str]:
    """Reason and sentence of an exception that the program raised, by its built-in class and its errno."""
    if kind == "MemoryError":
        return CodeReason.MEMORY, kind
    return (CodeReason.FORBIDDEN if number in (1, 13, 30) else CodeReason.ERROR), text
