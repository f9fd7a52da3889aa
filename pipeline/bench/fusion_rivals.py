"""Pairs of answers with a known truth, compared by this project and as others compare: right, wrong and hung."""

from __future__ import annotations

import json
import multiprocessing
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from pipeline.bench.effort import Effort
from pipeline.bench.parts import Say
from pipeline.bench.rows import Row, single
from pipeline.settings import Settings

DATA: Final = Path(__file__).resolve().parents[2] / "tests" / "data"
"""In a checkout; a wheel does not carry it."""
SETS: Final[Mapping[str, Sequence[str]]] = {
    "pairs of reported failures": ("equivalence.jsonl",),
    "pairs of the same kinds": ("equivalence_more.jsonl", "equivalence_kinds.jsonl"),
}
"""The first are failures that others had; the second were thought up here, and this project was mended by them."""
_PATIENCE = 5.0
"""Seconds after which a comparison counts as hung, and its process is killed."""
_START = 60.0
_QUICK = 12

Compare = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two answers, and whether they say the same."""

    a: str
    b: str
    equal: bool


def equivalence(settings: Settings, effort: Effort, say: Say) -> Iterable[Row]:
    """Three rows a comparison and set; a pair is right if both directions are."""
    if not DATA.is_dir():
        yield Row(
            "equivalence of answers",
            None,
            "pairs",
            note="not measured; run it in a checkout: tests/data is absent",
        )
        return
    for called, files in SETS.items():
        pairs = [pair for file in files for pair in _pairs(DATA / file)]
        pairs = pairs if effort.repeats > 1 else pairs[:_QUICK]
        for name in _CONTENDERS:
            title = f"equivalence, {len(pairs)} {called}, both directions, {name}"
            if name == _MATH_VERIFY and find_spec("math_verify") is None:
                note = "not measured; install: pip install -c constraints.txt -e '.[bench]'"
                yield Row(f"{title}: right", None, "pairs", note=note)
                continue
            say(f"equivalence: {called}: {name}")
            outcomes = judged(name, pairs)
            for outcome in ("right", "wrong", "hung"):
                yield single(f"{title}: {outcome}", outcomes[outcome], "pairs")


def _pairs(file: Path) -> list[Pair]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [Pair(each["a"], each["b"], each["equal"]) for each in map(json.loads, lines)]


def judged(name: str, pairs: Sequence[Pair]) -> Counter[str]:
    """Compare every pair in a process that is killed when it hangs."""
    found: Counter[str] = Counter()
    left = list(pairs)
    while left:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        child = context.Process(target=_serve, args=(name, left, there))
        child.start()
        there.close()
        done = _follow(here, left, found)
        child.kill()
        child.join()
        left = left[done:]
    return found


def _follow(answers: Connection, pairs: Sequence[Pair], found: Counter[str]) -> int:
    """Count outcomes until the end or the first hang; returns how many pairs are settled."""
    patience = _START
    for place, pair in enumerate(pairs):
        try:
            said: tuple[bool, bool] | None = answers.recv() if answers.poll(patience) else None
        except EOFError:
            said = None
        if said is None:
            found["hung"] += 1
            return place + 1
        found["right" if said == (pair.equal, pair.equal) else "wrong"] += 1
        patience = _PATIENCE
    return len(pairs)


def _serve(name: str, pairs: Sequence[Pair], told: Connection) -> None:
    compare = _CONTENDERS[name]()
    for pair in pairs:
        told.send((_verdict(compare, pair.a, pair.b), _verdict(compare, pair.b, pair.a)))


def _verdict(compare: Compare, a: str, b: str) -> bool | None:
    try:
        return bool(compare(a, b))
    except Exception:
        return None  # which is neither right answer


def _ours() -> Compare:
    return import_module("pipeline.fusion").equivalent


def _math_verify() -> Compare:
    module: Any = import_module("math_verify")

    def parsed(text: str) -> Any:
        # Its parser reads LaTeX only between dollars, and plain expressions only without.
        return module.parse(text) or module.parse(f"${text}$")

    return lambda a, b: module.verify(parsed(a), parsed(b))


def _harness_exact_match() -> Compare:
    """As lm-evaluation-harness scores GSM8K: commas, dollars, a last point and case do not count."""

    def plain(text: str) -> str:
        return re.sub(r"[,$]|\.$", "", text.rpartition("#### ")[2].strip().lower())

    return lambda a, b: plain(a) == plain(b)


def _harness_normalised_match() -> Compare:
    return import_module("pipeline.bench.harness_match").normalised_match


_MATH_VERIFY: Final = "Math-Verify"
_CONTENDERS: Final[Mapping[str, Callable[[], Compare]]] = {
    "this project": _ours,
    _MATH_VERIFY: _math_verify,
    "exact match as for GSM8K in lm-evaluation-harness": _harness_exact_match,
    "normalised match as for MATH in lm-evaluation-harness": _harness_normalised_match,
}
