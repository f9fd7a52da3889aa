"""A small grammar of algebra, LaTeX and plain, read into trees. Nothing is evaluated here, and nothing is ever eval'ed.

sum     = product (("+" | "-") product)*
product = signed (("*" | "/" | nothing) signed)*
power   = postfix ("^" signed)?
postfix = atom ("!" | "%" | "°")*
atom    = number | mixed number | symbol | constant | function | \\frac | \\sqrt | \\binom | "(" sum ")" | "|" sum "|"
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from pipeline.fusion.notations import spelled_out

MAX_LENGTH = 1_000
MAX_DEPTH = 40
MAX_NESTED = 60
"""Of atoms in atoms, brackets and functions: a few frames of the interpreter each."""
MAX_HEIGHT = 150
"""Of a tree, which is walked by recursion; a product of n factors is n high."""
MAX_DIGITS = 1_000


class NotAlgebraError(ValueError):
    """The text is not in the grammar, or larger than it reads."""


@dataclass(frozen=True, slots=True)
class Num:
    value: Fraction


@dataclass(frozen=True, slots=True)
class Sym:
    name: str


@dataclass(frozen=True, slots=True)
class Op:
    name: str
    args: tuple[Node, ...]


Node = Num | Sym | Op

CONSTANTS = frozenset({"pi", "e", "i"})
_FUNCTIONS = frozenset(
    [
        "sin",
        "cos",
        "tan",
        "cot",
        "sec",
        "csc",
        "arcsin",
        "arccos",
        "arctan",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "ln",
        "log",
        "lg",
        "exp",
        "sqrt",
        "abs",
        "cbrt",
        "floor",
        "ceil",
    ]
)
_ALIASES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "lg": "log"}
_GREEK = frozenset(
    [
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "varepsilon",
        "zeta",
        "eta",
        "theta",
        "vartheta",
        "iota",
        "kappa",
        "lambda",
        "mu",
        "nu",
        "xi",
        "rho",
        "sigma",
        "tau",
        "upsilon",
        "phi",
        "varphi",
        "chi",
        "psi",
        "omega",
        "Gamma",
        "Delta",
        "Theta",
        "Lambda",
        "Xi",
        "Sigma",
        "Phi",
        "Psi",
        "Omega",
    ]
)
_NUMBER = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d{1,5}(?![\d.]))?|\.\d+(?:[eE][+-]?\d{1,5}(?![\d.]))?")
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_LETTERS = re.compile(r"[A-Za-z]+")
_ACCENTS = ("vec", "hat", "bar", "tilde", "overrightarrow")
_ACCENTED = re.compile(r"\s*(?:\{\s*([A-Za-z]{1,2})\s*\}|([A-Za-z])(?![A-Za-z]))")
_SUBSCRIPT = re.compile(r"_(?:\{([A-Za-z0-9]{1,10})\}|([A-Za-z0-9]))")
_REPEATING = re.compile(r"\\overline\s*\{(\d{1,20})\}")
_DOTTED = re.compile(r"\\dot\s*\{?(\d)\}?(?:(\d*)\\dot\s*\{?(\d)\}?)?")
_CHOSEN = re.compile(r"_\{?(\d{1,3})\}?\s*\^\s*\{?(\d{1,3})\}?|\^\{?(\d{1,3})\}?\s*_\s*\{?(\d{1,3})\}?")
FACTORS = frozenset(
    {"abc", "acb", "bac", "bca", "cba", "xyz", "xzy", "yxz", "yzx", "zxy", "zyx", "pqr", "mnk"}
)
"""Runs of three letters that are products and no words."""
_SIMPLE_FRACTION = re.compile(r"\\[dtc]?frac\s*(?:\{\s*\d+\s*\}\s*\{\s*\d+\s*\}|\d\s*\d|\d\s*\{\s*\d+\s*\})")
_SPACED_MIXED = re.compile(r"[ ]+\d+[ ]*/[ ]*\d+")
_WORDS = frozenset(
    [
        "at",
        "an",
        "in",
        "of",
        "to",
        "no",
        "on",
        "is",
        "it",
        "as",
        "or",
        "by",
        "be",
        "we",
        "he",
        "me",
        "my",
        "up",
        "so",
        "do",
        "go",
        "if",
        "am",
        "pm",
        "vs",
        "us",
    ]
)


def parse(text: str) -> Node:
    """The tree of an expression.

    Raises:
        NotAlgebraError: it is not one.
    """
    if len(text) > MAX_LENGTH:
        raise NotAlgebraError("too long")
    parser = _Parser(spelled_out(text))
    node = parser.sum()
    parser.skip()
    if parser.at < len(parser.text):
        raise NotAlgebraError(f"left over at {parser.at}")
    if _higher_than(node, MAX_HEIGHT):
        raise NotAlgebraError("too deep")
    return node


def _higher_than(node: Node, height: int) -> bool:
    level = [node]
    for _ in range(height):
        level = [arg for each in level if isinstance(each, Op) for arg in each.args]
        if not level:
            return False
    return True


def symbols(node: Node) -> frozenset[str]:
    """The free symbols of a tree."""
    match node:
        case Sym(name):
            return frozenset() if name in CONSTANTS else frozenset({name})
        case Op(_, args):
            return frozenset(name for arg in args for name in symbols(arg))
        case Num():
            return frozenset()


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.nested = 0
        self.bars = 0
        self.raised = 0

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t\n":
            self.at += 1

    def take(self, *marks: str) -> str | None:
        self.skip()
        for mark in marks:
            if self.text.startswith(mark, self.at):
                after = self.text[self.at + len(mark) : self.at + len(mark) + 1]
                if mark[-1].isalpha() and after.isalpha():
                    continue
                self.at += len(mark)
                return mark
        return None

    def need(self, *marks: str) -> None:
        if self.take(*marks) is None:
            raise NotAlgebraError(f"expected {marks[0]} at {self.at}")

    def found(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.skip()
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotAlgebraError("too deep")
        terms = [self.product()]
        while (sign := self.take("+", "-")) is not None:
            term = self.product()
            terms.append(term if sign == "+" else Op("neg", (term,)))
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Op("add", tuple(terms))

    def product(self) -> Node:
        node = self.signed()
        while True:
            if self.text.startswith("**", self.at):
                raise NotAlgebraError("dangling power")
            if (sign := self.take("*", "/", "\\cdot", "\\times", "\\div", "\\ast")) is not None:
                node = Op("div" if sign in ("/", "\\div") else "mul", (node, self.signed()))
            elif self.starts_factor():
                node = Op("mul", (node, self.power()))
            else:
                return node

    def starts_factor(self) -> bool:
        self.skip()
        rest = self.text[self.at : self.at + 12]
        if not rest:
            return False
        if rest[0].isdigit():
            # In 2^x3^y the exponent is one letter, as in LaTeX, and a factor follows; so in 2!3!.
            before = self.text[self.raised - 1 : self.raised]
            return (before in ("}", "!") or before.isalpha()) and not self.text[self.raised : self.at].strip()
        if rest[0] == "|":
            return self.bars == 0
        if rest[0] == "\\":
            command = _COMMAND.match(rest)
            return rest.startswith(("\\{", "\\lvert", "\\lfloor", "\\lceil")) or (
                command is not None
                and not command.group(1).startswith(("pm", "mp", "rvert", "rfloor", "rceil"))
            )
        return rest[0].isalpha() or rest[0] in "({["

    def signed(self) -> Node:
        signs = 0
        while (sign := self.take("-", "+")) is not None:
            signs += sign == "-"
        node = self.power()
        return Op("neg", (node,)) if signs % 2 else node

    def power(self) -> Node:
        base = self.postfix()
        if self.text.startswith("^\\circ", self.at) or self.take("^", "**") is None:
            return base
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotAlgebraError("too deep")
        exponent = self.signed()
        self.depth -= 1
        self.raised = self.at
        if self.take("!") is not None:
            return Op("fact", (Op("pow", (base, exponent)),))
        return Op("pow", (base, exponent))

    def postfix(self) -> Node:
        node = self.atom()
        while (mark := self.take("!", "%", "^{\\circ}", "^\\circ", "°")) is not None:
            node = Op({"!": "fact", "%": "percent"}.get(mark, "degrees"), (node,))
            self.raised = self.at if mark == "!" else self.raised
        return node

    def atom(self) -> Node:
        self.nested += 1
        if self.nested > MAX_NESTED:
            raise NotAlgebraError("too deep")
        node = self.atomic()
        self.nested -= 1
        return node

    def atomic(self) -> Node:
        if (number := self.found(_NUMBER)) is not None:
            return self.number(number.group())
        if (opening := self.take("(", "[", "\\{", "{")) is not None:
            bars, self.bars = self.bars, 0
            node = self.sum()
            self.bars = bars
            self.need({"(": ")", "[": "]", "\\{": "\\}", "{": "}"}[opening])
            return node
        for opening, closing, name in (
            ("|", "|", "abs"),
            ("\\lvert", "\\rvert", "abs"),
            ("\\lfloor", "\\rfloor", "floor"),
            ("\\lceil", "\\rceil", "ceil"),
        ):
            if self.take(opening) is not None:
                self.bars += opening == "|"
                node = self.sum()
                self.need(closing)
                self.bars -= opening == "|"
                return Op(name, (node,))
        if (command := self.found(_COMMAND)) is not None:
            return self.command(command.group(1))
        if (letters := self.found(_LETTERS)) is not None:
            return self.letters(letters.group())
        raise NotAlgebraError(f"nothing to read at {self.at}")

    def number(self, digits: str) -> Node:
        if len(digits) > MAX_DIGITS:
            raise NotAlgebraError("too many digits")
        exponent = re.search(r"[eE]([+-]?\d+)$", digits)
        if exponent is not None and abs(int(exponent.group(1))) > MAX_DIGITS:
            raise NotAlgebraError("exponent too large")
        value = Fraction(
            digits.rstrip(".") if exponent is None else digits.replace(".e", "e").replace(".E", "E")
        )
        if "." in digits and (repeating := self.found(_REPEATING)) is not None:
            places = len(digits.partition(".")[2])
            period = repeating.group(1)
            value += Fraction(int(period), (10 ** len(period) - 1) * 10**places)
        elif "." in digits and (dotted := self.found(_DOTTED)) is not None:
            places = len(digits.partition(".")[2])
            period = "".join(part or "" for part in dotted.groups())
            value += Fraction(int(period), (10 ** len(period) - 1) * 10**places)
        if digits.isdigit():
            if _SIMPLE_FRACTION.match(self.text, self.at) is not None:
                return Op("add", (Num(value), self.atom()))
            if (part := _SPACED_MIXED.match(self.text, self.at)) is not None:
                self.at = part.end()
                above, _, below = part.group().partition("/")
                if int(below) == 0:
                    raise NotAlgebraError("division by zero")
                return Num(value + Fraction(int(above), int(below)))
        return Num(value)

    def argument(self) -> Node:
        """A LaTeX argument: a group, or the one next character."""
        self.skip()
        if self.text.startswith("{", self.at):
            return self.atom()
        if (char := self.text[self.at : self.at + 1]).isdigit():
            self.at += 1
            return Num(Fraction(int(char)))
        if char.isalpha():
            self.at += 1
            return Sym(char)
        return self.atom()

    def command(self, name: str) -> Node:
        if name in ("frac", "dfrac", "tfrac", "cfrac"):
            return Op("div", (self.argument(), self.argument()))
        if name in ("binom", "dbinom", "tbinom"):
            return Op("binom", (self.argument(), self.argument()))
        if name == "sqrt" and self.take("[") is not None:
            index = self.sum()
            self.need("]")
            return Op("root", (self.argument(), index))
        if name in ("sqrt", "cbrt") and self.text[self.at : self.at + 1] != " ":
            return Op(name, (self.argument(),))
        if name in _FUNCTIONS:
            return self.function(name)
        if name == "pi":
            return Sym("pi")
        if name in _GREEK:
            return self.symbol(name)
        if name in _ACCENTS and (accented := self.found(_ACCENTED)) is not None:
            return self.symbol(f"{name} {accented.group(1) or accented.group(2)}")
        if name in ("mathrm", "text", "operatorname", "mathit") and (
            inner := self.found(re.compile(r"\s*\{\s*([A-Za-z]{1,6})\s*\}"))
        ):
            return self.letters(inner.group(1))
        raise NotAlgebraError(f"unknown command {name}")

    def letters(self, run: str) -> Node:
        if run in _FUNCTIONS:
            return self.function(run)
        if run == "pi":
            return Sym("pi")
        if run in _GREEK and len(run) > 2:
            return self.symbol(run)
        for name in _FUNCTIONS:
            # xsin(x), 2pi r without spaces: a function at the end of a short run of letters.
            if run.endswith(name) and len(name) > 1 and len(run) - len(name) == 1:
                self.at -= len(name)
                return self.symbol(run[0])
        if run in ("C", "A", "P") and (chosen := self.found(_CHOSEN)) is not None:
            # As China writes combinations and permutations: the whole below, the part above.
            n, k = (int(each) for each in chosen.groups() if each)
            if chosen.group(3):
                n, k = k, n
            ways = Op("binom", (Num(Fraction(n)), Num(Fraction(k))))
            return ways if run == "C" else Op("mul", (ways, Op("fact", (Num(Fraction(k)),))))
        if (len(run) > 2 and run not in FACTORS) or run.lower() in _WORDS:
            raise NotAlgebraError(f"a word: {run}")
        self.at -= len(run) - 1
        return self.symbol(run[0])

    def symbol(self, name: str) -> Node:
        if (sub := _SUBSCRIPT.match(self.text, self.at)) is not None:
            self.at = sub.end()
            name = f"{name}_{sub.group(1) or sub.group(2)}"
        return Sym(name)

    def function(self, name: str) -> Node:
        name = _ALIASES.get(name, name)
        base = self.argument() if name == "log" and self.take("_") is not None else None
        raised = self.signed_exponent()
        self.skip()
        if self.text[self.at : self.at + 1] in ("(", "{", "[") or name in ("sqrt", "cbrt"):
            inner = self.postfix() if name in ("sqrt", "cbrt") else self.atom()
        else:
            inner = self.power()
            while self.starts_factor() and not self.starts_function():
                inner = Op("mul", (inner, self.power()))
        node = Op(name, (inner,) if base is None else (inner, base))
        if raised is None:
            return node
        if raised == Num(Fraction(-1)) or raised == Op("neg", (Num(Fraction(1)),)):
            return Op(f"arc{name}", (inner,))
        return Op("pow", (node, raised))

    def signed_exponent(self) -> Node | None:
        if self.take("^") is None:
            return None
        return self.argument() if not self.text.startswith("-", self.at) else self.signed()

    def starts_function(self) -> bool:
        self.skip()
        word = re.compile(r"\\?([A-Za-z]+)").match(self.text, self.at)
        return word is not None and word.group(1) in _FUNCTIONS
