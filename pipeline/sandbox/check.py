"""Whether a program passes its tests.

The program and its tests run in two sandboxes. The tests' side holds what is expected and compares; the program's side
only answers calls with plain values, or prints. So the most that a program can forge is an answer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pipeline.fusion.code_tests import PythonTests, parse_tests
from pipeline.fusion.code_verdict import CodeLimits, CodeReason, CodeVerdict
from pipeline.sandbox.boundary import Way, available
from pipeline.sandbox.calls import check_calls
from pipeline.sandbox.scripts import check_output

MAX_CODE = 200_000
"""Characters of a program."""
DEFAULT_LIMITS = CodeLimits()


def check_code(
    code: str | None, tests: str, limits: CodeLimits = DEFAULT_LIMITS, *, way: Way | None = None
) -> CodeVerdict:
    """Run a program against tests.

    Args:
        code: Python source, without fences; ``None`` when a sample holds none.
        tests: in one of the documented forms (see docs/reference.md).
        way: how the boundary is drawn; the first that works here when left out.

    Raises:
        InvalidRequestError: the tests can not be used; names the field ``tests``.
        SandboxUnavailableError: nothing on this machine can confine a program; none was run.
    """
    begun = time.monotonic()
    form = parse_tests(tests)
    if code is None or not code.strip():
        return CodeVerdict(False, CodeReason.NO_CODE, message="no program")
    if len(code) > MAX_CODE:
        return CodeVerdict(False, CodeReason.REFUSED, message=f"a program of more than {MAX_CODE} characters")
    try:
        code.encode()
    except UnicodeEncodeError:
        return CodeVerdict(False, CodeReason.REFUSED, message="a program with half a surrogate pair")
    chosen = way or available()
    if isinstance(form, PythonTests):
        return check_calls(code, form, limits, chosen, begun)
    return check_output(code, form, limits, chosen, begun)


def check_all(
    jobs: Sequence[tuple[str | None, str]], limits: CodeLimits = DEFAULT_LIMITS, *, workers: int | None = None
) -> list[CodeVerdict]:
    """``check_code`` for many pairs of program and tests, as many at once as there are cores; in the same order.

    Raises:
        InvalidRequestError, SandboxUnavailableError: as ``check_code``, of the first job that has one.
    """
    with ThreadPoolExecutor(workers or len(os.sched_getaffinity(0)), "sandbox") as pool:
        futures = [pool.submit(check_code, code, tests, limits) for code, tests in jobs]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
