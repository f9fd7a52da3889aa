"""The value of a tree, exact where it is rational, to 30 digits elsewhere, always bounded.

Expressions with symbols are compared by their values at fixed points (Schwartz-Zippel: two different
expressions agree there by accident with a chance that can be neglected). Where the value is rational the
arithmetic is exact. Elsewhere it runs in two precisions, and what differs between them is cancellation, so a
zero. Nothing large is evaluated: powers, factorials and rationals over a size raise, as does work over a
budget, so that a tower of powers costs nothing and no child process is needed. All evaluations of one answer,
say of the elements of a list, share a second budget (``metered``). Budgets count work and never look at a clock,
so the same answer has the same key on a slow machine and on a fast one.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache
from typing import Any

from mpmath.ctx_mp import MPContext  # pyright: ignore[reportMissingTypeStubs]

from pipeline.fusion.algebra import Node, Num, Op, Sym, symbols

MAX_BITS = 40_000
"""Of a numerator or denominator: 1/2006! fits, 10^100000 does not."""
WORK_BITS = 1_000_000
"""The sum of sizes of all exact results of one evaluation: about 50 ms at worst."""
MAX_MAGNITUDE = 20_000
"""Binary exponent of an inexact value, on either side of one."""
MAX_GAMMA = 200
"""Of what is no whole number, in a factorial or binomial."""
MAX_CHOSEN = 30
DIGITS = 30
POINTS = 3
POSITIVE = (0, 2, 3)
_PERIODIC = frozenset({"sin", "cos", "tan", "cot", "sec", "csc"})

_LOCK = threading.Lock()


def _context(bits: int) -> Any:
    context: Any = MPContext()
    context.prec = bits
    return context


_COARSE = _context(220)
_FINE = _context(330)

Value = Any
"""A Fraction, or a number of one mpmath context, which has no stubs."""


class UnboundedError(ArithmeticError):
    """Larger than is evaluated, or without a value."""


class OverBudgetError(ArithmeticError):
    """The evaluations of one answer cost more in all than it is granted."""


class _Meter:
    def __init__(self, granted: int) -> None:
        self.left = granted

    def charge(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise OverBudgetError("over the budget of one answer")


_METER: ContextVar[_Meter | None] = ContextVar("meter", default=None)


@contextmanager
def metered(granted: int) -> Generator[None]:
    """All evaluations inside cost at most ``granted`` units in all, of about a microsecond each.

    Raises:
        OverBudgetError: from the evaluation that goes over it.
    """
    token = _METER.set(_Meter(granted))
    try:
        yield
    finally:
        _METER.reset(token)


def charge(units: int) -> None:
    """Count work against the budget of the answer, if one is set.

    Raises:
        OverBudgetError: the budget is used up.
    """
    if (meter := _METER.get()) is not None:
        meter.charge(units)


def constant(node: Node) -> Fraction | str:
    """The value of a tree without symbols: a fraction, or its digits when it is irrational or complex.

    Raises:
        UnboundedError: it has no value or is too large.
    """
    with _LOCK:
        return _number(node, {})


def values(node: Node) -> tuple[Fraction | str, ...]:
    """The values of a tree at fixed points, one positive, one negative, one small.

    Raises:
        UnboundedError: at some point it has no value or is too large.
    """
    names = symbols(node)
    with _LOCK:
        found = _at(node, names, range(POINTS))
        logarithms = tuple(_logarithms(node))
        if not logarithms or all(isinstance(value, Fraction) for value in found):
            return found
        # ln x + ln y is ln xy where both are defined, so there the points are positive.
        found = tuple(_number(node, at) for at in _defined(node, logarithms, names))
        return (*found, "|") if _folded(logarithms, names) else found


def _at(node: Node, names: frozenset[str], points: Iterable[int]) -> tuple[Fraction | str, ...]:
    return tuple(_number(node, {name: _coordinate(name, point) for name in names}) for point in points)


def _defined(node: Node, logarithms: tuple[Op, ...], names: frozenset[str]) -> list[dict[str, Fraction]]:
    """Positive points where every logarithm is real: of ln(x - 1) far out, of ln cos x close by."""
    middle = [{name: _coordinate(name, point) for name in names} for point in POSITIVE]
    near = [{name: value / 4 for name, value in at.items()} for at in middle]
    far = [{name: 20 + 8 * value for name, value in at.items()} for at in middle]
    for points in (near, middle, far) if _operations(node) & _PERIODIC else (far, middle, near):
        inner = [_evaluated(each.args[0], at, _COARSE) for each in logarithms for at in points]
        if all(value.imag == 0 and _inexact(value, _COARSE).real > 0 for value in inner):
            return points
    return middle


def _operations(node: Node) -> frozenset[str]:
    if not isinstance(node, Op):
        return frozenset()
    return frozenset({node.name}).union(*map(_operations, node.args))


def _logarithms(node: Node) -> Iterator[Op]:
    """Every logarithm of something with symbols."""
    if isinstance(node, Op):
        if node.name in ("ln", "log") and symbols(node):
            yield node
        for arg in node.args:
            yield from _logarithms(arg)


def _folded(logarithms: tuple[Op, ...], names: frozenset[str]) -> bool:
    """Whether bars in a logarithm matter: ln|x| is defined where ln x is not, and ln|x^2+1| is ln(x^2+1)."""
    inner = [each for node in logarithms for each in _bars(node)]
    for point in (1, 4, 5, 6):
        at = {name: _coordinate(name, point) for name in names}
        for each in inner:
            value = _evaluated(each, at, _COARSE)
            if _inexact(value, _COARSE).real < 0:
                return True
    return False


def _bars(node: Node) -> Iterator[Node]:
    if isinstance(node, Op):
        if node.name == "abs":
            yield node.args[0]
        for arg in node.args:
            yield from _bars(arg)


def ratios(node: Node, *, keep_sign: bool) -> tuple[str, ...]:
    """The values over the first one that is not zero: the same for every multiple of an equation's difference."""
    names = symbols(node)
    with _LOCK:
        found = [
            _settled(
                *(_evaluated(node, {n: _coordinate(n, p) for n in names}, ctx) for ctx in (_COARSE, _FINE))
            )
            for p in range(POINTS)
        ]
        pivot = next((value for value in found if value != 0), None)
        if pivot is None:
            return ("0",) * POINTS
        scale = abs(pivot) if keep_sign else pivot
        return tuple(_digits(_inexact(value, _FINE) / _inexact(scale, _FINE)) for value in found)


