"""A pass that no program can forge, and what tests can be made of."""

# ruff: noqa: E501 - programs read best as they are
from __future__ import annotations

import json

import pytest

from pipeline.errors import InvalidRequestError
from pipeline.fusion import CodeLimits, CodeReason, check_code
from pipeline.sandbox.boundary import Way
from tests.integration.sandbox_ways import WAYS

pytestmark = pytest.mark.parametrize("way", WAYS)
TESTS = "assert f(1) == 2\nassert f(5) == 6"

FORGERIES = {
    "exit while loaded": "import sys\nsys.exit(0)",
    "SystemExit": "raise SystemExit",
    "quit": "quit()",
    "exit at once": "import os\nos._exit(0)",
    "exit in a call": "import os\ndef f(x): os._exit(0)",
    "exit politely in a call": "def f(x): raise SystemExit(0)",
    "a success line, then an error": "print('ALL TESTS PASSED')\nraise ValueError",
    "a report line": "import json\ndef f(x):\n    print(json.dumps(['test', 0, 'passed', '']), ['end', ''])\n    return 0",
    "equal to everything": "class E:\n    def __eq__(s, o): return True\n    __hash__ = None\ndef f(x): return E()",
    "a number equal to everything": "class E(int):\n    def __eq__(s, o): return True\n"
    "    def __ne__(s, o): return False\n    __hash__ = None\ndef f(x): return E(0)",
    "a class in place of a function": "class f:\n    def __init__(s, x): pass\n    def __eq__(s, o): return True",
    "assertions disarmed": "import builtins\nbuiltins.AssertionError = KeyError\ndef f(x): return 0",
    "unittest disarmed": "import unittest, unittest.case\n"
    "unittest.case.TestCase.assertEqual = lambda *a: None\ndef f(x): return 0",
    "built-ins of the tests": "def len(x): return 2\ndef all(x): return True\nf = lambda x: 0",
    "the report's pipe": (
        "import json, os\n"
        "def frame(o):\n    b = json.dumps(o).encode()\n    return len(b).to_bytes(4, 'big') + b\n"
        "def f(x):\n    for fd in range(3, 64):\n        try:\n"
        "            os.write(fd, frame(['test', 0, 'passed', '']) + frame(['test', 1, 'passed', '']) + frame(['end', '']))\n"
        "        except OSError: pass\n    os._exit(0)"
    ),
    "the caller's frame": (
        "import gc, inspect\n"
        "def f(x):\n"
        "    for info in inspect.stack():\n"
        "        for value in [*info.frame.f_locals.values(), *info.frame.f_globals.values()]:\n"
        "            if isinstance(value, str) and 'assert f' in value: return int(value.split('== ')[x > 1][0])\n"
        "    for value in gc.get_objects():\n"
        "        if isinstance(value, list) and any(isinstance(i, str) and i.startswith('assert f') for i in value): return 2\n"
        "    return 0"
    ),
    "memory of the tests": (
        "import re\ndef f(x):\n    for pid in range(1, 20):\n        try: data = open(f'/proc/{pid}/mem', 'rb').read(9)\n"
        "        except OSError: continue\n    return 0"
    ),
    "json replaced": 'import json\njson.dumps = lambda *a, **k: \'["value", {"value": ["handle", 0]}]\'\ndef f(x): return 0',
    "atexit and destructors": (
        "import atexit, os\natexit.register(os._exit, 0)\n"
        "class D:\n    def __del__(s): os._exit(0)\nd = D()\ndef f(x): return 0"
    ),
    "a signal's handler": "import os, signal\nsignal.signal(15, lambda *a: os._exit(0))\nos.kill(os.getpid(), 15)",
    "answers in advance": (
        "import json, os\nfor fd in range(3, 64):\n    try:\n"
        "        b = json.dumps(['value', {'value': True}]).encode()\n"
        "        for _ in range(9): os.write(fd, len(b).to_bytes(4, 'big') + b)\n    except OSError: pass\n"
    ),
    "an assertion of its own": "def f(x): raise AssertionError('passed')",
    "an argument changed": "def f(x): return None",
}


