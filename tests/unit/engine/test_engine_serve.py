"""The engine ``http`` against a real ``transformers serve`` with a tiny random model."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from engine_support import Recorder, run_all, task

from pipeline.child_process import last_lines, spawn, stop
from pipeline.engine.factory import create_engine
from pipeline.errors import ModelServerDownError
from pipeline.events import FinishReason
from pipeline.free_ports import free_ports
from pipeline.settings import load_settings
from tests.tiny_model import build_tiny_model

pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("fastapi", "openai", "uvicorn")),
        reason="transformers serve needs fastapi, openai and uvicorn: pip install 'tallystream[serving]'",
    ),
]


@contextmanager
def served(folder: Path):
    """An engine on a server of its own; another port is tried when somebody else was quicker."""
    model, log = build_tiny_model(folder / "tiny"), folder / "serve.log"
    for attempt in range(3):
        [port] = free_ports(1)
        argv = [str(Path(sys.executable).with_name("transformers")), "serve", str(model)]
        child = spawn([*argv, "--port", str(port), "--device", "cpu"], log, env={"HF_HUB_OFFLINE": "1"})
        options = {"url": f"http://localhost:{port}/v1", "model": str(model), "start_timeout": 120}
        engine = create_engine(load_settings(engine={"name": "http", "rows": 2}, http_engine=options))
        recorder = Recorder()
        try:
            engine.start(recorder)
            yield engine, recorder
            return
        except ModelServerDownError:
            if attempt == 2 or child.poll() is None:
                raise AssertionError(last_lines(log, 20)) from None
        finally:
            engine.close()
            stop(child, 5.0)


def test_a_real_server_draws_streams_stops_and_is_cancelled(tmp_path):
    with served(tmp_path) as (engine, recorder):
        tasks = [
            task("greedy", temperature=0, max_new_tokens=8),
            task("same", temperature=0, max_new_tokens=8),
            task("warm", temperature=0.7, top_p=0.9, seed=11, max_new_tokens=8),
        ]
        greedy, same, warm = run_all(engine, recorder, tasks)
        endless = task("endless", temperature=0.7, max_new_tokens=900)
        assert engine.submit(endless)
        recorder.wait_tokens(endless.key)
        engine.cancel(endless.key)
        cancelled = recorder.wait_done(4)[endless.key]
    assert {one.finish_reason for one in (greedy, same, warm)} <= {FinishReason.LENGTH, FinishReason.STOP}
    assert greedy.text == same.text and greedy.prompt_tokens > 0 and greedy.mean_logprob is None
    assert 0 < greedy.completion_tokens <= 8 and recorder.streamed(greedy.key) == greedy.text
    assert (cancelled.finish_reason, len(recorder.completions)) == (FinishReason.CANCELLED, 4)
