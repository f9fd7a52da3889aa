"""From token ids to text as they come: never half a character, never part of a stop text."""

from __future__ import annotations

from typing import Any

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class Detokenizer:
    """Decodes one sample's tokens piece by piece.

    A token is decoded together with the ones before it, because a byte-level tokenizer cuts characters
    in two and a SentencePiece one drops a leading space. Text that ends in an incomplete character waits
    for the next token.

    Attributes:
        characters: how many are complete so far, those that wait included: where the next token's text begins.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.characters = 0
        self._pushed = 0
        self._ids: list[int] = []
        self._context_start = 0
        self._emitted_end = 0

    def push(self, token: int) -> str:
        """The text that ``token`` completes; often empty."""
        self._ids.append(token)
        text = self._unseen()
        self.characters = self._pushed + len(text.rstrip(_INCOMPLETE))
        if text.endswith(_INCOMPLETE):
            return ""
        self._pushed = self.characters
        if text:
            self._context_start, self._emitted_end = self._emitted_end, len(self._ids)
        return text

    def flush(self) -> str:
        """What is left at the end; a last incomplete character is dropped."""
        text = self._unseen().rstrip(_INCOMPLETE)
        self._context_start = self._emitted_end = len(self._ids)
        return text

    def _unseen(self) -> str:
        before = self._decode(self._ids[self._context_start : self._emitted_end])
        return self._decode(self._ids[self._context_start :])[len(before) :]

    def _decode(self, ids: list[int]) -> str:
        text: str = self._tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


class TokenTexts(dict[int, str]):
    """What each token says by itself, special ones included; half a character is U+FFFD."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __missing__(self, token: int) -> str:
        once, twice = self._decode(token), self._decode(token, token)
        # The second time, because a SentencePiece tokenizer drops the space that a text begins with.
        self[token] = twice[len(once) :]
        return self[token]

    def _decode(self, *ids: int) -> str:
        text: str = self._tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
        return text


class StopScanner:
    """Cuts a text at the first stop text and holds back what may turn out to be the start of one."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False

    def push(self, piece: str) -> str:
        """The part of the text so far that is safe to show; sets ``stopped`` when a stop is found."""
        text = self._held + piece
        found = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = self._longest_start(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def flush(self) -> str:
        """What was held back, when the text ends without a stop."""
        text, self._held = self._held, ""
        return text

    def _longest_start(self, text: str) -> int:
        """Length of the longest end of ``text`` with which a stop text begins."""
        longest = max((len(stop) for stop in self._stops), default=0) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stops):
                return length
        return 0
