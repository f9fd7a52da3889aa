from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline
from pipeline import errors
from pipeline.errors import (
    DecodeError,
    DependencyDownError,
    InvalidRequestError,
    OverloadedError,
    TallystreamError,
)

ROOT = TallystreamError.__name__


def tree(root: type[TallystreamError]) -> Iterator[type[TallystreamError]]:
    yield root
    for child in root.__subclasses__():
        yield from tree(child)


DECLARED = [kind for kind in tree(TallystreamError) if kind.__module__ == errors.__name__]


def classes() -> Iterator[ast.ClassDef]:
    """Every class of the package, read and not imported: some need a heavy library."""
    for path in Path(pipeline.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                yield node


def code_of(node: ast.ClassDef) -> str | None:
    for line in node.body:
        match line:
            case (
                ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code)))
                | ast.AnnAssign(target=ast.Name(id="code"), value=ast.Constant(value=str(code)))
            ):
                return code
    return None


def whole_tree() -> dict[str, tuple[str, str | None]]:
    """Name to the name of its base and its own code, of every error that comes from the root."""
    known = {node.name: node for node in classes()}
    found: dict[str, tuple[str, str | None]] = {ROOT: ("", code_of(known[ROOT]))}
    for _ in known:
        for name, node in known.items():
            bases = [base.id for base in node.bases if isinstance(base, ast.Name) and base.id in found]
            if bases:
                found[name] = (bases[0], code_of(node))
    return found


def test_codes_are_unique_and_snake_case() -> None:
    codes = [code for _, code in whole_tree().values()]
    assert all(code and re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes), "a code of its own"
    assert len(set(codes)) == len(codes) >= len(DECLARED)


def test_the_drawing_is_the_whole_tree() -> None:
    drawn: dict[str, str] = {}
    above = [""]
    for indent, name in re.findall(r"^([│ ]*(?:[├└]── )?)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE):
        above[len(indent) // 4 + 1 :] = [name]
        drawn[name] = above[-2]
    assert drawn == {name: base for name, (base, _) in whole_tree().items()}


@pytest.mark.parametrize("kind", DECLARED)
def test_the_http_status_says_whose_fault_it_is(kind: type[TallystreamError]) -> None:
    assert 400 <= kind.http_status < 600
    assert (kind.http_status == 503) is issubclass(kind, DependencyDownError | OverloadedError)
    if issubclass(kind, InvalidRequestError | DecodeError):
        assert kind.http_status < 500
    if kind.retriable:
        assert kind.http_status >= 500 or kind.http_status in (408, 429)


def test_an_error_says_what_and_where() -> None:
    error = InvalidRequestError("n must be 1", field="n")
    assert (str(error), error.message, error.field) == ("n must be 1", "n must be 1", "n")