def linear_root(node: Node) -> tuple[Fraction, bool] | None:
    """Where a linear tree in one symbol with rational coefficients is zero, and whether it rises; else ``None``.

    A tree that is no polynomial, or of a degree over one, fails at one of the further points.

    Raises:
        UnboundedError: it has no value at one of the points, or too large a one.
    """
    (name,) = symbols(node)
    points = (Fraction(0), Fraction(1), Fraction(-7, 3), Fraction(19, 5), Fraction(-101))
    with _LOCK:
        found = [_evaluated(node, {name: point}, _COARSE) for point in points]
    if not all(isinstance(value, Fraction) for value in found):
        return None
    start, slope = found[0], found[1] - found[0]
    if slope == 0 or any(start + slope * x != y for x, y in zip(points, found, strict=True)):
        return None
    return -start / slope, slope > 0


@lru_cache(maxsize=1024)
def _coordinate(name: str, point: int) -> Fraction:
    seed = hashlib.sha256(f"{name}/{point}".encode()).digest()
    above = 1 + int.from_bytes(seed[:2], "big")
    below = 1 + int.from_bytes(seed[2:4], "big")
    sign = -1 if point in (1, 5) else 1
    return sign * (Fraction(above, below) % 3 + Fraction(1, 7))


def _number(node: Node, at: dict[str, Fraction]) -> Fraction | str:
    coarse = _evaluated(node, at, _COARSE)
    if isinstance(coarse, Fraction):
        # Exact, whatever the precision.
        return coarse
    value = _settled(coarse, _evaluated(node, at, _FINE))
    if isinstance(value, Fraction):
        return value
    if (rational := _as_rational(value)) is not None:
        return rational
    return _digits(value)


def _evaluated(node: Node, at: dict[str, Fraction], context: Any) -> Value:
    try:
        return _Evaluator(at, context).of(node)
    except (ZeroDivisionError, OverflowError, ValueError, TypeError) as error:
        raise UnboundedError("no value") from error


