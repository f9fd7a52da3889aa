"""The command line over a gateway, as processes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.commands import Session, environment, tallystream
from tests.integration.gateways import pipeline_with_gateways
from tests.integration.own_pipeline import OwnPipeline

pytestmark = pytest.mark.integration


@dataclass(frozen=True, slots=True)
class World:
    """A pipeline, and the environment of a person who knows nothing but a gateway's address."""

    pipeline: OwnPipeline
    url: str
    env: dict[str, str]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Without a batcher and a worker at first: the test that asks in vain stands before those that need them."""
    with pipeline_with_gateways(tmp_path_factory.mktemp("commands"), 1) as (pipeline, (url,)):
        elsewhere = environment(
            TALLYSTREAM_HOME=str(tmp_path_factory.mktemp("elsewhere")), TALLYSTREAM_URL=url
        )
        yield World(pipeline, url, elsewhere)


@pytest.fixture(scope="module")
def drawing(world: World) -> Iterator[World]:
    with world.pipeline.agents(["batcher", "worker"]):
        yield world


def test_who_stops_waiting_is_told_how_to_go_on_and_the_task_does(world: World, tmp_path: Path) -> None:
    env = {name: value for name, value in world.env.items() if name != "TALLYSTREAM_URL"}
    key = "tsk_0123abcd_" + "s" * 43
    told = Session(
        "ask", "answers=7", "--url", world.url, log=tmp_path / "ask.log", env=env | {"TALLYSTREAM_KEY": key}
    )
    told.until(lambda: "pending" in tallystream("list", env=world.env).stdout, "the task to be listed")
    assert told.stop() == 130
    text = told.log.read_text()
    assert "Traceback" not in text and key not in text
    (watch,) = [line.split() for line in text.splitlines() if " watch " in line]
    assert watch == ["tallystream", "watch", watch[2], "--url", world.url]
    listed = tallystream("list", "--json", env=world.env)
    assert [json.loads(line)["id"] for line in listed.stdout.splitlines()] == [watch[2]]


def test_an_answer_looks_as_it_does_over_kafka(drawing: World) -> None:
    settings = drawing.pipeline.settings
    over_kafka = environment(TALLYSTREAM_BOOTSTRAP=settings.bootstrap, TALLYSTREAM_APP=settings.app)
    runs = [
        tallystream("ask", "answers=7,7,8", "--mode", "deep", env=env) for env in (drawing.env, over_kafka)
    ]
    assert [run.returncode for run in runs] == [0, 0], runs

    def headings(text: str) -> list[list[str]]:
        lines = [line.split() for line in text.splitlines()]
        return [words for words in lines if words in (["votes"], ["chains"]) or words[:1] == ["answer"]]

    first, second = (headings(run.stdout) for run in runs)
    assert first == second and len(first) == 3
    assert all("│ 7" in run.stdout and "→" in run.stdout for run in runs)


def test_a_task_is_asked_watched_listed_and_cancelled(drawing: World) -> None:
    env = drawing.env
    asked = tallystream("ask", "answers=7", "--json", env=env)
    task = json.loads(asked.stdout)
    assert (asked.returncode, task["status"], task["answer"]) == (0, "done", "7")
    watched = tallystream("watch", task["id"], "--json", env=env)
    names = [json.loads(line)["event"] for line in watched.stdout.splitlines()]
    assert watched.returncode == 0 and names[0] == "state" and names[-1] == "end"
    assert names.count("result") == 1 and "sample" in names  # two topics: either may have been read first
    shown = tallystream("watch", task["id"], env=env)
    # Any two that came first have decided.
    assert re.search(r"^sample \d  direct  The answer is 7$", shown.stdout, re.M) and "│ 7" in shown.stdout
    listed = tallystream("list", "--status", "done", env=env)
    assert task["id"] in listed.stdout and "pending" not in listed.stdout
    ended = tallystream("cancel", task["id"], env=env)
    assert (ended.returncode, ended.stdout.split()) == (0, ["done", task["id"]])


def test_a_gateway_of_this_machine_is_found(drawing: World) -> None:
    settings = drawing.pipeline.settings
    env = environment(TALLYSTREAM_HOME=str(settings.home), TALLYSTREAM_APP=settings.app)
    assert tallystream("list", env=env).returncode == 0
    nowhere = tallystream("list", env=environment(TALLYSTREAM_HOME=str(settings.home / "none")))
    assert nowhere.returncode == 2 and "TALLYSTREAM_URL" in nowhere.stderr


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["ask", "x", "--n", "0"], "error: sampling.n"),
        (["watch", "nobody-has-asked-this"], "error: there is no such task"),
        (["cancel", "nobody-has-asked-this"], "error: there is no such task"),
        (["cancel", "x", "--run", "3"], "--run"),
    ],
)
def test_a_mistake_is_a_line_and_not_a_traceback(drawing: World, argv: list[str], text: str) -> None:
    run = tallystream(*argv, env=drawing.env)
    assert run.returncode == 2
    assert text in run.stderr and "Traceback" not in run.stderr
