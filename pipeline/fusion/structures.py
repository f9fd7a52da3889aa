"""Answers with parts: sets, lists, tuples, intervals, unions, matrices, equations, inequalities, plus-minus."""

from __future__ import annotations

import hashlib
import re
from fractions import Fraction

from pipeline.fusion.algebra import FACTORS, NotAlgebraError, Op, parse, symbols
from pipeline.fusion.calendar_time import moment_or_ratio
from pipeline.fusion.chemistry import chemical_key
from pipeline.fusion.choices import choice_key
from pipeline.fusion.compound import compound_key
from pipeline.fusion.evaluate import UnboundedError, charge, constant, linear_root, ratios, values
from pipeline.fusion.forms import Canonical, number_key
from pipeline.fusion.markup import cleaned
from pipeline.fusion.measures import measured
from pipeline.fusion.notations import GLUED
from pipeline.fusion.prose import prose_key
from pipeline.fusion.quantity import quantity
from pipeline.fusion.splitting import SEPARATORS, enclosed, split_top, without_braces

MAX_DEPTH = 6
MAX_PARTS = 200
PART_COST = 500
"""Of reading one part in all notations, in the units of ``evaluate``."""

_NAME = r"(?:[A-Za-z]|\\[A-Za-z]+)(?:_\{?\w{1,4}\}?)?"
_ASSIGNED = re.compile(rf"({_NAME})\s*(?:\(\s*[a-z](?:\s*,\s*[a-z])*\s*\))?\s*={{1,2}}\s*(.+)", re.S)
_LABELLED = re.compile(
    r"(\|?\s*(?:\\overline\s*\{)?[A-Z]{2,4}\}?\s*\|?|m?\s*\\angle\s*[A-Z]{1,3}|\\triangle\s*[A-Z]{3}|[A-Za-z]'*\s*\([^()]{1,20}\)"
    r"|[A-Za-z]{3,}(?:\s+[A-Za-z]+){0,3}|[一-鿿]{1,8}|[A-Za-z](?:_\{?\w{1,4}\}?)?(?=\s*:=))\s*:?=\s*([^=].*)",
    re.S,
)
"""What carries a value in words or geometry: AB = 5, P(A) = 1/3, total = 12, 面积 = 12."""
_COORDINATES = re.compile(rf"\(\s*{_NAME}(?:\s*,\s*{_NAME})+\s*\)\s*=\s*(\(.+\))", re.S)
_POINT = re.compile(r"(?:点|[Pp]oints?\s+)?\s*[A-Z]?'?\s*(?=\()")
_NAMED_POINT = re.compile(r"点?([A-Z])'?\s*(\([^()]*,[^()]*\))")
_REVERSED = re.compile(rf"([^=<>]*\d[^=<>]*)=\s*{_NAME}")
_MEMBER = re.compile(rf"{_NAME}(?:\s*,\s*{_NAME})*\s*\\in(?![A-Za-z])\s*(.+)", re.S)
_BUILDER = re.compile(
    rf"(?:\\\{{|\{{)\s*{_NAME}\s*(?:\\in\s*\\mathbb\{{?R\}}?\s*)?(?:\||:|\\mid|\\vert)\s*(.+?)\s*(?:\\\}}|\}})",
    re.S,
)
_MATRIX = re.compile(
    r"[\[(]?\s*\\begin\s*\{([pbBvV]?matrix|smallmatrix|array)\}(?:\{[lcr| ]*\})?(.*)\\end\s*\{\1\}\s*[\])]?",
    re.S,
)
_SYSTEM = re.compile(r"(?:\\\{)?\s*\\begin\s*\{cases\}(.*)\\end\s*\{cases\}", re.S)
_BASE = re.compile(r"\(?([0-9A-Za-z]+)\)?\s*_\s*\{?\s*\(?(\d{1,2})\)?\s*\}?")
_IN_TEXT = re.compile(r"\\(?:text|mathrm|textrm)\s*\{\s*([0-9A-Za-z]+)\s*\}")
_INFINITY = re.compile(r"([-+]?)\s*(?:\\infty|\\inf|infinity|inf|oo|无穷大?|正无穷|)", re.I)
_COMPARISON = re.compile(r"<=|>=|\\leqslant|\\geqslant|\\leq|\\geq|\\le(?![a-z])|\\ge(?![a-z])|\\lt|\\gt|<|>")
_UNEQUAL = re.compile(r"!=|\\neq?(?![a-z])")
_PLUS_MINUS = re.compile(r"\\pm|\+/-|\+-")
_PRODUCT = re.compile(r"[abckmnprtxyz]{2}")
_REALS = re.compile(r"(?:\\mathbb\s*\{?R\}?|all real numbers|all reals|全体实数|实数集)", re.I)
_EMPTY = re.compile(r"\\emptyset|\\varnothing|\\\{\s*\\\}|\{\s*\}|空集")


