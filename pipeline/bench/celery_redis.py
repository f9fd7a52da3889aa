"""Celery on Redis with its append-only file, as processes, and the load on them."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipeline.bench.load import Load
from pipeline.child_process import last_lines, spawn, stop
from pipeline.errors import DependencyDownError
from pipeline.free_ports import HOST, free_ports

REDIS_URL = "TALLYSTREAM_BENCH_REDIS"
"""Environment variable: where Redis listens."""
ANSWERS = "answers"
"""The Redis list of the requests that are voted on."""
_START = 20.0
_GRACE = 5.0


def missing() -> str:
    """What is not installed and how it is; empty when everything is."""
    needs: list[str] = []
    if shutil.which("redis-server") is None:
        needs.append("apt-get install redis-server")
    if find_spec("celery") is None or find_spec("redis") is None:
        needs.append("pip install -c constraints.txt -e '.[bench]'")
    return f"not measured; install: {' and '.join(needs)}" if needs else ""


class CeleryRedis:
    """Sends chords, reads the list that the vote writes to."""

    name = "Celery + Redis"

    def __init__(self, ask: Callable[[str], None], redis: Any) -> None:
        self._ask, self._redis = ask, redis

    def send(self, request_id: str) -> None:
        self._ask(request_id)

    def answered(self, timeout: float) -> Sequence[str]:
        first = self._redis.blpop([ANSWERS], timeout=timeout)
        if first is None:
            return ()
        return [first[1].decode(), *(item.decode() for item in self._redis.lpop(ANSWERS, 500) or ())]


@contextmanager
def redis_server() -> Generator[str]:
    """A Redis of our own; its address."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tallystream-redis-")))
        (port,) = free_ports(1)
        options = {
            "--port": str(port),
            "--bind": HOST,
            "--dir": str(folder),
            "--appendonly": "yes",
            "--save": "",
        }
        command = ["redis-server", *(word for option in options.items() for word in option)]
        log = folder / "redis.log"
        stack.callback(stop, spawn(command, log), _GRACE)
        _wait_for(port, log)
        yield f"redis://{HOST}:{port}/0"


@contextmanager
def running_celery(url: str) -> Generator[Load]:
    """A Celery worker with a process a core, and the load on it; only when nothing is ``missing``.

    Args:
        url: of the Redis, the same at every call: the client side of Celery is bound to the first.
    """
    os.environ[REDIS_URL] = url
    from pipeline.bench import celery_app

    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="tallystream-celery-")))
        options = ["--concurrency", str(os.cpu_count() or 2), "--loglevel", "warning", "--without-gossip"]
        command = [sys.executable, "-m", "celery", "-A", celery_app.__name__, "worker", *options]
        stack.callback(stop, spawn(command, folder / "celery.log"), _GRACE)
        redis: Any = import_module("redis").Redis.from_url(url)
        redis.flushall()
        yield stack.enter_context(Load(CeleryRedis(celery_app.ask, redis)))


def _wait_for(port: int, log: Path) -> None:
    deadline = time.monotonic() + _START
    while time.monotonic() < deadline:
        with suppress(OSError):
            socket.create_connection((HOST, port), timeout=0.2).close()
            return
        time.sleep(0.05)
    raise DependencyDownError(f"redis-server does not start; the end of its log:\n{last_lines(log, 10)}")
