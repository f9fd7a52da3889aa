"""Tests that call the program's functions: two sandboxes, one channel between them."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from dataclasses import asdict

from pipeline.errors import InvalidRequestError
from pipeline.fusion.code_tests import PythonTests
from pipeline.fusion.code_verdict import CodeLimits, CodeReason, CodeVerdict
from pipeline.sandbox.boundary import Way, start
from pipeline.sandbox.bundle import Step
from pipeline.sandbox.collect import MAX_SHOWN, Stream, collect, line, pipe
from pipeline.sandbox.process import Ending, reason_of
from pipeline.sandbox.report import MAX_REPORT, TestReport, read_report

_LAST_WORDS = 1.0


def check_calls(code: str, tests: PythonTests, limits: CodeLimits, way: Way, begun: float) -> CodeVerdict:
    """Run the tests in one sandbox and the program in another.

    Args:
        begun: monotonic seconds at which the time of the limits starts.

    Raises:
        InvalidRequestError: the tests are not Python or assert nothing.
    """
    deadline = begun + limits.wall_seconds
    with ExitStack() as stack:
        ours, theirs = socket.socketpair()
        out, out_write = pipe(stack)
        errors, errors_write = pipe(stack)
        said, said_write = pipe(stack)
        with ours, theirs:
            job = {"code": code, "script": False, "limits": asdict(limits), "channel": theirs.fileno()}
            program = start(
                way,
                Step("program", job),
                (theirs.fileno(),),
                limits,
                stdout=out_write.fileno(),
                stderr=errors_write.fileno(),
            )
            stack.callback(program.end)
            job = {
                "tests": tests.source,
                "entry": tests.entry,
                "limits": asdict(limits),
                "channel": ours.fileno(),
                "report": said_write.fileno(),
            }
            tester = start(way, Step("tester", job), (ours.fileno(), said_write.fileno()), limits)
            stack.callback(tester.end)
        for descriptor in (out_write, errors_write, said_write):
            descriptor.close()
        output = Stream(out, limits.output_bytes)
        noise = Stream(errors, limits.output_bytes)
        told = Stream(said, MAX_REPORT, last=True)
        in_time = collect([output, noise, told], deadline)
        overflowed = output.overflowed or noise.overflowed
        if in_time and not overflowed:
            tester_ending, program_ending = tester.end(), program.end()
            collect([output, noise], deadline)  # what the program had printed before the tests ended
            overflowed = output.overflowed or noise.overflowed
        else:
            # Without the program the tests end at once, and tell which of them had held.
            program_ending = program.end()
            collect([told], time.monotonic() + _LAST_WORDS)
            tester_ending = tester.end()
    report = read_report(bytes(told.content))
    if report.unusable is not None:
        raise InvalidRequestError(f"tests can not be used: {report.unusable}", field="tests")
    reason, message = _decide(report, in_time, overflowed, program_ending, tester_ending, limits)
    return CodeVerdict(
        passed=reason is CodeReason.PASSED,
        reason=reason,
        outcomes=report.outcomes,
        message=line(message),
        output=output.text()[:MAX_SHOWN],
        truncated=overflowed,
        seconds=time.monotonic() - begun,
    )


def _decide(
    report: TestReport, in_time: bool, overflowed: bool, program: Ending, tester: Ending, limits: CodeLimits
) -> tuple[CodeReason, str]:
    if overflowed:
        return CodeReason.OUTPUT, f"printed more than {limits.output_bytes} bytes"
    if not in_time:
        return CodeReason.TIMEOUT, f"not done after {limits.wall_seconds:g} s"
    if report.stopped is not None and report.stopped[0] is None:
        return reason_of(program, limits, report.stopped[1])
    failure = report.first_failure()
    if failure is not None:
        return failure
    if report.stopped is not None:
        return report.stopped[0] or CodeReason.ERROR, report.stopped[1]
    if not report.ended:
        return reason_of(tester, limits, "the tests ended early")
    if not report.outcomes or not all(report.outcomes):
        return (
            CodeReason.ERROR,
            f"{report.outcomes.count(False)} of {len(report.outcomes)} tests were not reached",
        )
    return CodeReason.PASSED, ""
