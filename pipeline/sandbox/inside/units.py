"""Test code taken apart into tests that are counted one by one.

A test is a statement with an assertion directly in the module or directly in a function ``check``; a whole function
``test…``; a method ``test…`` of a class. Each becomes ``with __test__(number):``, which notes how it ended.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

MARK = "__test__"
PROGRAM_NAMES = frozenset({"solution", "candidate", "main", "program"})
"""Modules by which test code may import the program."""
MAX_LABEL = 120


@dataclass(slots=True)
class TestCode:
    """Test code, ready to run.

    Attributes:
        tree: the module with every test marked.
        labels: one line a test.
        missing: names that the tests use and neither bind nor import.
        checks: functions of one argument that take the program's entry point and that nothing calls yet.
        functions: test functions without arguments.
        classes: classes with test methods.
    """

    tree: ast.Module
    labels: list[str] = field(default_factory=list[str])
    missing: set[str] = field(default_factory=set[str])
    checks: list[str] = field(default_factory=list[str])
    functions: list[str] = field(default_factory=list[str])
    classes: list[str] = field(default_factory=list[str])


def take_apart(source: str) -> TestCode:
    """Find and mark the tests of a source.

    Raises:
        SyntaxError: it is not Python; also for what is too deep or holds a null byte.
    """
    try:
        tree = ast.parse(source, "<tests>")
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or type(error).__name__) from error
    tests = TestCode(tree)
    asserting = {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and _asserts(node)}
    helpers = {name for name in asserting if not name.startswith("test") and name != "check"}
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    body: list[ast.stmt] = []
    for node in tree.body:
        if _is_program_import(node) or _is_runner(node):
            continue
        if isinstance(node, ast.FunctionDef) and _takes_candidate(node):
            node.body = [_unit(tests, item) if _is_unit(item, helpers) else item for item in node.body]
            if node.name not in called:
                tests.checks.append(node.name)
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            _whole(tests, node)
            tests.functions.append(node.name)
        elif isinstance(node, ast.ClassDef):
            methods = [
                item
                for item in node.body
                if isinstance(item, ast.FunctionDef) and item.name.startswith("test")
            ]
            for method in methods:
                _whole(tests, method)
            if methods:
                tests.classes.append(node.name)
        elif _is_unit(node, helpers):
            body.append(_unit(tests, node))
            continue
        body.append(node)
    tree.body = body
    ast.fix_missing_locations(tree)
    tests.missing = _missing(tree)
    return tests


def _asserts(node: ast.AST) -> bool:
    return any(isinstance(item, ast.Assert) for item in ast.walk(node))


def _is_unit(node: ast.stmt, helpers: set[str]) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    calls = (item.func for item in ast.walk(node) if isinstance(item, ast.Call))
    return _asserts(node) or any(isinstance(call, ast.Name) and call.id in helpers for call in calls)


def _takes_candidate(node: ast.FunctionDef) -> bool:
    arguments = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args)]
    return len(arguments) == 1 and (node.name == "check" or arguments == ["candidate"])


def _is_program_import(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import):
        return all(name.name in PROGRAM_NAMES and name.asname is None for name in node.names)
    return isinstance(node, ast.ImportFrom) and node.module in PROGRAM_NAMES


def _is_runner(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and ast.unparse(node).startswith("unittest.main(")


def _unit(tests: TestCode, node: ast.stmt) -> ast.stmt:
    return _marked(tests, ast.unparse(node), [node])


def _whole(tests: TestCode, node: ast.FunctionDef) -> None:
    node.body = [_marked(tests, node.name, node.body)]


def _marked(tests: TestCode, label: str, body: list[ast.stmt]) -> ast.With:
    number = ast.Constant(len(tests.labels))
    tests.labels.append(" ".join(label.split())[:MAX_LABEL])
    call = ast.Call(ast.Name(MARK, ast.Load()), [number], [])
    return ast.copy_location(ast.With([ast.withitem(call)], body), body[0])


def _missing(tree: ast.Module) -> set[str]:
    loaded: set[str] = set()
    bound: set[str] = {MARK}
    for node in ast.walk(tree):
        match node:
            case ast.Name(name, ast.Load()):
                loaded.add(name)
            case ast.Name(name, _) | ast.arg(name) | ast.ExceptHandler(name=str(name)):
                bound.add(name)
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                bound.add(name)
            case ast.alias(name, other):
                bound.add(other or name.partition(".")[0])
            case _:
                pass
    return loaded - bound
