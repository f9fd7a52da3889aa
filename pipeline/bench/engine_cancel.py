"""What a running sample of the slot engine still says after it was cancelled."""

from __future__ import annotations

import threading
import time

from pipeline.bench.engine_models import TINY, load
from pipeline.engine.base import Completion, GenerationTask, SamplingParams, TaskKey
from pipeline.engine.slots import SlotEngine
from pipeline.errors import EngineError
from pipeline.events import Message
from pipeline.settings import Settings

_ROWS, _LONG = 4, 1_500
_PATIENCE = 120.0


class _Heard:
    """Counts what one sample says after ``cancelled``; every piece of the tiny model's text is one token."""

    def __init__(self, key: TaskKey) -> None:
        self._key = key
        self.speaks, self.ended, self.cancelled = threading.Event(), threading.Event(), threading.Event()
        self.after = 0

    def tokens(self, key: TaskKey, text: str) -> None:
        if key == self._key:
            self.speaks.set()
            self.after += self.cancelled.is_set()

    def done(self, completion: Completion) -> None:
        if completion.key == self._key:
            self.ended.set()


def tokens_after_cancel(settings: Settings) -> int:
    """Cancel one of several rows while all decode; how many pieces it says after that.

    Raises:
        EngineError: it does not begin or does not end.
    """
    keys = [TaskKey("bench", 0, index) for index in range(_ROWS)]
    heard = _Heard(keys[0])
    options = settings.engine.model_copy(update={"rows": _ROWS, "context": 2 * _LONG})
    loaded = load(TINY, settings)
    engine = SlotEngine(settings.model_copy(update={"engine": options}), load=lambda _: loaded)
    engine.start(heard)
    try:
        params = SamplingParams(temperature=0.0, max_new_tokens=_LONG)
        for key in keys:
            engine.submit(GenerationTask(key, (Message("user", "count"),), params, time.time() + _PATIENCE))
        began = heard.speaks.wait(_PATIENCE)
        heard.cancelled.set()
        engine.cancel(keys[0])
        if not began or not heard.ended.wait(_PATIENCE):
            raise EngineError("a sample that was cancelled does not end")
        return heard.after
    finally:
        engine.close()
