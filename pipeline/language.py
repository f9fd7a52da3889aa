"""Which of the two languages that Tallystream writes in fits a text."""

from __future__ import annotations

import re
from enum import StrEnum

_HAN = re.compile(r"[\u3400-\u9fff]")
_KANA = re.compile(r"[\u3040-\u30ff]")
_LATIN_WORD = re.compile(r"[A-Za-z]{2,}")


class Language(StrEnum):
    """A language of prompt paths and clarifying questions."""

    ENGLISH = "en"
    CHINESE = "zh"


def language_of(text: str) -> Language:
    """By script: Chinese when there are at least as many Han characters as Latin words, and no kana; else English."""
    han = len(_HAN.findall(text))
    if han and not _KANA.search(text) and han >= len(_LATIN_WORD.findall(text)):
        return Language.CHINESE
    return Language.ENGLISH
