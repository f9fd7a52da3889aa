"""Free text: the same words whatever their case, spacing, outer marks and punctuation."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"\\(?:text|mbox|mathrm|textbf|textit|mathbf|emph)\s*\{([^{}]*)\}")
_PUNCTUATION = re.compile(
    r"(?<!\d)[.,;:!?'\"…]|[.,;:!?'\"…](?!\d)|(?<=[A-Za-z])-(?=[A-Za-z])|[*_`](?=[A-Za-z*_`]|$)"
)
_COMMAND = re.compile(r"\s*(\\[A-Za-z]+)\s*")
_ARTICLE = re.compile(r"^(?:the|an?) (?=\w)")
_HANZI_SPACE = re.compile(r"(?<=[一-鿿])\s+|\s+(?=[一-鿿])")
_FORMULA_SPACE = re.compile(r"\s*([-+*/^=<>(){}\[\],|])\s*")


_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}|[一-鿿]")


def prose_key(text: str) -> str:
    """The words of a text; the text itself where nothing but marks would be left."""
    if any(map(str.isdigit, text)) and not _WORD.search(text):
        # A formula that nothing could read: its marks and letters mean something.
        return "".join(text.split())
    words = _COMMAND.sub(r" \1 ", " ".join(_MARKUP.sub(r"\1", text).split()))
    words = _PUNCTUATION.sub(lambda found: " " if found.group() == "-" else "", words)
    words = _HANZI_SPACE.sub("", _FORMULA_SPACE.sub(r"\1", " ".join(words.split()))).casefold()
    # An article goes only where a word follows: the choice "A" stays.
    words = _ARTICLE.sub("", words).strip()
    return words or " ".join(text.split())