def structure(text: str, depth: int = 0) -> Canonical | None:
    """The form of a text that is mathematics or a list, else ``None``."""
    if depth > MAX_DEPTH or not text:
        return None
    charge(PART_COST)
    if _REALS.fullmatch(text):
        return Canonical("(-inf,inf)")
    if _EMPTY.fullmatch(text):
        return Canonical("{}")
    if (found := _BUILDER.fullmatch(text)) is not None:
        return structure(found.group(1).strip(), depth + 1)
    text = without_braces(text)
    for reader in (
        _system,
        _matrix,
        _member,
        _base,
        _chemical,
        _infinity,
        _quantity,
        _union,
        _joined,
        _bracketed,
        _compared,
        _equation,
        _plus_minus,
        _expression,
    ):
        found = reader(text, depth)
        if found is not None:
            return found
    return None


def _part(text: str, depth: int) -> Canonical:
    """The form of one part, whatever it is."""
    text = cleaned(text)
    choice = choice_key(text) or moment_or_ratio(text) or compound_key(text)
    if choice is not None:
        return Canonical(choice)
    return structure(text, depth + 1) or Canonical(f"t:{prose_key(text)}")


def _system(text: str, depth: int) -> Canonical | None:
    """Equations under each other: a list of them."""
    found = _SYSTEM.fullmatch(text)
    if found is None or "&" in found.group(1):
        return None
    rows = [row.strip(" ,;") for row in found.group(1).split("\\\\")]
    rows = [row for row in rows if row]
    if not rows or any("=" not in row for row in rows):
        return None
    return structure(", ".join(rows), depth + 1)


def _matrix(text: str, depth: int) -> Canonical | None:
    found = _MATRIX.fullmatch(text)
    if found is None:
        return None
    rows = [
        row
        for row in re.split(r"\\\\(?:\[\w+\])?|\\cr(?![A-Za-z])", found.group(2))
        if row.replace("\\hline", "").strip()
    ]
    if len(rows) > MAX_PARTS:
        return None
    cells = [";".join(_part(cell.strip(), depth).name for cell in row.split("&")) for row in rows]
    kind = "det" if found.group(1) == "vmatrix" else "matrix"
    return Canonical(f"{kind}[{'|'.join(cells)}]")


def _member(text: str, depth: int) -> Canonical | None:
    found = _MEMBER.fullmatch(text)
    return None if found is None else structure(found.group(1).strip(), depth + 1)


def _base(text: str, depth: int) -> Canonical | None:
    found = _BASE.fullmatch(_IN_TEXT.sub(r"\1", text) if "\\" in text else text)
    if found is None:
        return None
    digits, base = found.group(1), int(found.group(2))
    if not any(map(str.isdigit, digits)) and not (base == 16 and re.fullmatch(r"[A-Fa-f]{2,}", digits)):
        return None
    if base <= 10 and not digits.isdigit():
        return None
    return Canonical(f"base:{found.group(1).upper().lstrip('0') or '0'}_{int(found.group(2))}")


def _chemical(text: str, depth: int) -> Canonical | None:
    key = chemical_key(text)
    return None if key is None else Canonical(key)


