from __future__ import annotations

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.delivery.payload import LARGEST_BODY, new_delivery
from pipeline.engine.base import Completion
from pipeline.events import Callback, ErrorInfo, FinishReason, Result
from pipeline.fitting import first_bytes, fitted
from pipeline.kafka.codec import Codec
from pipeline.kafka.records import size_of
from pipeline.scheduling.convert import LONGEST_TEXT, sample_of
from pipeline.topics import DELIVERIES, LARGEST_RESULT, LARGEST_SAMPLE, RESULTS, largest_record
from pipeline.windows import Window
from tests.unit import window_events

CODEC = Codec()
MOST_SAMPLES = 64


def result_with(*texts: str) -> Result:
    """A result whose samples have these texts, with as much of everything else as a request may bring."""
    metadata = {"m": "\x01" * 65_535}
    callback = Callback("https://a.b/" + "x" * 2_000)
    marker = replace(window_events.opened(len(texts)), metadata=metadata, callback=callback)
    window = Window(opened=marker)
    for index, text in enumerate(texts):
        window.add(replace(window_events.sample(index, "1"), text=text))
    (result,) = window.settle(int(time.time() * 1000))
    return result


@given(st.text(), st.integers(0, 40))
def test_the_first_bytes_are_a_beginning(text: str, most: int) -> None:
    cut = first_bytes(text, most)
    assert text.startswith(cut)
    size = len(cut.encode("utf-8", "surrogatepass"))
    assert size <= most
    assert cut == text or size > most - 4


def test_a_result_that_fits_is_left_alone() -> None:
    result = result_with(*("The answer is 7 " for _ in range(MOST_SAMPLES)))
    assert fitted(result, CODEC.encode, LARGEST_RESULT) == CODEC.encode(result)


@pytest.mark.parametrize("letter", ["x", "长", "\x01", '"'])
def test_64_chains_of_the_greatest_length_become_one_result_and_one_callback(letter: str) -> None:
    text = letter * (LONGEST_TEXT // len(letter.encode()) - 30)
    result = result_with(*(f"{index} {text} The answer is 7" for index in range(MOST_SAMPLES)))
    result = replace(result, answer=text, votes=tuple(replace(v, answer=text) for v in result.votes * 64))
    value = fitted(result, CODEC.encode, LARGEST_RESULT)
    assert size_of(b"q" * 128, value) <= largest_record(RESULTS)
    kept = CODEC.decode(value)
    assert isinstance(kept, Result)
    assert kept.answer == text
    chosen = {chain.sample_index: chain.text for chain in kept.reasoning}[result.chosen_sample or 0]
    assert chosen == f"{result.chosen_sample} {text} The answer is 7"
    others = [chain for chain in kept.reasoning if chain.sample_index != result.chosen_sample]
    assert len(others) == MOST_SAMPLES - 1
    assert all(chain.note.endswith("text shortened") for chain in others)
    delivery = new_delivery(kept, 1)
    assert delivery is not None
    assert len(delivery.body) <= LARGEST_BODY
    delivery = replace(delivery, error=ErrorInfo("http_error", "x" * 1_000))
    assert size_of(b"d" * 40, CODEC.encode(delivery)) <= largest_record(DELIVERIES)


def completion(text: str, error: ErrorInfo | None = None) -> Completion:
    return Completion(
        window_events.assigned().key, text, FinishReason.STOP, 1, 1, None, 1, 0.0, None, 1.0, error
    )


def test_a_sample_fits_whatever_the_engine_said() -> None:
    said = completion("长" * 2_000_000, ErrorInfo("engine_error", "x" * 2_000_000))
    sample = sample_of(window_events.assigned(), said, worker="w")
    assert len(CODEC.encode(sample)) <= LARGEST_SAMPLE
    assert sample.finish_reason is FinishReason.LENGTH
    assert said.text.startswith(sample.text)
    whole = sample_of(window_events.assigned(), completion("short"), worker="w")
    assert (whole.text, whole.finish_reason) == ("short", FinishReason.STOP)
