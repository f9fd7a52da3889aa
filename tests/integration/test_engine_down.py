"""An engine that fails for a while costs time, not samples; one that fails for long is started afresh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.agent_main import EXIT_UNABLE
from pipeline.events import Sample, Status
from tests.integration.asker import Asker
from tests.integration.own_pipeline import OwnPipeline, own_pipeline

pytestmark = pytest.mark.integration

_OFTEN = {"TALLYSTREAM_ENGINE__BREAKER_WAIT": "0.2", "TALLYSTREAM_ENGINE__BREAKER_FAILURES": "3"}


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """While this file is there, the engine fails."""
    return tmp_path_factory.mktemp("engine") / "broken"


@pytest.fixture(scope="module")
def pipeline(broken: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnPipeline]:
    script = f'{{"min_ms": 1, "max_ms": 10, "rows": 2, "broken": "{broken}"}}'
    folder = tmp_path_factory.mktemp("engine-down")
    with own_pipeline(folder, agents=("batcher", "aggregator"), script=script) as pipeline:
        yield pipeline


def test_lanes_pause_deadlines_go_on_and_every_sample_is_drawn_after_all(
    pipeline: OwnPipeline, broken: Path
) -> None:
    broken.touch()
    with (
        Asker(pipeline.settings) as asker,
        pipeline.agents(["worker"], **_OFTEN, TALLYSTREAM_ENGINE__ATTEMPTS="1000000"),
    ):
        waiting = [asker.ask(f"answers={number}", priority=number) for number in range(6)]
        asker.until(lambda: "lanes pause" in pipeline.logs("worker"), "the lanes to pause")
        late = asker.ask("answers=7", deadline_ms=1_000)
        result = asker.finals([late])[late]
        assert result.status is Status.FAILED and result.error is not None
        assert result.error.code == "deadline_exceeded"
        assert asker.of(Sample) == []
        broken.unlink()
        finals = asker.finals(waiting)
        assert [finals[name].answer for name in waiting] == [str(number) for number in range(6)]
        assert {finals[name].status for name in waiting} == {Status.DONE}
        assert [sample for sample in asker.of(Sample) if sample.error] == []
    assert "lanes go on" in pipeline.logs("worker")


def test_a_worker_whose_engine_fails_for_long_ends_and_says_why(pipeline: OwnPipeline, broken: Path) -> None:
    broken.touch()
    settings = {**_OFTEN, "TALLYSTREAM_ENGINE__ATTEMPTS": "1", "TALLYSTREAM_ENGINE__GIVE_UP_AFTER": "2"}
    with Asker(pipeline.settings) as asker, pipeline.agents(["worker"], once=True, **settings):
        asked = [asker.ask(f"answers={number}") for number in range(40)]
        asker.until(lambda: any(end.name.startswith("worker") for end in pipeline.exits), "the worker to end")
    (end,) = (end for end in pipeline.exits if end.name.startswith("worker"))
    assert end.status == EXIT_UNABLE
    assert "The engine has failed for" in pipeline.logs("worker")
    broken.unlink()
    with Asker(pipeline.settings) as asker, pipeline.agents(["worker"]):
        after = asker.ask("answers=5")
        assert asker.finals([after])[after].status is Status.DONE
    assert asked
