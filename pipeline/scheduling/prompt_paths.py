"""The prompt paths, as data: one file in ``paths/`` each, named as the path is, in every language.

A file has ``suffix``, which is put behind the last turn, or ``template``, into which a review's texts are put.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from pipeline.errors import ConfigError
from pipeline.events import Message
from pipeline.language import Language

FOLDER = Path(__file__).parent / "paths"
REVIEW = "review"


@dataclass(frozen=True, slots=True)
class PromptPath:
    """One way to put a question to a model.

    Attributes:
        texts: what is added, by language; all languages are there.
    """

    name: str
    texts: Mapping[Language, str]

    def on(self, turns: tuple[Message, ...], language: Language) -> tuple[Message, ...]:
        """The turns with this path's suffix behind the last one; unchanged when there is none."""
        suffix = self.texts[language]
        if not suffix:
            return turns
        last = turns[-1]
        return (*turns[:-1], Message(last.role, f"{last.content}\n\n{suffix}"))


@cache
def prompt_paths(folder: Path = FOLDER) -> Mapping[str, PromptPath]:
    """Every path by its name, read once.

    Raises:
        ConfigError: a file is broken or lacks a language; names the file and what is wrong.
    """
    found = [read_path(file) for file in sorted(folder.glob("*.toml"))]
    return {path.name: path for path in found}


def read_path(file: Path) -> PromptPath:
    """One file.

    Raises:
        ConfigError: as for all.
    """
    try:
        data: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"prompt path {file}: {error}") from error
    key = "template" if file.stem == REVIEW else "suffix"
    found = data.get(key)
    given = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    missing = [language for language in Language if not isinstance(given.get(language), str)]
    if missing:
        raise ConfigError(f"prompt path {file}: {key}.{missing[0]} is missing or no text")
    texts = {language: cast(str, given[language]).strip("\n") for language in Language}
    if key == "template" and not all(
        field in text for text in texts.values() for field in ("{question}", "{a}", "{b}")
    ):
        raise ConfigError(f"prompt path {file}: a template needs {{question}}, {{a}} and {{b}}")
    return PromptPath(file.stem, texts)
