"""What many would pick instead: sample tasks, and a chord that votes. For ``celery -A pipeline.bench.celery_app``."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from pipeline.bench.celery_redis import ANSWERS, REDIS_URL
from pipeline.bench.question import SAMPLES, text_of
from pipeline.engine.base import TaskKey
from pipeline.engine.script import answer_text
from pipeline.events import Message
from pipeline.fusion import equivalent, extract_answer

_celery: Any = import_module("celery")  # an extra: it may not be installed where types are checked
_url = os.environ.get(REDIS_URL, "")
app: Any = _celery.Celery("tallystream-bench", broker=_url, backend=_url)
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=4, broker_connection_retry_on_startup=True)
_redis: Any = import_module("redis").Redis.from_url(_url) if _url else None


@app.task
def sample(request_id: str, index: int) -> str:
    """One sample, as the scripted engine says it."""
    return answer_text(TaskKey(request_id, 0, index), (Message("user", text_of(request_id)),))


@app.task
def elect(texts: list[str], request_id: str) -> str | None:
    """The answer that most samples give; tells the client that it is there."""
    answers = [answer for text in texts if (answer := extract_answer(text)) is not None]
    best = max(answers, key=lambda one: sum(equivalent(one, other) for other in answers), default=None)
    _redis.rpush(ANSWERS, request_id)
    return best


def ask(request_id: str) -> None:
    """Send one request."""
    _celery.chord([sample.s(request_id, index) for index in range(SAMPLES)])(elect.s(request_id))
