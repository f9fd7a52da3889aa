"""The one request that every contender answers: three samples of a short question."""

from __future__ import annotations

import zlib

from pipeline.events import Callback, InferenceRequest

SAMPLES = 3


def text_of(request_id: str) -> str:
    """A question of its own for each request, all of one length."""
    number = zlib.crc32(request_id.encode()) % 900
    return f"What is {100 + number} + 7? Answer with the number only."


def question(request_id: str, callback: Callback | None = None) -> InferenceRequest:
    return InferenceRequest(request_id, text_of(request_id), callback=callback)