def _settled(coarse: Value, fine: Value) -> Value:
    """The fine value, zero where the two precisions show that only cancellation is left."""
    if isinstance(fine, Fraction):
        return fine
    coarse, fine = _COARSE.mpmathify(coarse), _FINE.mpmathify(fine)
    parts = [
        _FINE.mpf(0) if abs(f - c) > abs(f) * _FINE.mpf(2) ** -120 and abs(f) < _FINE.mpf(2) ** -150 else f
        for c, f in ((coarse.real, fine.real), (coarse.imag, fine.imag))
    ]
    size = max(abs(parts[0]), abs(parts[1]))
    # The part of a complex value that is rounding noise beside the other.
    parts = [_FINE.mpf(0) if abs(part) < size * _FINE.mpf(2) ** -180 else part for part in parts]
    return parts[0] if parts[1] == 0 else _FINE.mpc(*parts)


def _as_rational(value: Value) -> Fraction | None:
    if value.imag != 0 or abs(value) > 2**60:
        return None
    shift = 200
    near = Fraction(int(_FINE.floor(_FINE.ldexp(value.real, shift))), 2**shift).limit_denominator(10**9)
    return near if abs(_inexact(near, _FINE) - value.real) < _FINE.mpf(2) ** -150 else None


def _digits(value: Value) -> str:
    if value.imag == 0:
        return str(_FINE.nstr(value.real, DIGITS))
    return f"{_FINE.nstr(value.real, DIGITS)},{_FINE.nstr(value.imag, DIGITS)}i"


def _inexact(value: Value, context: Any) -> Value:
    if isinstance(value, Fraction):
        return context.mpf(value.numerator) / value.denominator
    return value


