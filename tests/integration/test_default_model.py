"""The model that comes by default, as the slot engine has it in each precision."""

from __future__ import annotations

import time

import pytest

from pipeline.engine.base import Completion, GenerationTask, SamplingParams, TaskKey
from pipeline.engine.slots import SlotEngine
from pipeline.events import FinishReason, Message
from pipeline.settings import load_settings
from tests.unit.engine.engine_support import Recorder

pytestmark = pytest.mark.integration

QUESTION = "What is the capital of France? Answer with one word only."
LONG = "Here is a list of words that mean nothing: " + "river stone cloud " * 60 + QUESTION


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "bfloat16"},
        {"dtype": "bfloat16", "deterministic": True},
        {"weights": "int8"},
        {"packed": False},
    ],
    ids=str,
)
def test_it_passes_its_own_check_and_knows_a_capital_beside_a_long_prompt(options: dict[str, object]) -> None:
    engine, recorder = SlotEngine(load_settings(engine={"rows": 4, "context": 512, **options})), Recorder()
    engine.start(recorder)
    try:
        for number, prompt in enumerate((QUESTION, LONG, QUESTION)):
            params = SamplingParams(temperature=0, max_new_tokens=12)
            key = TaskKey(str(number), 0, 0)
            engine.submit(GenerationTask(key, (Message("user", prompt),), params, time.time() + 300))
        done = recorder.wait_done(3)
    finally:
        engine.close()
    first, long, last = (done[TaskKey(str(number), 0, 0)] for number in range(3))
    assert "Paris" in first.text and last.text == first.text
    assert _ended_well(long)


def _ended_well(completion: Completion) -> bool:
    return completion.error is None and completion.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
