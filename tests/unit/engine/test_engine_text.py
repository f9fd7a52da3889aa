"""Text as it streams: whole characters only, stop texts never shown, all pieces together the text."""

from __future__ import annotations

import pytest
from engine_support import run_all, running, saying, task
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.detokenizer import Detokenizer, StopScanner
from pipeline.events import FinishReason
from tests.tiny_model import tiny_tokenizer

TOKENIZER = tiny_tokenizer()
BROKEN = "\N{REPLACEMENT CHARACTER}"


def pieces_of(ids: list[int]) -> list[str]:
    detokenizer = Detokenizer(TOKENIZER)
    return [*(detokenizer.push(token) for token in ids), detokenizer.flush()]


@given(st.text())
def test_pieces_join_to_the_text_and_hold_whole_characters(text):
    pieces = pieces_of(TOKENIZER(text, add_special_tokens=False)["input_ids"])
    assert "".join(pieces) == text.rstrip(BROKEN)
    assert all(BROKEN not in piece for piece in pieces) or BROKEN in text


@given(st.lists(st.integers(0, 258), max_size=40))
def test_any_tokens_join_to_what_decoding_them_at_once_gives(ids):
    whole = TOKENIZER.decode(ids, skip_special_tokens=True)
    assert "".join(pieces_of(ids)) == whole.rstrip(BROKEN)


def test_half_a_character_waits_and_is_dropped_at_the_end():
    ids = TOKENIZER("a😀", add_special_tokens=False)["input_ids"]
    assert pieces_of(ids) == ["a", "", "", "", "😀", ""]
    assert pieces_of(ids[:-1]) == ["a", "", "", "", ""]


def test_special_tokens_are_removed():
    ids = TOKENIZER("a<pad>b</s>c", add_special_tokens=False)["input_ids"]
    assert len(ids) == 5
    assert "".join(pieces_of(ids)) == "abc"


@given(st.text("abc", max_size=30), st.lists(st.text("abc", min_size=1, max_size=4), max_size=3), st.data())
def test_a_stop_text_is_never_shown(text, stops, data):
    scanner = StopScanner(tuple(stops))
    shown, rest = "", text
    while rest and not scanner.stopped:
        size = data.draw(st.integers(1, len(rest)))
        shown += scanner.push(rest[:size])
        rest = rest[size:]
        assert text.startswith(shown)
        assert not any(stop in shown for stop in stops)
    shown += scanner.flush()
    assert scanner.stopped == any(stop in text for stop in stops)
    if not scanner.stopped:
        assert shown == text


def answer(tiny, text: str, **params):
    with running(saying(tiny, "talk", text)) as (engine, recorder):
        (completion,) = run_all(
            engine, recorder, [task(1, "talk", temperature=0, max_new_tokens=200, **params)]
        )
        assert recorder.streamed(completion.key) == completion.text
        return completion, recorder.pieces.get(completion.key, [])


def test_a_stop_text_ends_the_sample_and_no_piece_shows_its_start(tiny):
    completion, pieces = answer(tiny, "A: 12\nQuestion: what", stop=("Question:",))
    assert completion.text == "A: 12\n"
    assert completion.finish_reason is FinishReason.STOP
    assert completion.completion_tokens == len("A: 12\nQuestion:")
    assert all("Q" not in piece for piece in pieces)


def test_a_stop_given_as_a_string_is_one_stop(tiny):
    """F13: neither "Q" nor any other of its letters ends the text."""
    completion, _ = answer(tiny, "Quite so: yes. Question: what", stop="Question:")
    assert completion.text == "Quite so: yes. "


def test_the_start_of_a_stop_that_does_not_follow_is_shown(tiny):
    completion, _ = answer(tiny, "What a Quest", stop=("Question:",))
    assert completion.text == "What a Quest"


def test_an_empty_stop_stops_nothing(tiny):
    assert answer(tiny, "all of it", stop=("",))[0].text == "all of it"


@pytest.mark.parametrize("text", ["日本語 😀 déjà vu", "👩‍👩‍👧‍👦 family", "ascii"])
def test_characters_of_many_bytes_stream_whole(tiny, text):
    completion, pieces = answer(tiny, text)
    assert completion.text == text
    assert all(BROKEN not in piece for piece in pieces)
    assert completion.completion_tokens == len(text.encode()) + 1


def test_a_budget_that_cuts_a_character_leaves_it_out(tiny):
    with running(saying(tiny, "talk", "ab😀")) as (engine, recorder):
        (completion,) = run_all(engine, recorder, [task(1, "talk", temperature=0, max_new_tokens=4)])
    assert (completion.text, completion.finish_reason) == ("ab", FinishReason.LENGTH)