def _infinity(text: str, depth: int) -> Canonical | None:
    found = _INFINITY.fullmatch(text.strip())
    if found is None or not text.strip("+- "):
        return None
    return Canonical("-inf" if found.group(1) == "-" else "inf")


def _quantity(text: str, depth: int) -> Canonical | None:
    found = quantity(text)
    if found is None:
        return None
    return Canonical(_constant_key(found.value), found.unit)


def _constant_key(value: Fraction | str) -> str:
    return number_key(value) if isinstance(value, Fraction) else f"r:{value}"


def _union(text: str, depth: int) -> Canonical | None:
    parts = split_top(text, re.compile(r"\\cup(?![A-Za-z])|(?<=[)\]])\s*(?:U|or)\s*(?=[(\[])"))
    if not 2 <= len(parts) <= MAX_PARTS:
        return None
    return _unordered([_part(part, depth) for part in parts])


def _unordered(forms: list[Canonical]) -> Canonical:
    """Parts without order; intervals side by side are their union."""
    names: list[str] = []
    for form in forms:
        # A list in a list (x = 1 ± 2 or 7) is one list.
        inner = form.key.startswith("list[")
        names.extend(form.key[5:-1].split(" ; ") if inner else [form.name])
    if len(names) == 1:
        return forms[0]
    return Canonical(f"list[{' ; '.join(sorted(names))}]")


def _joined(text: str, depth: int) -> Canonical | None:
    parts = split_top(text, SEPARATORS)
    if not 2 <= len(parts) <= MAX_PARTS:
        return None
    if any(not part.strip() for part in parts) or any(
        len(part.split()) > 4 and not re.search(r"[\\=<>+*/^]", part) for part in parts
    ):
        return None
    assigned = [_ASSIGNED.fullmatch(part.strip()) or _LABELLED.fullmatch(part.strip()) for part in parts]
    names = ["".join(found.group(1).split()) for found in assigned if found is not None]
    if len(names) == len(parts) and len(set(names)) == len(names):
        return _values(
            sorted(
                (name, (_measured(name, found.group(2)) or _part(found.group(2), depth)).name)
                for name, found in zip(names, assigned, strict=True)
                if found is not None
            )
        )
    points = [_NAMED_POINT.fullmatch(part) for part in parts]
    if any(point is not None and point.group(1) != "C" for point in points):
        parts = [part if point is None else point.group(2) for part, point in zip(parts, points, strict=True)]
    forms = [_part(part, depth) for part in parts]
    if re.search(r"\band\b|且|\\land", text) and (both := _between(forms)) is not None:
        return both
    return _unordered(forms)


def _values(pairs: list[tuple[str, str]]) -> Canonical:
    """Of names with their values, sorted."""
    if all(re.fullmatch(r"x_\{?\d\}?", name) for name, _ in pairs):
        # The roots of one equation, numbered as they came.
        return Canonical(f"list[{' ; '.join(sorted(value for _, value in pairs))}]")
    if [name for name, _ in pairs] in (["x", "y"], ["x", "y", "z"]):
        return Canonical(f"({','.join(value for _, value in pairs)})")
    return Canonical(f"values[{' ; '.join(f'{name}={value}' for name, value in pairs)}]")


def _between(forms: list[Canonical]) -> Canonical | None:
    """x > 1 and x < 5 is one interval."""
    lower = [form.key for form in forms if form.key.endswith(",inf)")]
    upper = [form.key for form in forms if form.key.startswith("(-inf,")]
    if len(forms) != 2 or len(lower) != 1 or len(upper) != 1:
        return None
    return Canonical(f"{lower[0].removesuffix(',inf)')},{upper[0].removeprefix('(-inf,')}")


