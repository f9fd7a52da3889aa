"""Where a sample's text states its final answer.

Three tiers, each tried only when the one before finds nothing, and in each the last one wins:

1. an explicit marker: ``\\boxed{}``, ``\\fbox{}``, ``####``, "the answer is", "Answer:", 答案是, 选C;
2. emphasis and conclusions: bold, "So …", "Therefore …", 所以…, "D is correct", 选项D正确;
3. no marker at all: a short text is its own answer, else what its sentences state (``sentences``).

A text that was cut (``finish_reason`` ``length`` or ``timeout``) has an answer only where a marker is
complete: a closed box, or a statement whose end is in the text. A box that never closes is an unfinished
thought whatever came before it, so there is no answer then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.fusion.code import last_fence
from pipeline.fusion.sentences import stated, tidy

LONGEST_TEXT = 40_000
"""Characters. Of a longer text only the end is read: that is where answers are."""
LAST_MARKERS = 20
"""Of each kind of marker so many are looked at, from the end."""
LONGEST_STATEMENT = 600
"""Characters after a marker in which its sentence has to end."""

_CUT = ("length", "timeout")
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![A-Za-z])\s*")
_BRACE = re.compile(r"\\.|[{}]", re.S)
_SPACE_BOX = re.compile(r"[^\s${},;]+")
_HASHES = re.compile(r"^[ \t]*#{4}(?!#)[ \t]*(\S.*)$", re.M)
_HASHED_NUMBER = re.compile(r"[-+$¥￥€£]?[\d.,]*\d(?:[\d.,/]*\d)?\s*[%°]?[A-Za-z一-鿿]{0,12}$")
_PHRASE = re.compile(
    r"""(?:
      \b(?:final|correct|right|our|my|the|best)?[ ]*(?:answers?|solutions?|results?|roots)[ ]*[*_]{0,3}[ ]*
        (?:(?:to|for)[ ](?:the|this|your)[ ](?:question|problem)[ ])?
        (?:is|are|:|：|=|would[ ]be|must[ ]be|equals)(?![A-Za-z])
        (?:[ ]not[ ][^.,;\n]{1,60},?[ ]but(?![A-Za-z]))?
      |(?:答案|选项|结果)不是[^，,。；\n]{1,40}[，,]?(?:而是|是)
      |\b(?:choose|pick|select)[ ](?=(?:option|choice|answer)?[ ]?\(?[A-J]\b)
      |\b(?:correct[ ])?(?:option|choice)[ ](?:is|:)
      |(?:最终|最后|正确|参考|标准)?(?:答案|选项|结果)[ ]*[*_]{0,3}[ ]*
        (?:应该是|应该为|应当是|应为|应是|就是|即为|是|为|选|[:：=])
      |(?:故|应|因此|所以|正确|本题|此题)(?:本题|此题)?应?选(?:择)?(?=[ ]*[:：]?[ ]*[(（]?[A-J])
      |^[ \t]*答[:：]
      |^[#*_ \t]*(?:final[ ])?answer[*_ \t]*$
    )[ ]*[:：]?[ ]*[*_]{0,3}[ ]*[:：]?""",
    re.X | re.I | re.M,
)
_FINAL = re.compile(r"[^\n]{0,12}?(?:answer|答)", re.I)
_NOT_AN_ANSWER = re.compile(
    r"(?:not|correct|incorrect|wrong|right|reasonable|verified|valid|as follows|based on|in the form|unclear|"
    r"given|found|obtained|therefore|consistent|正确|错误|不|合理)\b|(?:正确|错误|不对|不正确|合理)",
    re.I,
)
_BOLD = re.compile(r"\*\*(?!\s)((?:(?!\*\*).){1,200}?)\*\*")
_HEADING = re.compile(
    r"(?:step|note|given|solution|explanation|reason|case|part|question|problem|check|method|first|second|third|"
    r"步骤|第.{1,3}步|注意|解|已知|分析|题目|方法)\b|.*[:：]$|(?:步骤|第.{1,3}步|解)",
    re.I,
)
_CONCLUSION = re.compile(
    r"(?:(?:^|(?<=[.!?。！？\n]))[ \t]*[*_]{0,3}(?:in total|altogether|in conclusion|consequently|finally|最后|最终)"
    r"|(?:^|(?<=[.!?。！？\n,，]))[ \t]*[*_]{0,3}(?:so|therefore|thus|hence|所以|因此|因而|故|综上所述|综上|于是))"
    r"(?![A-Za-z])[,，:：]?",
    re.I,
)
_DIGIT = re.compile(r"\d")
_OPTION = re.compile(
    r"(?<![A-Za-z\\])[(（]?([A-H])[)）]?(?: ?(?:选项|项)? ?(?:是|为)?正确的?(?![吗？?])"
    r"|\s+is\s+(?:the\s+)?(?:correct|right)(?:\s+(?:answer|option|choice|one))?(?=[*_]*(?:[.!,;:\s]|\Z))(?!\s+[a-z]))"
)
"""选项D正确, option D is correct."""
_SENTENCE_END = re.compile(
    r"\n|[。！？!?；;]|(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bDr)(?<!\bSt)(?<!\bProf)\.(?=\s|$|[*_)])"
)
_CLAUSE = re.compile(
    r",? (?:because|since|which|as we|so that|and not|rather than|instead of)\b|, not\b|"
    r"\s\(not\b|[，,]而?不是|，?(?:因为|由于)|，(?=即|所以|也就是)"
)
_ADVERB = re.compile(r"^(?:therefore|thus|hence|then|simply|just|clearly|indeed|either|equal to),? +", re.I)
_GLOSS = re.compile(r"(?<=[\d%])\s+\((?!mod\b)[A-Za-z]{3,}[^()=+*/^]{0,60}\)$")
"""A number said again in words: 5 (five)."""
_SAID_ZH = re.compile(
    r"[^\d，,]{1,20}?(?:一共|总共|共)?(?:有|是|为|需要?|剩下?|花了?|等于|得到?)(?=\d|[-$￥]\d)(?P<amount>[^，,]{1,20})"
)
_FORMULA = re.compile(r"\$\$?[^$\n]{1,400}\$\$?|\\\(.{1,400}?\\\)|\\\[.{1,400}?\\\]", re.S)
_THINKING = re.compile(r"<(think|thinking|reasoning)>.*?(?:</\1>|(\Z))", re.S | re.I)


@dataclass(frozen=True, slots=True)
class _Found:
    start: int
    text: str
    complete: bool = True


def extract_answer(text: str, finish_reason: str = "stop") -> str | None:
    """The final answer that a sample's text states, or ``None``: it abstains.

    ``finish_reason`` is why generation ended, a value of ``events.FinishReason``. Never raises.
    """
    cut = str(finish_reason) in _CUT
    spoken = _without_thinking(text[-LONGEST_TEXT:])
    if spoken is None:
        return None
    boxes = list(_boxes(spoken))
    if boxes and not boxes[-1].complete:
        return None
    explicit = [*boxes, *_hashes(spoken), *_phrases(spoken)]
    usable = [found for found in explicit if found.text and (found.complete or not cut)]
    if usable:
        return max(usable, key=lambda found: found.start).text
    return None if cut else _unmarked(spoken)


def final_statements(text: str, finish_reason: str = "stop") -> tuple[str, ...]:
    """Every final answer that a text states by a marker, in order; a text that contradicts itself states several.

    "The result is" is left out: it introduces intermediate results as well. Never raises.
    """
    cut = str(finish_reason) in _CUT
    spoken = _without_thinking(text[-LONGEST_TEXT:])
    if spoken is None:
        return ()
    phrases = [each for each in _phrases(spoken) if _FINAL.match(spoken, each.start)]
    found = sorted([*_boxes(spoken), *_hashes(spoken), *phrases], key=lambda each: each.start)
    return tuple(each.text for each in found if each.text and (each.complete or not cut))


def _without_thinking(text: str) -> str | None:
    """The text after its thinking; ``None`` when the thinking never ended."""
    for match in _THINKING.finditer(text):
        if match.group(2) is not None:
            return None
    return _THINKING.sub("", text)


def _boxes(text: str) -> Iterator[_Found]:
    closing = closing_braces(text)
    starts = [match.start() for match in _BOX.finditer(text)]
    for place, match in enumerate(_BOX.finditer(text)):
        start = match.end()
        if text[start : start + 1] == "{":
            end = closing.get(start)
            following = starts[place + 1] if place + 1 < len(starts) else len(text)
            if end is None:
                yield _Found(match.start(), "", complete=False)
            elif following > end:
                # A box in a box, as some models write it, is read at the inner one.
                yield _Found(match.start(), tidy(_unwrapped(text[start + 1 : end])))
        elif (bare := _SPACE_BOX.match(text, start)) is not None:
            yield _Found(match.start(), tidy(bare.group()))


def closing_braces(text: str) -> dict[int, int]:
    """Where each brace that opens is closed, in one pass; escaped braces don't count."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for match in _BRACE.finditer(text):
        if match.group() == "{":
            opened.append(match.start())
        elif match.group() == "}" and opened:
            pairs[opened.pop()] = match.start()
    return pairs


def _unwrapped(inner: str) -> str:
    # Inside a box an unescaped dollar is a stray delimiter, not a currency.
    return re.sub(r"(?<!\\)\$", "", inner)


def _hashes(text: str) -> Iterator[_Found]:
    end = len(text.rstrip())
    for match in _HASHES.finditer(text):
        content = match.group(1).strip()
        # Four hashes are also a heading of level 4.
        if match.end() >= end or _HASHED_NUMBER.match(content):
            yield _Found(match.start(), tidy(content), match.end() < len(text))


def _phrases(text: str) -> Iterator[_Found]:
    for match in list(_PHRASE.finditer(text))[-LAST_MARKERS:]:
        start = match.end()
        while text[start : start + 1] in ("\n", " ", "\t", "\r"):
            start += 1
        content, complete = _statement(text, start)
        if _BOX.search(content):
            continue
        content = _first_clause(content)
        if content and not _NOT_AN_ANSWER.match(content):
            said = _SAID_ZH.fullmatch(content) if match.group().lstrip().startswith("答") else None
            yield _Found(match.start(), stated(said["amount"] if said else content), complete)


def _statement(text: str, start: int) -> tuple[str, bool]:
    """From ``start`` to the end of its sentence, and whether that end is in the text."""
    formula = _FORMULA.match(text, start)
    if formula is not None and text[formula.end() : formula.end() + 1] in ("", ".", "\n", "。", "*"):
        return formula.group(), formula.end() < len(text)
    limit = start + LONGEST_STATEMENT
    end = _SENTENCE_END.search(text, start, limit + 1)
    if end is None:
        return text[start:limit].strip(), False
    return text[start : end.start()].strip(), True


def _first_clause(content: str) -> str:
    content = _ADVERB.sub("", _CLAUSE.split(content, maxsplit=1)[0].strip())
    return _GLOSS.sub("", content)


def _unmarked(text: str) -> str | None:
    fence = last_fence(text)
    if fence is not None:
        return fence.strip() or None
    emphatic = [*_bolds(text), *_conclusions(text), *_options(text)]
    if emphatic:
        return max(emphatic, key=lambda found: found.start).text
    return stated(text) or None


def _bolds(text: str) -> Iterator[_Found]:
    for match in list(_BOLD.finditer(text))[-LAST_MARKERS:]:
        content = match.group(1).strip()
        if len(content) <= 80 and not _HEADING.match(content):
            answer = tidy(content)
            if answer:
                yield _Found(match.start(), answer)


def _options(text: str) -> Iterator[_Found]:
    for match in list(_OPTION.finditer(text))[-LAST_MARKERS:]:
        # Where figures follow it was a step: "Way B is correct. Then 3 * 4 = 12."
        if _DIGIT.search(text, match.end()) is None:
            yield _Found(match.start(), match.group(1))


def _conclusions(text: str) -> Iterator[_Found]:
    for match in list(_CONCLUSION.finditer(text))[-LAST_MARKERS:]:
        content, _ = _statement(text, match.end())
        answer = stated(content)
        if answer:
            yield _Found(match.start(), answer)
