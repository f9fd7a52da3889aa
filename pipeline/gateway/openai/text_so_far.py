"""How much of an answer a reader has, while it grows. Pure.

Tokens come as previews that may be lost; the result's text is the truth. A reader has always a beginning of the text.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TextSoFar:
    """
    Attributes:
        told: characters that the reader has, perhaps from an earlier connection.
        seen: all that previews have said, from the text's first character on.
        whole: nothing of it was lost.
    """

    told: int = 0
    seen: str = ""
    whole: bool = True

    def preview(self, text: str) -> str:
        """What is new to the reader of a preview that follows on those before it."""
        if not self.whole:
            return ""
        self.seen += text
        new = self.seen[self.told :]
        self.told = max(self.told, len(self.seen))
        return new

    def gap(self) -> None:
        """Previews were lost: nothing more is told before the end."""
        self.whole = False

    def final(self, text: str) -> str | None:
        """What is still to be told of the whole text; ``None``: what was told is not its beginning."""
        if not text.startswith(self.seen):
            return None
        new = text[self.told :]
        self.told = max(self.told, len(text))
        return new
