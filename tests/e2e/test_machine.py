"""Whole pipelines of their own on this machine: the demo, ``up``, a real model, a schema registry."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tiny_model import build_tiny_model

from pipeline.events import FinishReason, InferenceRequest, Mode, Sample, SamplingOverrides, Status
from pipeline.ids import new_request_id
from pipeline.kafka.codec import Codec
from pipeline.kafka.read_back import read_back
from pipeline.settings import load_settings
from pipeline.stack import Stack, running_stack
from pipeline.telemetry import now_ms
from pipeline.topics import REQUESTS, SAMPLES
from tests.e2e.commands import Session, alive, descendants, environment, tallystream
from tests.integration.asker import Asker

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model(tmp_path_factory.mktemp("model"), context=256)


@pytest.fixture(scope="module")
def stack(tiny: Path) -> Iterator[Stack]:
    """A pipeline whose worker runs a real, if tiny, model."""
    settings = load_settings(bootstrap="", model=str(tiny), app="tiny")
    with running_stack(settings, print, env={"TALLYSTREAM_ENGINE__THREADS": "1"}) as stack:
        yield stack


@pytest.mark.model
def test_a_real_model_draws_votes_and_explains(stack: Stack) -> None:
    with Asker(stack.settings) as asker:
        request_id = asker.ask(
            "What is 3 + 4?", mode=Mode.DEEP, sampling=SamplingOverrides(max_new_tokens=24, seed=3)
        )
        result = asker.finals([request_id])[request_id]
        samples = {s.sample_index: s for s in asker.of(Sample)}
    assert result.reasoning
    for chain in result.reasoning:
        drawn = samples[chain.sample_index]
        assert chain.text == drawn.text
        assert drawn.mean_logprob is not None
        assert drawn.mean_logprob < 0
        assert drawn.seed == 3 + chain.sample_index
        assert 0 < drawn.completion_tokens <= 24


@pytest.mark.model
def test_a_prompt_longer_than_the_context_fails_alone(stack: Stack) -> None:
    with Asker(stack.settings) as asker:
        long = asker.ask("word " * 2_000, sampling=SamplingOverrides(max_new_tokens=8))
        neighbour = asker.ask("Say something.", sampling=SamplingOverrides(max_new_tokens=8))
        results = asker.finals([long, neighbour])
        drawn = [s for s in asker.of(Sample) if s.request_id == neighbour]
    failed = results[long]
    assert failed.status is Status.FAILED
    assert failed.error is not None
    assert failed.error.code == "prompt_too_long"
    assert {s.finish_reason for s in drawn} <= {FinishReason.STOP, FinishReason.LENGTH}


@pytest.mark.model
def test_the_demo_ends_well_and_leaves_nothing(tiny: Path, tmp_path: Path) -> None:
    summary = tmp_path / "demo.json"
    env = environment(TALLYSTREAM_BOOTSTRAP="")
    demo = Session("demo", "--model", str(tiny), "--json", str(summary), log=tmp_path / "demo.log", env=env)
    demo.says("requests sent")
    below = descendants(demo.process.pid)
    code = demo.process.wait(400)
    assert code == 0, demo.log.read_text()
    counts = json.loads(summary.read_text())
    assert counts["ok"]
    assert counts["ended"] == counts["requests"] >= 12
    assert counts["callbacks_verified"] == counts["callbacks_wanted"] >= counts["requests"]
    assert (counts["duplicates"], counts["callbacks_rejected"]) == (0, 0)
    assert counts["abacus"]["ended"] == counts["abacus"]["questions"]
    assert counts["abacus"]["samples"] > counts["abacus"]["questions"]
    assert below
    assert not alive(below)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_up_leaves_no_process_whatever_ends_it(tmp_path: Path, number: int) -> None:
    env = environment(
        TALLYSTREAM_BOOTSTRAP="",
        TALLYSTREAM_ENGINE__NAME="scripted",
        TALLYSTREAM_GATEWAY__PORT="0",
        XDG_CACHE_HOME=_cache(tmp_path),
    )
    up = Session("up", log=tmp_path / "up.log", env=env)
    up.says("up, on Kafka at ")
    port = int(up.log.read_text().partition("up, on Kafka at ")[2].partition(";")[0].rpartition(":")[2])
    answered = tallystream("ask", "answers=9", "--mode", "fast", env=env)
    assert answered.returncode == 0, answered.stderr
    below = descendants(up.process.pid)
    assert len(below) >= 6
    code = up.stop(number)
    assert code == (-signal.SIGKILL if number == signal.SIGKILL else 0), up.log.read_text()
    _until(lambda: not alive(below), "every process to be gone")
    _until(lambda: not _listens(port), "Kafka's port to be free")


def test_the_pipeline_speaks_to_a_registry(registry_url: str) -> None:
    settings = load_settings(bootstrap="", registry_url=registry_url, app="reg")
    with running_stack(settings, print, env={"TALLYSTREAM_ENGINE__NAME": "scripted"}) as stack:
        with Asker(stack.settings) as asker:
            assert asker.codec.encode(InferenceRequest(new_request_id(now_ms()), "x"))[0] == 0
            plain = Codec().encode(
                request := InferenceRequest(new_request_id(now_ms()), "answers=6", priority=1)
            )
            asker.put_bytes(plain, 1, request.request_id.encode())
            asked = asker.ask("answers=5")
            finals = asker.finals([asked, request.request_id])
        assert {r.answer for r in finals.values()} == {"5", "6"}
        for topic in (REQUESTS, SAMPLES):
            values = [m.value() for m in read_back(stack.settings, [(topic, 3 if topic == REQUESTS else 0)])]
            assert values
            assert all(isinstance(value, bytes) and value[0] == 0 for value in values)


def _cache(tmp_path: Path) -> str:
    """A cache of its own that shares the jars, so that `ask` finds this pipeline and no other."""
    shared, own = load_settings().home, tmp_path / "cache" / "tallystream"
    own.mkdir(parents=True)
    if (shared / "kafka").exists():
        (own / "kafka").symlink_to(shared / "kafka")
    return str(tmp_path / "cache")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _until(done: Callable[[], bool], what: str) -> None:
    """Children die with their parent, but not in its last instant."""
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline, f"still waiting for {what}"
        time.sleep(0.05)
