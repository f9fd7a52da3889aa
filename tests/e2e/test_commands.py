"""The command line against the session's pipeline."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from pipeline.events import Result, Sample
from tests.e2e.commands import Session, environment, tallystream
from tests.integration.asker import Asker
from tests.integration.running import Running

pytestmark = pytest.mark.integration


@pytest.fixture
def env(running: Running) -> dict[str, str]:
    settings = running.settings
    return environment(
        TALLYSTREAM_BOOTSTRAP=settings.bootstrap,
        TALLYSTREAM_APP=settings.app,
        TALLYSTREAM_SHARDS=str(settings.shards),
    )


def test_ask_prints_the_answer_the_votes_and_the_chains(env: dict[str, str]) -> None:
    done = tallystream("ask", "answers=7,7,7,7,8", "--mode", "deep", "--priority", "0", env=env)
    assert done.returncode == 0, done.stderr
    assert "done" in done.stdout
    assert "votes" in done.stdout
    assert "chains" in done.stdout
    assert "chain_of_thought" in done.stdout


def test_ask_as_json_is_the_whole_result(env: dict[str, str]) -> None:
    done = tallystream("ask", "answers=7", "--json", "--n", "5", env=env)
    result = json.loads(done.stdout)
    assert (result["answer"], result["status"], result["usage"]["samples_expected"]) == ("7", "done", 5)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("ask", ""), "prompt"),
        (("ask", "x", "--priority", "9"), "--priority"),
        (("ask", "x", "--n", "1000"), "sampling.n"),
        (("ask", "x", "--mode", "slow"), "--mode"),
        (("batch", "no-such-file.jsonl", "out.jsonl"), "no-such-file.jsonl"),
        (("agent", "gardener"), "gardener"),
    ],
)
def test_a_mistake_is_one_clear_error(env: dict[str, str], argv: tuple[str, ...], text: str) -> None:
    done = tallystream(*argv, env=env)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_no_broker_is_one_clear_error() -> None:
    done = tallystream("ask", "x", env=environment(TALLYSTREAM_BOOTSTRAP="127.0.0.1:9"))
    assert done.returncode == 2
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_topics_create_is_idempotent_and_says_what_differs(env: dict[str, str]) -> None:
    again = tallystream("topics", "create", env=env)
    assert again.returncode == 0, again.stdout
    assert "created" not in again.stdout
    other = tallystream("topics", "create", env=env | {"TALLYSTREAM_SHARDS": "3"})
    assert other.returncode == 1
    assert "samples: 2 partitions, declared 3" in other.stdout


def test_doctor_finds_the_broker(env: dict[str, str]) -> None:
    done = tallystream("doctor", env=env)
    assert "as declared" in done.stdout, done.stdout
    assert done.returncode == 0, done.stdout


def test_batch_answers_every_line_and_bad_lines_fail_alone(env: dict[str, str], tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    good = [json.dumps({"prompt": f"question {n} answers={n}", "metadata": {"n": str(n)}}) for n in range(40)]
    bad = [
        "not json",
        json.dumps({"prompt": ""}),
        json.dumps({"prompt": "x", "priority": 2.5}),
        json.dumps({"prmpt": 1}),
    ]
    source.write_text("\n".join(good[:20] + bad + good[20:]) + "\n")
    done = tallystream("batch", str(source), str(target), "--outstanding", "8", env=env)
    assert done.returncode == 1, done.stderr
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert sorted(line["line"] for line in lines) == list(range(1, 45))
    failed = {line["line"]: line["error"] for line in lines if line["status"] == "failed"}
    assert set(failed) == {21, 22, 23, 24}
    assert failed[22]["field"] == "prompt"
    assert failed[23]["field"] == "priority"
    assert all(line["answer"] == line["metadata"]["n"] for line in lines if line["status"] == "done")
    assert not (tmp_path / "out.jsonl.state").exists()


def test_a_killed_batch_goes_on_where_it_was(env: dict[str, str], asker: Asker, tmp_path: Path) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(json.dumps({"prompt": f"question {n} answers={n}"}) + "\n" for n in range(300)))
    argv = ("batch", str(source), str(target), "--outstanding", "16")
    first = Session(*argv, log=tmp_path / "first.log", env=env)
    first.until(lambda: target.exists() and target.read_text().count("\n") >= 30, "30 lines")
    first.stop(signal.SIGKILL)
    with target.open("a") as cut:
        cut.write('{"id": "cut by the k')
    second = tallystream(*argv, env=env)
    assert second.returncode == 0, second.stderr
    lines = [json.loads(line) for line in target.read_text().splitlines()]
    assert sorted(line["line"] for line in lines) == list(range(1, 301))
    asker.finals(line["id"] for line in lines)
    assert len({r.request_id for r in asker.of(Result)}) == len(asker.of(Result))
    assert len({(s.request_id, s.sample_index) for s in asker.of(Sample)}) == len(asker.of(Sample))


def test_ids_of_lines_are_kept_and_asked_once(env: dict[str, str], asker: Asker, tmp_path: Path) -> None:
    """The same file again finds the answers of the first time; a repeated id fails alone."""
    source, prefix = tmp_path / "in.jsonl", tmp_path.name
    lines = [{"id": f"{prefix}-{n}", "prompt": f"answers={n}"} for n in range(3)]
    source.write_text("".join(json.dumps(line) + "\n" for line in [*lines, lines[0]]))
    for target in (tmp_path / "first.jsonl", tmp_path / "second.jsonl"):
        done = tallystream("batch", str(source), str(target), env=env)
        assert done.returncode == 1, done.stderr
        outcomes = {line["line"]: line for line in map(json.loads, target.read_text().splitlines())}
        assert [outcomes[n + 1]["answer"] for n in range(3)] == ["0", "1", "2"]
        assert [outcomes[n + 1]["id"] for n in range(3)] == [line["id"] for line in lines]
        assert outcomes[4]["error"]["field"] == "id"
    asker.finals(line["id"] for line in lines)
    assert len(asker.results()) == 3
