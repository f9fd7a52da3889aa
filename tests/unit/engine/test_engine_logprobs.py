"""Log-probabilities by token: those of a plain forward, whatever else runs, and only of text that is kept."""

from __future__ import annotations

import pytest
import torch
from engine_support import run_all, running, saying, task
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.base import Position, TokenLogprob
from pipeline.engine.detokenizer import Detokenizer, TokenTexts
from pipeline.engine.positions import Positions
from pipeline.events import FinishReason

LOOKUP = {"lookup_ngram": 1, "lookup_tokens": 16}
TOP = 5


def probes():
    """Warped in every way, since none of it may show in the numbers."""
    for number, prompt in enumerate(("hello", "ab" * 20, "What is 7 + 5?")):
        yield task(
            prompt,
            prompt,
            seed=number,
            temperature=(0, 0.7, 1.3)[number],
            top_p=(1.0, 0.8, 1.0)[number],
            min_p=(0.0, 0.0, 0.1)[number],
            repetition_penalty=(1.0, 1.5, 0.7)[number],
            max_new_tokens=24,
            top_logprobs=TOP,
        )


def plain_forward(tiny, prompt: str, drawn: list[int]) -> torch.Tensor:
    """[len(drawn), vocabulary]: what transformers' own forward says before each drawn token."""
    text = tiny.tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
    )
    ids = [*tiny.tokenizer(text, add_special_tokens=False)["input_ids"], *drawn]
    with torch.inference_mode():
        logits = tiny.model(torch.tensor([ids])).logits[0, -len(drawn) - 1 : -1]
    return logits.log_softmax(-1)


@pytest.mark.parametrize("options", [{}, LOOKUP], ids=["plain", "lookup"])
@pytest.mark.parametrize("company", [0, 5])
def test_they_are_those_of_a_plain_forward_in_any_company(tiny, options, company):
    others = [task(f"o{i}", "x" * 9 * i, seed=i, max_new_tokens=5 * i + 1) for i in range(1, company + 1)]
    asked = list(probes())
    with running(tiny, rows=8, **options) as (engine, recorder):
        done = run_all(engine, recorder, [*others, *asked])
    assert all(one.positions == () for one in done[:company])
    for each, one in zip(asked, done[company:], strict=True):
        drawn = [position.drawn.token for position in one.positions]
        assert len(drawn) == one.completion_tokens > 10
        wanted = plain_forward(tiny, each.messages[0].content, drawn)
        for place, position in enumerate(one.positions):
            assert position.drawn.logprob == pytest.approx(float(wanted[place, drawn[place]]), abs=1e-4)
            values, tokens = wanted[place].topk(TOP)
            assert [likely.token for likely in position.top] == tokens.tolist()
            assert [likely.logprob for likely in position.top] == pytest.approx(values.tolist(), abs=1e-4)
        mean = sum(position.drawn.logprob for position in one.positions) / len(drawn)
        assert one.mean_logprob == pytest.approx(mean)


def test_more_than_the_vocabulary_holds_is_the_vocabulary_and_zero_the_drawn_token_alone(tiny):
    asked = [task(n, top_logprobs=n, temperature=0, max_new_tokens=3) for n in (0, 20)]
    with running(tiny) as (engine, recorder):
        none, most = run_all(engine, recorder, asked)
    assert [len(position.top) for position in none.positions] == [0] * 3
    assert [len(position.top) for position in most.positions] == [20] * 3


def said_by(tiny, text: str, **params) -> tuple[str, tuple[Position, ...], int]:
    with running(saying(tiny, "talk", text), **params.pop("options", {})) as (engine, recorder):
        asked = task(1, "talk", temperature=0, max_new_tokens=200, top_logprobs=1, **params)
        [one] = run_all(engine, recorder, [asked])
    assert one.finish_reason is FinishReason.STOP
    return one.text, one.positions, one.completion_tokens


@pytest.mark.parametrize("options", [{}, LOOKUP], ids=["plain", "lookup"])
@pytest.mark.parametrize(
    ("said", "stop", "kept"),
    [
        ("A: 12\nQuestion: what", "Question:", "A: 12\n"),
        ("abab" * 8 + "; abab", "; a", "abab" * 8),
        ("stop at once", "stop", ""),
        ("a😀b😀c", "b", "a😀"),
        ("a😀b", "😀", "a"),
        ("half a stop te", "stop text", "half a stop te"),
    ],
)
def test_what_a_stop_text_cuts_off_has_none(tiny, options, said, stop, kept):
    """A token of the tiny model is a byte, so it is known which tokens the kept text has."""
    text, positions, tokens = said_by(tiny, said, stop=(stop,), options=options)
    assert text == kept
    ending = [tiny.tokenizer.eos_token_id] * (kept == said)
    assert [position.drawn.token for position in positions] == [
        *tiny.tokenizer(kept, add_special_tokens=False)["input_ids"],
        *ending,
    ]
    assert tokens == len(said[: said.find(stop) + len(stop)].encode()) if stop in said else len(positions)


def test_a_text_without_a_stop_keeps_its_end_token(tiny):
    _, positions, tokens = said_by(tiny, "ä!")
    assert [position.drawn.text for position in positions] == ["\N{REPLACEMENT CHARACTER}"] * 2 + [
        "!",
        "</s>",
    ]
    assert [position.top[0] for position in positions] == [position.drawn for position in positions]
    assert tokens == 4


class Metaspace:
    """Decodes as SentencePiece tokenizers do: the first space of a text is dropped."""

    def decode(self, ids: list[int], **_: object) -> str:
        return "".join(" the" if token else "re" for token in ids).removeprefix(" ")


def test_a_token_s_text_keeps_the_space_that_it_begins_with():
    texts = TokenTexts(Metaspace())
    assert [texts[1], texts[0], texts[1]] == [" the", "re", " the"]


class Chunks:
    """Tokens that hold several bytes, and may end inside a character."""

    def __init__(self, *chunks: bytes) -> None:
        self._chunks = chunks

    def decode(self, ids: list[int], **_: object) -> str:
        return b"".join(self._chunks[token] for token in ids).decode("utf-8", "replace")


def test_a_token_begins_behind_all_whole_characters_those_that_wait_included():
    chunks = (b"ab\xf0\x9f", b"\x98", b"\x80c", b"d")
    detokenizer, starts = Detokenizer(Chunks(*chunks)), []
    for token in range(len(chunks)):
        starts.append(detokenizer.characters)
        detokenizer.push(token)
    assert (starts, detokenizer.characters) == ([0, 2, 2, 4], 5)


@given(st.lists(st.integers(0, 9), max_size=9), st.integers(0, 10))
def test_no_token_is_kept_behind_one_that_is_cut(starts, end):
    every = [Position(TokenLogprob(number, -1.0)) for number in range(len(starts))]
    positions = Positions()
    for position, start in zip(every, starts, strict=True):
        positions.add(position, start)
    kept = next((number for number, start in enumerate(starts) if start >= end), len(starts))
    assert positions.kept(end) == tuple(every[:kept])
    assert positions.kept(None) == tuple(every)