@pytest.mark.parametrize("code", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forgery_does_not_pass(way: Way, code: str) -> None:
    verdict = check_code(code, TESTS, way=way)
    assert not verdict.passed
    assert verdict.reason is not CodeReason.PASSED
    assert verdict.tests_passed == 0
    assert check_code("def f(x): return x + 1", TESTS, way=way).passed


def test_a_class_can_not_answer_for_a_function_by_its_methods(way: Way) -> None:
    code = "class f:\n    def __init__(s, x): pass\n    def startswith(s, p): return True"
    verdict = check_code(code, "assert f(1).startswith('a')", way=way)
    assert (verdict.passed, verdict.reason) == (False, CodeReason.ERROR)


def test_a_test_that_swallows_every_error_swallows_no_broken_answer(way: Way) -> None:
    tests = "try:\n    assert f(1) == 2\nexcept Exception:\n    pass"
    assert not check_code("def f(x): return object()", tests, way=way).passed
    assert not check_code("import os\ndef f(x): os._exit(0)", tests, way=way).passed


@pytest.mark.parametrize(
    "code", ['def solve(x): raise ValueError("no")\nsolve(1)', "raise SystemExit", "import os\nos._exit(0)"]
)
def test_nothing_printed_is_a_pass_only_of_a_program_that_reached_its_end(way: Way, code: str) -> None:
    tests = json.dumps([{"stdin": "", "stdout": ""}])
    verdict = check_code(code, tests, way=way)
    assert (verdict.passed, verdict.reason) == (False, CodeReason.ERROR)
    assert check_code("x = 1", tests, way=way).passed


def test_an_exception_is_not_an_empty_answer(way: Way) -> None:
    verdict = check_code('def solve(x): raise ValueError("no")', 'assert solve(1) == ""', way=way)
    assert (verdict.passed, verdict.reason) == (False, CodeReason.ERROR)
    assert "ValueError: no" in verdict.message


def test_input_and_output(way: Way) -> None:
    tests = json.dumps([{"input": "2 3\n", "output": "5\n"}, {"stdin": "4 5", "stdout": "9"}])
    add = "a, b = map(int, input().split())\nif __name__ == '__main__': print(a + b)\nexit()"
    assert check_code(add, tests, way=way).outcomes == (True, True)
    half = check_code("print(5)", tests, way=way)
    assert (half.outcomes, half.reason) == ((True, False), CodeReason.WRONG_ANSWER)


def test_each_assertion_counts_and_none_hides_the_next(way: Way) -> None:
    verdict = check_code(
        "def f(x): return 2", "assert f(1) == 2\nassert f(5) == 6\nassert f(0) == 2", way=way
    )
    assert (verdict.outcomes, verdict.tests_failed, verdict.tests_total) == ((True, False, True), 1, 3)
    assert verdict.message.startswith("test 2 of 3, assert f(5) == 6")


CLASS_CODE = (
    "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"
    "    def pop(self): return self.items.pop()\n    def __len__(self): return len(self.items)\n"
    "def top(stack): return stack.items[-1]\nclass EmptyError(ValueError): pass\n"
    "def fail(): raise EmptyError('empty')\ndef tidy(items): items.sort()\n"
    "def squares(n):\n    for i in range(n): yield i * i"
)


@pytest.mark.parametrize(
    "tests",
    [
        "def check(candidate):\n    assert candidate([1]) is None\ncheck(tidy)",
        "def test_one():\n    s = Stack()\n    s.push(3)\n    assert len(s) == 1 and top(s) == 3 and s.pop() == 3",
        "import unittest\nclass TestIt(unittest.TestCase):\n    def setUp(self): self.s = Stack()\n"
        "    def test_push(self):\n        self.s.push(1)\n        self.assertEqual(self.s.items, [1])\nunittest.main()",
        "try:\n    fail()\n    assert False\nexcept ValueError as error:\n    assert 'empty' in str(error)",
        "items = [3, 1, 2]\ntidy(items)\nassert items == [1, 2, 3]",
        "from solution import squares\nimport solution\nassert list(squares(4)) == [0, 1, 4, 9] == list(solution.squares(4))",
        "def agree(n, wanted):\n    assert list(squares(n)) == wanted\nagree(1, [0])\nagree(2, [0, 1])",
    ],
    ids=["check", "function", "unittest", "exception", "in-place", "import", "helper"],
)
def test_forms_of_python_tests(way: Way, tests: str) -> None:
    verdict = check_code(CLASS_CODE, tests, way=way)
    assert verdict.passed, verdict.message
    broken = check_code("def unrelated(): pass", tests, way=way)
    assert (broken.passed, broken.tests_passed) == (False, 0)


@pytest.mark.parametrize(
    "value",
    [
        "(1, [2.5, -0.0], {'a': {1, 2}}, b'x', None, True, 1j, 10**50, frozenset({3}), range(3))",
        "float('inf')",
        "'\\ud800'",
    ],
)
def test_values_arrive_as_they_are(way: Way, value: str) -> None:
    assert check_code("def f(x): return x", f"assert repr(f({value})) == repr({value})", way=way).passed


def test_functions_that_the_tests_take_from_the_program_or_from_a_record(way: Way) -> None:
    code = "def helper(x): return x\ndef double(x): return helper(2 * x)"
    check = "def check(candidate):\n    assert candidate(2) == 4\n    assert helper(1) == 1"
    assert check_code(code, check, way=way).passed
    assert check_code(code, "assert candidate(2) == 4", way=way).passed
    assert not check_code(code, json.dumps({"test": check, "entry_point": "helper"}), way=way).passed
    calls = {"fn_name": "double", "inputs": [[1], [2]], "outputs": [2, 5]}
    assert check_code(code, json.dumps(calls), way=way).outcomes == (True, False)


@pytest.mark.parametrize(
    "tests", ["assert (", "x = 1", " ", '[{"stdin": 1}]', "[" * 100_000, "assert " + "(" * 5000]
)
def test_unusable_tests_are_the_requests_mistake(way: Way, tests: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_code("def f(x): return x", tests, way=way)
    assert caught.value.field == "tests"


@pytest.mark.parametrize(
    "tests",
    [
        "while True: pass\nassert f(1) == 2",
        "import os\nos._exit(0)\nassert f(1)",
        "assert f(1) == 2\nraise SystemExit",
    ],
)
def test_tests_that_do_not_end_as_tests_pass_nothing(way: Way, tests: str) -> None:
    assert not check_code("def f(x): return x + 1", tests, CodeLimits(wall_seconds=2), way=way).passed


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (None, CodeReason.NO_CODE),
        (" \n", CodeReason.NO_CODE),
        ("#" * 200_001, CodeReason.REFUSED),
        ("'\ud800'", CodeReason.REFUSED),
        ("def f(", CodeReason.ERROR),
    ],
)
def test_what_can_not_be_run_says_why(way: Way, code: str | None, reason: CodeReason) -> None:
    verdict = check_code(code, TESTS, way=way)
    assert (verdict.passed, verdict.reason) == (False, reason)
    assert verdict.message