def _bracketed(text: str, depth: int) -> Canonical | None:
    if (coordinates := _COORDINATES.fullmatch(text)) is not None:
        return _bracketed(coordinates.group(1), depth)
    if (label := _POINT.match(text)) is not None and label.end() > 0:
        point = _bracketed(text[label.end() :], depth)
        constant_ones = point is not None and all(map(_is_constant_name, point.key.strip("()").split(",")))
        return point if constant_ones and point is not None and "," in point.key else None
    found = enclosed(text)
    if found is None:
        return None
    opening, inner, closing = found
    parts = split_top(inner, re.compile(r"[,;]"))
    if len(parts) > MAX_PARTS or any(not part.strip() for part in parts):
        return None
    if opening == "{":
        forms = {_part(part, depth).name for part in parts}
        # A set of one is not its element; a set of more is the list of its elements.
        return Canonical(f"list[{' ; '.join(sorted(forms))}]" if len(forms) > 1 else f"{{{forms.pop()}}}")
    if len(parts) == 1:
        return structure(inner.strip(), depth + 1) if opening == "(" and closing == ")" else None
    names = [_part(part, depth).name for part in parts]
    if opening == "[" and closing == "]" and all(name.startswith("[") for name in names):
        return Canonical(f"matrix[{'|'.join(name[1:-1].replace(',', ';') for name in names)}]")
    return Canonical(f"{opening}{','.join(names)}{closing}")


def _compared(text: str, depth: int) -> Canonical | None:
    marks = [found.group() for found in _COMPARISON.finditer(text)]
    if not marks or len(marks) > 2 or enclosed(text) is not None:
        return _unequal(text, depth)
    sides = [side.strip() for side in _COMPARISON.split(text)]
    if not all(sides):
        return None
    signs = [
        ("<" if "<" in mark or "l" in mark else ">") + ("=" if "=" in mark or "e" in mark else "")
        for mark in marks
    ]
    if len(signs) == 2:
        if signs[0][0] != signs[1][0] or not re.fullmatch(_NAME, sides[1]):
            return None
        if signs[0][0] == ">":
            sides, signs = sides[::-1], signs[::-1]
        return _interval(sides[0], "=" in signs[0], sides[2], "=" in signs[1], depth)
    left, right, sign = sides[0], sides[1], signs[0]
    if re.fullmatch(_NAME, right) and not re.fullmatch(_NAME, left):
        left, right = right, left
        sign = sign.translate(str.maketrans("<>", "><"))
    closed = "=" in sign
    if (
        re.fullmatch(_NAME, left)
        and (bound := structure(right, depth + 1)) is not None
        and _is_constant(bound)
    ):
        if sign[0] == "<":
            return Canonical(f"(-inf,{bound.name}{']' if closed else ')'}")
        return Canonical(f"{'[' if closed else '('}{bound.name},inf)")
    if sign[0] == ">":
        left, right = right, left
    return _solved(left, right, closed=closed) or _difference(
        "leq" if closed else "less", left, right, keep_sign=True
    )


def _solved(lower: str, higher: str, *, closed: bool) -> Canonical | None:
    """The interval of lower < higher, both linear in one symbol: 2x < 6 is x < 3."""
    try:
        tree = Op("add", (parse(higher), Op("neg", (parse(lower),))))
        if len(symbols(tree)) != 1 or (found := linear_root(tree)) is None:
            return None
    except (NotAlgebraError, UnboundedError):
        return None
    root, rises = found
    if rises:
        return Canonical(f"{'[' if closed else '('}{number_key(root)},inf)")
    return Canonical(f"(-inf,{number_key(root)}{']' if closed else ')'}")


def _is_constant(form: Canonical) -> bool:
    return _is_constant_name(form.key)


def _is_constant_name(name: str) -> bool:
    return name.startswith(("n:", "q:", "r:", "inf", "-inf"))


def _interval(low: str, low_closed: bool, high: str, high_closed: bool, depth: int) -> Canonical | None:
    ends = [structure(side, depth + 1) for side in (low, high)]
    if any(end is None or not _is_constant(end) for end in ends):
        return None
    names = ",".join(end.name for end in ends if end is not None)
    return Canonical(f"{'[' if low_closed else '('}{names}{']' if high_closed else ')'}")