class _Evaluator:
    def __init__(self, at: dict[str, Fraction], context: Any) -> None:
        self.at = at
        self.context = context
        self.work = 0

    def of(self, node: Node) -> Value:
        match node:
            case Num(value):
                return self.bounded(value)
            case Sym("pi"):
                return +self.context.pi
            case Sym("e"):
                return +self.context.e
            case Sym("i"):
                return self.context.mpc(0, 1)
            case Sym(name):
                return self.at[name]
            case Op(name, args):
                return self.bounded(self.apply(name, [self.of(arg) for arg in args]))

    def bounded(self, value: Value) -> Value:
        if isinstance(value, Fraction):
            bits = max(value.numerator.bit_length(), value.denominator.bit_length())
            self.work += bits
            charge(10 + bits // 30 + bits * bits // 50_000)
            if bits > MAX_BITS or self.work > WORK_BITS:
                raise UnboundedError("too large")
            return value
        self.work += 300
        charge(200)
        if self.work > WORK_BITS or not self.context.isfinite(value):
            raise UnboundedError("too large")
        if value != 0 and abs(self.context.mag(value)) > MAX_MAGNITUDE:
            raise UnboundedError("too large")
        return value

    def apply(self, name: str, args: list[Value]) -> Value:
        exact = all(isinstance(arg, Fraction) for arg in args)
        if not exact and name in ("add", "mul", "div"):
            args = [_inexact(arg, self.context) for arg in args]
        match name:
            case "add":
                total = args[0]
                for arg in args[1:]:
                    total = self.bounded(total + arg)
                return total
            case "mul":
                return args[0] * args[1]
            case "div":
                return args[0] / args[1]
            case "neg":
                return -args[0]
            case "percent":
                return self.apply("div", [args[0], Fraction(100)])
            case "degrees":
                return _inexact(args[0], self.context) * self.context.pi / 180
            case "pow":
                return self.power(args[0], args[1])
            case "sqrt":
                return self.power(args[0], Fraction(1, 2))
            case "cbrt":
                return self.root(args[0], Fraction(3))
            case "root":
                return self.root(args[0], args[1])
            case "fact":
                return self.factorial(args[0])
            case "binom":
                return self.binomial(args[0], args[1])
            case "abs":
                return abs(args[0])
            case "floor" | "ceil":
                return self.rounded(name, args[0])
            case _:
                return self.function(name, args)

    def power(self, base: Value, exponent: Value) -> Value:
        if isinstance(base, Fraction) and isinstance(exponent, Fraction):
            if exponent.denominator == 1:
                return self.integer_power(base, exponent.numerator)
            if (
                base >= 0
                and exponent.denominator <= 64
                and (root := _exact_root(base, exponent.denominator)) is not None
            ):
                return self.integer_power(root, exponent.numerator)
        if base == 0:
            return Fraction(0)
        if (
            isinstance(base, Fraction)
            and base < 0
            and isinstance(exponent, Fraction)
            and exponent.denominator % 2
        ):
            # x^{1/3} is the real root, as \\sqrt[3]{x} is.
            real = self.power(-base, exponent)
            return -real if exponent.numerator % 2 else real
        base, exponent = _inexact(base, self.context), _inexact(exponent, self.context)
        if abs(self.context.mag(base)) > MAX_MAGNITUDE or self.context.mag(exponent) > 20:
            raise UnboundedError("too large")
        if abs(exponent * self.context.log(base)) > MAX_MAGNITUDE:
            raise UnboundedError("too large")
        return self.context.power(base, exponent)

    def integer_power(self, base: Fraction, exponent: int) -> Fraction:
        if base in (0, 1):
            if base == 0 and exponent <= 0:
                raise UnboundedError("no value")
            return base
        if base == -1:
            return Fraction(-1 if exponent % 2 else 1)
        bits = max(base.numerator.bit_length(), base.denominator.bit_length())
        if abs(exponent) * bits > 2 * MAX_BITS:
            raise UnboundedError("too large")
        return base**exponent

    def root(self, value: Value, index: Value) -> Value:
        if not isinstance(index, Fraction) or index == 0:
            return self.power(value, 1 / index)
        if index.denominator == 1 and index.numerator % 2 and isinstance(value, Fraction) and value < 0:
            return -self.power(-value, 1 / index)
        return self.power(value, 1 / index)

    def factorial(self, value: Value) -> Value:
        if isinstance(value, Fraction) and value.denominator != 1 and abs(value) < MAX_GAMMA:
            # Of a symbol at a point: (n + 1)! is (n + 1) n! there as well.
            return self.context.gamma(_inexact(value + 1, self.context))
        if not isinstance(value, Fraction) or value.denominator != 1 or not 0 <= value <= 3_300:
            raise UnboundedError("factorial")
        self.work += 20_000
        return Fraction(math.factorial(value.numerator))

    def binomial(self, above: Value, below: Value) -> Value:
        if not (isinstance(above, Fraction) and isinstance(below, Fraction)):
            raise UnboundedError("binomial")
        if above.denominator != 1 and below.denominator == 1 and 0 <= below <= MAX_CHOSEN:
            return math.prod((above - k for k in range(int(below))), start=Fraction(1)) / math.factorial(
                int(below)
            )
        if above.denominator != 1 and max(abs(above), abs(below)) < MAX_GAMMA:
            return self.context.binomial(_inexact(above, self.context), _inexact(below, self.context))
        if above.denominator != 1 or below.denominator != 1 or not 0 <= below <= above <= 3_300:
            raise UnboundedError("binomial")
        self.work += 20_000
        return Fraction(math.comb(above.numerator, below.numerator))

    def rounded(self, name: str, value: Value) -> Fraction:
        if not isinstance(value, Fraction):
            raise UnboundedError("rounding of an irrational")
        return Fraction(math.floor(value) if name == "floor" else math.ceil(value))

    def function(self, name: str, args: list[Value]) -> Value:
        numbers = [_inexact(arg, self.context) for arg in args]
        if any(self.context.mag(number) > 60 for number in numbers if number != 0) and name not in (
            "ln",
            "log",
        ):
            raise UnboundedError("argument too large")
        match name:
            case "ln":
                return self.context.log(numbers[0])
            case "log":
                return self.context.log(numbers[0]) / self.context.log(numbers[1] if len(numbers) > 1 else 10)
            case "exp":
                return self.power(+self.context.e, args[0])
            case "arcsin" | "arccos" | "arctan":
                return getattr(self.context, name.replace("arc", "a"))(numbers[0])
            case "sin" | "cos" | "tan" | "cot" | "sec" | "csc" | "sinh" | "cosh" | "tanh":
                return getattr(self.context, name)(numbers[0])
            case _:
                raise UnboundedError(f"no such function: {name}")


def _exact_root(value: Fraction, index: int) -> Fraction | None:
    above, below = _integer_root(value.numerator, index), _integer_root(value.denominator, index)
    return None if above is None or below is None else Fraction(above, below)


def _integer_root(value: int, index: int) -> int | None:
    if value.bit_length() > 2_000:
        return None
    low, high = 0, 1 << (value.bit_length() // index + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**index <= value:
            low = middle
        else:
            high = middle - 1
    return low if low**index == value else None
