"""What a plain sentence states, so that chatty samples can agree.

"7 + 5 = 12." states 12, "The capital of France is Paris." states Paris, as does "Paris is the capital of
France.". A text with arithmetic states the number that it ends on; a text without states what its first
sentence with a verb of being says.
"""

from __future__ import annotations

import re

from pipeline.fusion.measures import measured

SHORT_WORDS = 4
"""A text of at most this many words is its own answer."""

_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:(?:,|\{,\}|，|,\\!)\d{3})+(?:\.\d+)?")
_NUMBER = re.compile(
    r"(?<![A-Za-z\d_.])[-+−]?[$¥￥€£]?(?:\d{1,3}(?:[,，]\d{3})+(?!\d)|\d+)?(?:\.?\d+)?(?:\s?/\s?\d+)?(?:[eE][-+]?\d+)?%?(?![\d])"
)
_SENTENCES = re.compile(r"(?<=[.!?])\s+|[。！？\n]+")
_ARITHMETIC = re.compile(r"\d[\d,.]*\s*[-+*/×÷−]\s*[$]?\d|=|\\times|\\frac")
_COPULA = re.compile(r"\s(?:is|are|was|were|equals|will be|would be|=)\s", re.I)
_COPULA_ZH = re.compile(r"(?:等于|应该是|就是|一共有|共有|[是为])")
_VAGUE_HEAD = re.compile(
    r"(?:the|it|this|that|these|those|there|he|she|they|its|his|her|their|an?|what|which|here|answer)\b", re.I
)
_LAST_NAME = re.compile(r"(?<![A-Za-z\\])[A-Za-z](?=\s*$)")
_TRAILER = re.compile(
    r"(?:,\s|，|;|；|\s\(|\s(?:which|because|since|and it|when|where|who|whose|that is)\b).*$", re.S
)
_OUTER = ' \t\r\n.。,，;；:：!！"“”'


def tidy(answer: str) -> str:
    """An answer without emphasis, delimiters, closing punctuation, and thousands marks if it is one number."""
    text = answer.strip()
    for _ in range(8):
        before = text
        for mark in ("**", "__", "$$", "$", "`"):
            if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark):
                text = text[len(mark) : -len(mark)].strip()
        for opening, closing in (("\\(", "\\)"), ("\\[", "\\]")):
            if text.startswith(opening) and text.endswith(closing) and len(text) >= 4:
                text = text[2:-2].strip()
        text = (
            re.sub(r"(?:\*\*|__)+$|^(?:\*\*|__)+", "", text.strip()).rstrip(_OUTER).lstrip(" \t\r\n:：。，")
        )
        if text == before:
            break
    if _THOUSANDS.fullmatch(text):
        text = re.sub(r",\\!|\{,\}|[,，]", "", text)
    return text


def stated(text: str) -> str:
    """What a text without any marker states; empty when that is nothing."""
    whole = tidy(text)
    if not whole or _is_own_answer(whole):
        return whole
    sentences = [part for part in (tidy(part) for part in _SENTENCES.split(whole)) if part]
    if _ARITHMETIC.search(whole):
        for sentence in reversed(sentences):
            if (answer := _result_of(sentence)) is not None:
                return answer
    for sentence in sentences:
        if (answer := _predicate(sentence)) is not None:
            return answer
    for sentence in reversed(sentences):
        if numbers := numbers_in(sentence):
            return numbers[-1]
    return tidy(sentences[-1]) if sentences else ""


def numbers_in(text: str) -> list[str]:
    """Every number as it is written, without thousands marks."""
    return [tidy(found.group()) for found in _NUMBER.finditer(text) if any(map(str.isdigit, found.group()))]


def _is_own_answer(text: str) -> bool:
    if "\n" in text:
        return False
    if _is_formula(text):
        return "=" not in text or _lists_assignments(text)
    if re.search(r"[一-鿿]", text):
        return len(text) <= 8 and not _COPULA_ZH.search(text) and "=" not in text
    return len(text.split()) <= SHORT_WORDS and not _COPULA.search(f" {text} ") and "=" not in text


def _is_formula(text: str) -> bool:
    """No words but those that join formulas."""
    bare = re.sub(r"\\[A-Za-z]+|\b(?:or|and|sin|cos|tan|log|ln|exp|sqrt|pi|in)\b|[或和且]", " ", text)
    return re.search(r"[A-Za-z]{2,}|[一-鿿]|[.!?]\s", bare) is None


def _lists_assignments(text: str) -> bool:
    parts = re.split(r"\s*(?:,|，|;|\bor\b|\band\b|或|和|且|\\text\{ ?(?:or|and) ?\})\s*", text)
    return all(
        re.fullmatch(r"[A-Za-z](?:_\{?\w+\}?)?\s*=[^=]+", part.strip()) for part in parts if part.strip()
    )


def _result_of(sentence: str) -> str | None:
    """The value after the last equals sign, or the last number."""
    if _is_formula(sentence) and _lists_assignments(sentence):
        return sentence
    head, equals, tail = sentence.rpartition("=")
    if equals and head:
        value = tidy(_TRAILER.sub("", tidy(tail)))
        if value and _is_formula(value):
            name = _LAST_NAME.search(head)
            return (name and measured(name.group(), value)) or value
        if numbers := numbers_in(tail):
            return numbers[0]
    if (predicate := _copula_tail(sentence)) and (numbers := numbers_in(predicate)):
        return numbers[-1]
    numbers = numbers_in(sentence)
    return numbers[-1] if numbers else None


def _copula_tail(sentence: str) -> str | None:
    found = _COPULA.search(sentence) or _COPULA_ZH.search(sentence)
    return None if found is None else sentence[found.end() :]


def _predicate(sentence: str) -> str | None:
    """What a sentence with a verb of being says of its subject, whichever side the answer is on."""
    if (found := _COPULA.search(sentence)) is not None:
        head, tail = sentence[: found.start()], _TRAILER.sub("", sentence[found.end() :])
        named = not _VAGUE_HEAD.match(head.strip()) and len(head.split()) <= SHORT_WORDS
        described = re.match(r"\s*(?:the|an?)\b", tail, re.I) is not None
        if named and described:
            return tidy(head)
        if numbers := numbers_in(tail):
            return numbers[-1] if len(tail.split()) > 2 * SHORT_WORDS else tidy(tail)
        return tidy(tail) or None
    if (zh := _COPULA_ZH.search(sentence)) is not None:
        head, tail = sentence[: zh.start()], _TRAILER.sub("", sentence[zh.end() :])
        if "的" in tail and "的" not in head and head:
            return tidy(head)
        return tidy(tail) or None
    return None
