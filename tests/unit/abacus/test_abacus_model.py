"""The shipped model's folder: small, labelled for what it is, and asked through its chat template."""

from __future__ import annotations

import pytest
import torch

from pipeline.abacus.folder import FOLDER
from pipeline.abacus.tokenizer import CHAT_TEMPLATE, build_tokenizer
from pipeline.abacus.train import train
from pipeline.abacus.training import Training
from pipeline.engine.model import LoadedModel, load_model
from pipeline.engine.prompts import PromptEncoder
from pipeline.errors import BadMessagesError
from pipeline.events import Message
from pipeline.fusion import extract_answer
from pipeline.settings import load_settings


@pytest.fixture(scope="module")
def shipped() -> LoadedModel:
    return load_model(load_settings(model="abacus"))


def prompt(tokenizer: object, *texts: str) -> str:
    ids = PromptEncoder(tokenizer).encode(tuple(Message("user", text) for text in texts))
    return tokenizer.decode(ids)  # type: ignore[attr-defined]


def test_it_is_small_and_says_that_its_noise_is_designed_in(shipped: LoadedModel) -> None:
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 2_000_000
    assert "designed in" in (FOLDER / "README.md").read_text()
    assert shipped.model.num_parameters() < 400_000
    assert shipped.tokenizer.chat_template == CHAT_TEMPLATE, (
        "the folder is older than the code: train it again"
    )


def test_it_answers_what_it_is_asked(shipped: LoadedModel) -> None:
    ids = torch.tensor([PromptEncoder(shipped.tokenizer).encode((Message("user", "What is 7 + 5 + 2?"),))])
    drawn = shipped.model.generate(ids, max_new_tokens=64, do_sample=False, eos_token_id=[*shipped.eos_ids])
    text = shipped.tokenizer.decode(drawn[0, ids.shape[1] :], skip_special_tokens=True)
    answer = extract_answer(text)
    assert answer is not None
    assert answer.isdigit()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("What is 17 + 4 * 6 - 9?", "17+4*6-9=\n"),
        ("What is 17 plus 4 times 6 minus 9?", "17+4*6-9=\n"),
        ("Work out 17 + 4 × 6 − 9, please.", "17+4*6-9=\n"),
        ("Hello!\n3 + 4\n\nThink step-by-step, in 1-2 lines.", "3+4=\n"),
    ],
)
def test_the_template_takes_the_sum_alone(text: str, expected: str) -> None:
    assert prompt(build_tokenizer(), text) == expected


def test_the_template_takes_the_last_question_and_refuses_what_is_none() -> None:
    tokenizer = build_tokenizer()
    assert prompt(tokenizer, "What is 1 + 1?", "What is 2 + 3?") == "2+3=\n"
    with pytest.raises(BadMessagesError, match="only knows sums"):
        prompt(tokenizer, "What is the capital of France?")


def test_a_training_of_a_few_steps_learns_something() -> None:
    lines: list[str] = []
    model, tokenizer = train(Training(steps=12, batch=4, warm=2, cooling=4), lines.append)
    assert not model.training
    assert len(tokenizer) == model.config.vocab_size
    first, last = (float(line.partition("loss ")[2].split()[0]) for line in (lines[0], lines[-1]))
    assert last < first
