from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.errors import ConfigError
from pipeline.events import InferenceRequest, Mode
from pipeline.language import Language, language_of
from pipeline.scheduling.modes import PROFILES, messages_on
from pipeline.scheduling.prompt_paths import REVIEW, prompt_paths, read_path


def test_every_path_that_a_mode_takes_is_there_in_both_languages() -> None:
    taken = {path for profile in PROFILES.values() for path in profile.paths} | {"direct", REVIEW}
    assert set(prompt_paths()) == taken
    assert all(set(path.texts) == set(Language) for path in prompt_paths().values())


@pytest.mark.parametrize(
    ("prompt", "ending"),
    [("What is 3 + 4?", "The answer is …"), ("三加四等于多少？", "答案是……")],
)
def test_a_path_speaks_the_prompts_language(prompt: str, ending: str) -> None:
    for path in PROFILES[Mode.DEEP].paths:
        (turn,) = messages_on(path, InferenceRequest("q", prompt))
        assert turn.content.startswith(f"{prompt}\n\n") and turn.content.endswith(ending)
    assert messages_on("direct", InferenceRequest("q", prompt))[0].content == prompt


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("求 5 元的 50%", Language.CHINESE),
        ("解方程 2x + 3 = 7", Language.CHINESE),
        ("Translate 你好 into English", Language.ENGLISH),
        ("東京はどこですか", Language.ENGLISH),
        ("2 + 2", Language.ENGLISH),
        ("", Language.ENGLISH),
    ],
)
def test_the_script_decides_the_language(text: str, language: Language) -> None:
    assert language_of(text) is language


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("one", '[suffix]\nen = "x"\n', "suffix.zh is missing"),
        ("one", "suffix = 3\n", "suffix.en is missing"),
        ("one", "[suffix\n", "prompt path"),
        ("review", '[template]\nen = "{question}"\nzh = "{question}{a}{b}"\n', "a template needs"),
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, name: str, content: str, problem: str) -> None:
    file = tmp_path / f"{name}.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=problem) as caught:
        read_path(file)
    assert str(file) in caught.value.message