def _unequal(text: str, depth: int) -> Canonical | None:
    sides = [side.strip() for side in _UNEQUAL.split(text)]
    if len(sides) == 2 and re.fullmatch(_NAME, sides[0]):
        hole = structure(sides[1], depth + 1)
        if hole is not None and _is_constant(hole):
            # All numbers but one are two intervals.
            return _unordered([Canonical(f"(-inf,{hole.name})"), Canonical(f"({hole.name},inf)")])
    return _difference("unequal", sides[0], sides[1], keep_sign=False) if len(sides) == 2 else None


def _equation(text: str, depth: int) -> Canonical | None:
    if "=" not in text or enclosed(text) is not None:
        return None
    found = _ASSIGNED.fullmatch(text)
    if found is not None and (amount := _measured(found.group(1), found.group(2))) is not None:
        return amount
    if found is not None and not re.search(
        rf"(?<![A-Za-z\\]){re.escape(found.group(1))}(?![A-Za-z])", found.group(2)
    ):
        value = _last_side(found.group(2), depth)
        if value is None or not re.fullmatch(_NAME, found.group(2).strip()):
            return value
    if (
        (found := _LABELLED.fullmatch(text)) is not None
        and (value := _last_side(found.group(2), depth)) is not None
        and _is_constant(value)
    ):
        return value
    if (found := _REVERSED.fullmatch(text)) is not None:
        return structure(found.group(1).strip(), depth + 1)
    sides = [side.strip() for side in re.split(r"={1,2}", text)]
    if not all(sides):
        return None
    try:
        if not any(symbols(parse(side)) for side in sides):
            return structure(sides[-1], depth + 1)
    except NotAlgebraError:
        return None
    return _difference("equation", sides[0], sides[1], keep_sign=False) if len(sides) == 2 else None


def _measured(name: str, text: str) -> Canonical | None:
    measure = measured(name, text)
    amount = None if measure is None else quantity(measure)
    return None if amount is None else Canonical(_constant_key(amount.value), amount.unit)


def _last_side(text: str, depth: int) -> Canonical | None:
    """Of x = 2·3 = 6 the last side."""
    return _part(text.rpartition("=")[2].strip(), depth)


def _difference(kind: str, left: str, right: str, *, keep_sign: bool) -> Canonical | None:
    try:
        tree = Op("add", (parse(left), Op("neg", (parse(right),))))
        if not symbols(tree):
            return None
        names = ",".join(sorted(symbols(tree)))
        return Canonical(f"{kind}:{names}:{_hashed(ratios(tree, keep_sign=keep_sign))}")
    except (NotAlgebraError, UnboundedError):
        return None


def _plus_minus(text: str, depth: int) -> Canonical | None:
    if not _PLUS_MINUS.search(text):
        return None
    upper = _PLUS_MINUS.sub("+", text.replace("\\mp", "-"))
    lower = _PLUS_MINUS.sub("-", text.replace("\\mp", "+"))
    forms = [structure(side.strip().removeprefix("+").strip(), depth + 1) for side in (upper, lower)]
    known = [form for form in forms if form is not None]
    return _unordered(known) if len(known) == 2 else None


def _expression(text: str, depth: int) -> Canonical | None:
    try:
        tree = parse(text)
        if not symbols(tree):
            return Canonical(_constant_key(constant(tree)))
        if re.fullmatch(r"[A-Za-z]{2,}", text) and not _is_product(text):
            return None
        found = values(tree)
    except (NotAlgebraError, UnboundedError):
        return None
    if len(set(found)) == 1:
        return Canonical(_constant_key(found[0]))
    return Canonical(
        f"e:{_hashed(tuple(value if isinstance(value, str) else number_key(value) for value in found))}"
    )


def _is_product(letters: str) -> bool:
    """Whether a run of letters is algebra and no word."""
    return letters in FACTORS or bool(_PRODUCT.fullmatch(letters) or GLUED.fullmatch(letters))


def _hashed(parts: tuple[str, ...]) -> str:
    return hashlib.sha256("/".join(parts).encode()).hexdigest()[:32]
