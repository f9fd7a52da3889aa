"""``tallystream revote`` and ``explain`` beside a live aggregator, on votes whose outcome hangs on the policy."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest

from pipeline.events import FinishReason, Kind, Mode, Opened, Result, Role, Sample, SampleTimings, Status
from pipeline.ids import new_request_id
from pipeline.kafka.clients import value_of
from pipeline.kafka.read_back import read_back
from pipeline.telemetry import now_ms
from pipeline.topics import RESULTS, SAMPLES, shard_of
from tests.e2e.commands import tallystream
from tests.integration.asker import Asker
from tests.integration.killed import environment_of, killed_before_each_call

pytestmark = pytest.mark.integration

BY_CONFIDENCE = '{"rule": "scored", "share_weight": 0, "min_share": 0}'


@pytest.fixture
def env(asker: Asker) -> dict[str, str]:
    return environment_of(asker.settings)


@pytest.fixture
def by_confidence(tmp_path: Path) -> str:
    file = tmp_path / "policy.json"
    file.write_text(BY_CONFIDENCE)
    return str(file)


def voted(asker: Asker, count: int) -> dict[str, Result]:
    """Requests of which two unsure samples say 7 and a sure one says 8, as the live aggregator decides them."""
    ids = [new_request_id(now_ms()) for _ in range(count)]
    for request_id in ids:
        now = now_ms()
        marker = Opened(
            request_id, 0, "t", 3, Mode.STANDARD, Kind.ANSWER, now, now, now + 300_000, 3, metadata={"a": "b"}
        )
        drawn = [sample(request_id, 0, 8, 0.9), sample(request_id, 1, 7, 0.5), sample(request_id, 2, 7, 0.4)]
        for event in (marker, *drawn):
            shard = shard_of(request_id, asker.settings.shards)
            asker.put_bytes(asker.codec.encode(event), shard, request_id.encode(), topic=SAMPLES)
    finals = asker.finals(ids)
    assert {result.answer for result in finals.values()} == {"7"}
    return finals


def sample(request_id: str, index: int, answer: int, probability: float) -> Sample:
    now = now_ms()
    return Sample(
        request_id=request_id,
        run=0,
        sample_index=index,
        role=Role.ANSWER,
        path="direct",
        text=f"On way {index} I found it.\nThe answer is {answer}.",
        finish_reason=FinishReason.STOP,
        prompt_tokens=9,
        completion_tokens=11,
        mean_logprob=math.log(probability),
        seed=index,
        temperature=0.5,
        timings=SampleTimings(now, now, now, now),
        worker="w",
    )


def results_of(asker: Asker, ids: set[str]) -> list[Result]:
    """Everything on ``results`` for these requests, repetitions and all."""
    places = [(RESULTS, shard) for shard in range(asker.settings.shards)]
    events = [asker.codec.decode(value_of(message)) for message in read_back(asker.settings, places)]
    return [event for event in events if isinstance(event, Result) and event.request_id in ids]


def test_a_dry_run_tells_and_an_application_killed_anywhere_publishes_once(
    asker: Asker, env: dict[str, str], by_confidence: str
) -> None:
    before = voted(asker, 3)
    ids = set(before)
    argv = ["revote", "--from", "1h", "--policy", by_confidence]

    same = tallystream("revote", "--from", "1h", "--json", env=env)
    assert same.returncode == 0, same.stderr
    assert not any(request_id in same.stdout for request_id in ids), "the policy in force changes nothing"

    dry = tallystream(*argv, "--json", env=env)
    assert dry.returncode == 0, dry.stderr
    told = {line["request_id"]: line for line in map(json.loads, dry.stdout.splitlines())}
    assert ids <= told.keys()
    for request_id in ids:
        line = told[request_id]
        assert (line["was"]["answer"], line["now"]["answer"], line["revision"]) == ("7", "8", 1)
        assert "2 votes" in line["why"]
    assert "dry run" in dry.stderr
    assert len(results_of(asker, ids)) == 3

    run, kills = killed_before_each_call(*argv, "--apply", env=env, lot=2)
    assert run.returncode == 0, run.stderr
    assert kills >= 3, "killed before begin, before commit, and between transactions"
    found = results_of(asker, ids)
    assert Counter((r.request_id, r.revision) for r in found) == Counter((i, n) for i in ids for n in (0, 1))
    for result in found:
        if result.revision == 1:
            old = before[result.request_id]
            assert (result.answer, result.chosen_sample, result.status) == ("8", 0, Status.DONE)
            assert (result.metadata, result.usage) == (old.metadata, old.usage)

    again = tallystream(*argv, "--apply", env=env)
    assert (again.returncode, "0 answers changed" in again.stderr) == (0, True), again.stderr
    # The aggregator that serves these partitions was not fenced by any of it.
    after = asker.ask("answers=5")
    assert asker.finals([after])[after].answer == "5"


def test_a_result_is_explained(asker: Asker, env: dict[str, str], by_confidence: str) -> None:
    request_id = next(iter(voted(asker, 1)))
    shown = tallystream("explain", request_id, env=env)
    assert shown.returncode == 0, shown.stderr
    for part in ("groups", "chains", "time", "7", "8", "#0", "#2", "On way 1 I found it.", "2 of 3 votes"):
        assert part in shown.stdout
    assert "\x1b" not in shown.stdout
    whole = json.loads(tallystream("explain", request_id, "--json", env=env).stdout)
    assert (whole["request_id"], whole["answer"], len(whole["reasoning"])) == (request_id, "7", 3)

    changed = tallystream("revote", "--from", "1h", "--policy", by_confidence, "--apply", env=env)
    assert changed.returncode == 0, changed.stderr
    newest = tallystream("explain", request_id, env=env)
    assert "revision 1" in newest.stdout

    missing = tallystream("explain", f"{request_id}-not", env=env)
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "no result of" in missing.stderr
    other_run = tallystream("explain", request_id, "--run", "3", env=env)
    assert (other_run.returncode, "there is run 0" in other_run.stderr) == (1, True)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--from", "soon"), "--from"),
        (("--from", "1h", "--to", "2h"), "--to"),
        (("--from", "1h", "--policy", "no-such.json"), "no-such.json"),
    ],
)
def test_a_mistake_is_one_line(env: dict[str, str], argv: tuple[str, ...], said: str) -> None:
    done = tallystream("revote", *argv, env=env)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_time_without_requests_is_a_no(env: dict[str, str]) -> None:
    done = tallystream("revote", "--from", "2001-01-01", "--to", "2001-01-02", env=env)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
