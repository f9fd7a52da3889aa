"""The program and the tests that a sample's text holds."""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass

from pipeline.fusion.code import closed_fences, extract_code

MAX_OWN_TESTS = 50
"""Assertions of one sample that are used; more are as many votes for one sample's idea of the task."""


@dataclass(frozen=True, slots=True)
class _Block:
    source: str
    tree: ast.Module | None

    @property
    def defined(self) -> set[str]:
        body = self.tree.body if self.tree else []
        return {
            node.name
            for node in body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        }


def extract_program(text: str, entry: str | None = None, finish_reason: str = "stop") -> str | None:
    """The program of a sample, without the assertions at its top level.

    Of several fenced blocks it is the last that defines ``entry``; without one the longest that defines anything,
    the later of two equal ones; else the last. A text without fences is the program as a whole.

    Returns:
        Source, or ``None`` when there is none or it was cut before its end.
    """
    blocks = [_block(content) for content in closed_fences(text)]
    if not blocks:
        whole = extract_code(text, finish_reason)
        return _without_assertions(_block(whole)) if whole else None
    wanted = [block for block in blocks if entry is not None and entry in block.defined]
    defining = [block for block in blocks if block.defined - {"check"}]
    if wanted:
        chosen = wanted[-1]
    elif defining:
        chosen = max(enumerate(defining), key=lambda item: (len(item[1].source), item[0]))[1]
    else:
        chosen = blocks[-1]
    return _without_assertions(chosen) or None


def own_tests(text: str) -> tuple[str, ...]:
    """The assertions that stand at the top level of a sample's code, each once, in order, in one layout."""
    found: dict[str, None] = {}
    for content in closed_fences(text) or [text]:
        tree = _block(content).tree
        for node in tree.body if tree else []:
            if isinstance(node, ast.Assert):
                found[ast.unparse(node)] = None
    return tuple(found)[:MAX_OWN_TESTS]


def _block(content: str) -> _Block:
    source = textwrap.dedent(content).strip("\n")
    try:
        return _Block(source, ast.parse(source))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _Block(source, None)


def _without_assertions(block: _Block) -> str:
    tree = block.tree
    if tree is None or not any(isinstance(node, ast.Assert) for node in tree.body):
        return block.source
    return ast.unparse(ast.Module([node for node in tree.body if not isinstance(node, ast.Assert)], []))
