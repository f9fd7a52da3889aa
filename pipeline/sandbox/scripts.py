"""Tests of what the program prints: one sandbox for each input, compared here."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, cast

from pipeline.fusion.code_tests import OutputTests, same_output
from pipeline.fusion.code_verdict import CodeLimits, CodeReason, CodeVerdict
from pipeline.sandbox.boundary import Way, start
from pipeline.sandbox.bundle import Step, sealed
from pipeline.sandbox.collect import MAX_SHOWN, Stream, collect, line, pipe
from pipeline.sandbox.process import Ending, reason_of
from pipeline.sandbox.report import failure_of

_MAX_WORD = 65_536


def check_output(code: str, tests: OutputTests, limits: CodeLimits, way: Way, begun: float) -> CodeVerdict:
    """Run the program once for each input and compare what it prints.

    Args:
        begun: monotonic seconds at which the time of the limits starts; it is for all runs together.
    """
    deadline = begun + limits.wall_seconds
    outcomes: list[bool] = []
    first: tuple[CodeReason, str, Stream] | None = None
    shown = ""
    for number, (given, wanted) in enumerate(tests.cases, 1):
        reason, message, output = _run_script(code, given, wanted, limits, way, deadline)
        outcomes.append(reason is CodeReason.PASSED)
        shown = shown or output.text()[:MAX_SHOWN]
        if first is None and reason is not CodeReason.PASSED:
            first = (reason, f"test {number} of {len(tests.cases)}: {message}", output)
            shown = output.text()[:MAX_SHOWN]
        if reason in (CodeReason.TIMEOUT, CodeReason.OUTPUT):
            break  # the rest would most likely end so too, at the same price
    outcomes += [False] * (len(tests.cases) - len(outcomes))
    return CodeVerdict(
        passed=first is None,
        reason=first[0] if first else CodeReason.PASSED,
        outcomes=tuple(outcomes),
        message=line(first[1]) if first else "",
        output=shown,
        truncated=first is not None and first[0] is CodeReason.OUTPUT,
        seconds=time.monotonic() - begun,
    )


def _run_script(
    code: str, given: str, wanted: str, limits: CodeLimits, way: Way, deadline: float
) -> tuple[CodeReason, str, Stream]:
    with ExitStack() as stack:
        out, out_write = pipe(stack)
        errors, errors_write = pipe(stack)
        word, word_write = pipe(stack)
        stdin = stack.enter_context(sealed(given.encode("utf-8", "replace")))
        job = {"code": code, "script": True, "limits": asdict(limits), "channel": word_write.fileno()}
        program = start(
            way,
            Step("program", job),
            (word_write.fileno(),),
            limits,
            stdin=stdin.fileno(),
            stdout=out_write.fileno(),
            stderr=errors_write.fileno(),
        )
        stack.callback(program.end)
        for descriptor in (out_write, errors_write, word_write):
            descriptor.close()
        output = Stream(out, limits.output_bytes)
        noise = Stream(errors, limits.output_bytes)
        said = Stream(word, _MAX_WORD)
        # All streams end only when the sandbox has: its outer process holds them too.
        in_time = collect([output, noise, said], deadline)
        ending = program.end()
    if output.overflowed or noise.overflowed:
        return CodeReason.OUTPUT, f"printed more than {limits.output_bytes} bytes", output
    if not in_time:
        return CodeReason.TIMEOUT, f"not done after {limits.wall_seconds:g} s", output
    reason, message = _judge(bytes(said.content), ending, limits, bool(wanted.strip()))
    if reason is CodeReason.PASSED and not same_output(output.text(), wanted):
        return CodeReason.WRONG_ANSWER, "other output than expected", output
    return reason, message, output


def _judge(word: bytes, ending: Ending, limits: CodeLimits, prints: bool) -> tuple[CodeReason, str]:
    """How the run ended; ``PASSED`` is up to the output.

    Where nothing has to be printed the output proves nothing, so the program has to reach its last line.
    """
    match _outcome(word):
        case ["value", *_]:
            return CodeReason.PASSED, ""
        case ["exit", None | 0] if prints:
            return CodeReason.PASSED, ""
        case ["exit", status]:
            return CodeReason.ERROR, f"the program ends itself with status {status or 0}"
        case ["raised", str(kind), str(text), number]:
            return failure_of(kind, text, number)
        case _ if ending.status == 0 and prints:
            return CodeReason.PASSED, ""
        case _:
            return reason_of(ending, limits, "the program ended without reaching its last line")


def _outcome(word: bytes) -> list[Any]:
    try:
        outcome = json.loads(word[4 : 4 + int.from_bytes(word[:4], "big")])
    except (ValueError, RecursionError):
        return []
    return cast("list[Any]", outcome) if isinstance(outcome, list) else []
