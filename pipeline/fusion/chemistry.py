r"""Chemical formulas and reactions: H2O, H₂O, H_2O and \ce{H2O} are one, HO2 is another.

A formula is compared by its parts in their order, so that isomers stay apart. In plain text the digit before a final
sign is the charge of a lone element (Ca2+, Fe3+), and of several digits the last one is (SO42-); in NH4+ it counts.
"""

from __future__ import annotations

import re

_TABLE = """
H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb
Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Sm Eu Gd Tb Dy Ho Er Tm Yb Lu Hf
Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu
"""
_ELEMENTS = frozenset(_TABLE.split())
MAX_FORMULA = 80
MAX_REACTION = 300
_FONT = re.compile(r"\\(?:ce|mathrm|text|textrm|rm|mathsf)\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_COUNT = re.compile(r"_\{(\d{1,3})\}|_?(\d{1,3})")
_CHARGE = re.compile(r"\^\{\s*(\d?)\s*([+-])\s*\}$|\^(\d?)([+-])$|(?<=[\w)}])(\d?)([+-])$")
_ELEMENT = re.compile(r"[A-Z][a-z]?")
_COEFFICIENT = re.compile(r"\d{1,3}(?=[A-Z(\[])")
_HYDRATE = re.compile(r"\s*(?:(?:\*|\\cdot)\s*(?=\d{0,2}[A-Z])|\.\s*(?=\d{1,2}[A-Z]))")
_STATE = re.compile(r"\s*(?:\((?:aq|s|l|g)\)|[↑↓]|\\uparrow|\\downarrow)")
_ARROW = re.compile(
    r"\s*(?:\\(?:long)?rightarrow(?![a-z])|\\to(?![a-z])|\\rightleftharpoons|<?[-=]+>|[→⟶⇌]|={1,2})\s*"
)
_CHOSEN = re.compile(r"\d+[CP]_?\{?\d+\}?")
"""Ways to choose: 5C2."""
_PLUS = re.compile(r"\s*\+\s*(?=\d{0,3}[A-Z(])")


def chemical_key(text: str) -> str | None:
    """The key of a formula that counts something or is charged, or of a reaction; else ``None``."""
    if len(text) > MAX_REACTION or not any(map(str.isupper, text)):
        return None
    bare = text
    for _ in range(3):
        bare = _FONT.sub(r"\1", bare)
    sides = _ARROW.split(bare)
    if len(sides) == 2:
        # An equals sign alone is no arrow: F = 10N.
        return _reaction(sides) if "+" in bare or not re.search(r"(?<!=)==?(?!=)", bare) else None
    if _CHOSEN.fullmatch(bare) is not None:
        return None
    formula = _formula(bare)
    return f"chem:{formula}" if formula and not formula.isalpha() else None


def _reaction(sides: list[str]) -> str | None:
    named = [[_formula(_STATE.sub("", part)) for part in _PLUS.split(side.strip())] for side in sides]
    found = [[formula for formula in side if formula] for side in named]
    if any(len(here) != len(there) for here, there in zip(found, named, strict=True)):
        return None
    if not any(map(str.isdigit, "".join(formula.rpartition(" ")[2] for side in found for formula in side))):
        return None
    return "reaction:" + " -> ".join(" + ".join(sorted(side)) for side in found)


def _formula(text: str) -> str | None:
    """One formula in plain characters, ``None`` for what is none."""
    text = text.strip()
    if not text or len(text) > MAX_FORMULA:
        return None
    if (coefficient := _COEFFICIENT.match(text)) is not None:
        rest = _formula(text[coefficient.end() :])
        return rest and f"{int(coefficient.group())} {rest}"
    charge = ""
    if (found := _CHARGE.search(text)) is not None:
        amount, sign = next((found[at] or "", found[at + 1]) for at in (1, 3, 5) if found[at + 1])
        body = text[: found.start()]
        if found[6] and amount and body not in _ELEMENTS and not body[-1:].isdigit():
            body, amount = body + amount, ""
        text, charge = body, f"^{amount if amount != '1' else ''}{sign}"
    parts = [_part(part) for part in _HYDRATE.split(text)]
    return "*".join(part or "" for part in parts) + charge if all(parts) else None


def _part(text: str) -> str | None:
    """Elements and groups with their counts."""
    ahead = re.match(r"\d{1,2}(?=[A-Z])", text)
    written = [ahead.group()] if ahead else []
    at = ahead.end() if ahead else 0
    opened: list[str] = []
    while at < len(text):
        char = text[at]
        if char in "([":
            opened.append(char)
            written.append("(")
            at += 1
            continue
        if char in ")]":
            if not opened or written[-1] == "(":
                return None
            opened.pop()
            symbol, at = ")", at + 1
        elif (found := _ELEMENT.match(text, at)) is not None:
            symbol = found.group() if found.group() in _ELEMENTS else char
            at += len(symbol)
            if symbol not in _ELEMENTS:
                return None
        else:
            return None
        count = _COUNT.match(text, at)
        if count is not None:
            number = count.group(1) or count.group(2)
            if number.startswith("0") or number == "1":
                # Nobody writes these counts: P_1V_1 is a product.
                return None
            at = count.end()
            symbol += number
        written.append(symbol)
    return "".join(written) if written and not opened else None
