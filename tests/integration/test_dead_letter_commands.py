"""``tallystream dead-letters``: what a person sees, and that a record is sent again once, whatever happens."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from pipeline.errors import FencedError
from pipeline.events import Callback, Delivery, DeliveryState, InferenceRequest, Status
from pipeline.ids import new_request_id
from pipeline.kafka.dead_letters import PREFIX, REPLAYED, Source
from pipeline.kafka.read_back import read_back
from pipeline.replay.letters import Selection
from pipeline.replay.resend import Plan, Replay
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import DEAD_LETTERS, PRIORITIES, REQUESTS, request_partition
from tests.e2e.commands import tallystream
from tests.integration.asker import Asker
from tests.integration.killed import environment_of, killed_before_each_call
from tests.integration.running import Running

pytestmark = pytest.mark.integration


def misplace(
    asker: Asker, count: int, stage: str, callback: Callback | None = None
) -> list[InferenceRequest]:
    """Put good requests on wrong partitions and wait until they are dead letters; the tenant is ``stage``."""
    requests = [
        InferenceRequest(
            new_request_id(now_ms()), f"answers=7 {stage} {number}", tenant=stage, callback=callback
        )
        for number in range(count)
    ]
    for request in requests:
        right = request_partition(request.request_id, request.priority, asker.settings.shards)
        asker.put(request, partition=(right + 1) % (PRIORITIES * asker.settings.shards))
    for request in requests:
        assert asker.dead_letter(asker.codec.encode(request))["code"] == "wrong_partition"
    return requests


def replayed(settings: Settings) -> Counter[str]:
    """How often a record with each letter's place as its origin stands on requests."""
    places = [(REQUESTS, partition) for partition in range(PRIORITIES * settings.shards)]
    found: Counter[str] = Counter()
    for message in read_back(settings, places):
        origin = dict(Source.of(message).headers).get(REPLAYED + "from")
        if origin is not None:
            found[origin.decode()] += 1
    return found


def letter_of(asker: Asker, request: InferenceRequest) -> Source:
    value = asker.codec.encode(request)
    return next(letter for letter in asker.dead if letter.value == value)


def place(letter: Source) -> str:
    return f"{DEAD_LETTERS}[{letter.partition}]@{letter.offset}"


def test_replaying_five_letters_twice_gives_five_results_and_five_callbacks(
    asker: Asker, running: Running
) -> None:
    requests = misplace(asker, 5, "twice", Callback(running.receiver.url))
    ids = [request.request_id for request in requests]
    by_code = ["--code", "wrong_partition", "--stage", "batcher", "--topic", REQUESTS]
    dry = tallystream("dead-letters", "replay", *by_code, env=environment_of(asker.settings))
    assert dry.returncode == 0, dry.stderr
    assert "add --apply" in dry.stderr
    assert all(request_id[:20] in dry.stdout for request_id in ids)
    assert not {place(letter_of(asker, request)) for request in requests} & set(replayed(asker.settings))

    first = tallystream("dead-letters", "replay", "--apply", *by_code, env=environment_of(asker.settings))
    assert first.returncode == 0, first.stderr
    assert asker.finals(ids).keys() == set(ids)
    again = tallystream("dead-letters", "replay", "--apply", *by_code, env=environment_of(asker.settings))
    assert (again.returncode, "0 dead letters sent again" in again.stderr) == (0, True), again.stderr

    # And were the records sent again all the same: an id is answered once.
    for request in requests:
        asker.put(request)
    after = asker.ask("answers=1", callback=Callback(running.receiver.url))
    asker.finals([after])
    asker.until(
        lambda: {*ids, after} <= {d.request_id for d in delivered(asker)}, "callbacks of all requests"
    )
    results = Counter(result.request_id for result in asker.results())
    callbacks = Counter(delivery.request_id for delivery in delivered(asker))
    assert [results[i] for i in ids] == [1] * 5
    assert [callbacks[i] for i in ids] == [1] * 5
    assert len({d.delivery_id for d in asker.of(Delivery) if d.request_id in ids}) == 5


def delivered(asker: Asker) -> list[Delivery]:
    return [d for d in asker.of(Delivery) if d.state is DeliveryState.DELIVERED]


def test_a_replay_killed_before_each_of_its_calls_sends_every_letter_once(asker: Asker) -> None:
    requests = misplace(asker, 9, "killed")
    ids = [request.request_id for request in requests]
    run, kills = killed_before_each_call(
        *("dead-letters", "replay", "--apply", "--code", "wrong_partition"),
        env=environment_of(asker.settings),
        lot=2,
    )
    assert run.returncode == 0, run.stderr
    assert kills >= 4, "killed before begin, before commit, and between transactions"
    assert asker.finals(ids).keys() == set(ids)
    counts = replayed(asker.settings)
    assert [counts[place(letter_of(asker, request))] for request in requests] == [1] * 9
    assert max(counts.values()) == 1
    assert max(Counter(result.request_id for result in asker.results()).values()) == 1


def test_a_second_replay_ends_the_first_and_nothing_is_sent_twice(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = misplace(asker, 4, "fenced")
    monkeypatch.setattr("pipeline.kafka.command_writer._MOST_UNITS", 1)
    begun: list[int] = []

    def another(_: Plan, sent: int) -> None:
        begun.append(sent)
        if sent == 1:
            Replay(asker.settings, asker.codec).apply(Selection(), None, lambda plan, sent: None)

    with pytest.raises(FencedError, match="another replay"):
        Replay(asker.settings, asker.codec).apply(Selection(), None, another)
    assert begun == [0, 1]
    counts = replayed(asker.settings)
    assert [counts[place(letter_of(asker, request))] for request in requests] == [1] * 4


def test_what_fails_again_keeps_its_first_time_and_one_set_of_headers(asker: Asker) -> None:
    value = b'{"prompt": "again and again"}'
    own = [("traceparent", b"00-abc"), ("same", b"1"), ("same", None), ("empty", b"")]
    partition = request_partition("x", 3, asker.settings.shards)
    asker.put_bytes(value, partition, b"again", own)
    asker.dead_letter(value)
    for attempt in (2, 3):
        done = tallystream(
            "dead-letters", "replay", "--apply", "--key", "again", env=environment_of(asker.settings)
        )
        assert done.returncode == 0, done.stderr
        asker.until(
            lambda count=attempt: sum(letter.value == value for letter in asker.dead) == count,
            "the next letter",
        )
    first, *_, last = [letter for letter in asker.dead if letter.value == value]
    assert list(last.headers[: len(own)]) == own
    names = [name for name, _ in last.headers[len(own) :]]
    assert names == [name for name, _ in first.headers[len(own) :]]
    assert all(name.startswith(PREFIX) for name in names)
    before, after = dict(first.headers), dict(last.headers)
    assert (before[PREFIX + "attempts"], after[PREFIX + "attempts"]) == (b"1", b"3")
    assert after[PREFIX + "first_seen"] == before[PREFIX + "first_seen"] == before[PREFIX + "timestamp"]
    assert after[PREFIX + "offset"] != before[PREFIX + "offset"]
    assert (last.key, last.partition) == (first.key, first.partition)


def test_list_and_show_say_what_is_there(asker: Asker) -> None:
    request = misplace(asker, 1, "shown")[0]
    letter = letter_of(asker, request)
    letter_id = f"{letter.partition}:{letter.offset}"
    garbage = b"\x01[red]\x1b[2J\xff" + b"g" * 5_000
    asker.put_bytes(garbage, 0, b"[bold]\x1b[31m", [("null", None), ("strange", b"\xff\x00")])
    asker.dead_letter(garbage)
    bad = next(each for each in asker.dead if each.value == garbage)
    settings = environment_of(asker.settings)

    listed = tallystream("dead-letters", "list", "--key", request.request_id, "--json", env=settings)
    assert listed.returncode == 0, listed.stderr
    (entry,) = map(json.loads, listed.stdout.splitlines())
    assert (entry["id"], entry["code"], entry["stage"]) == (letter_id, "wrong_partition", "batcher")
    assert (entry["attempts"], entry["replayed_at"]) == (1, None)
    table = tallystream("dead-letters", "list", "--since", "1h", env=settings)
    assert letter_id in table.stdout
    assert "wrong_partition" in table.stdout
    assert "\x1b" not in table.stdout
    none = tallystream("dead-letters", "list", "--until", "2001-01-01", env=settings)
    assert (none.returncode, none.stdout) == (1, "")

    shown = tallystream("dead-letters", "show", letter_id, env=settings)
    assert shown.returncode == 0, shown.stderr
    assert "InferenceRequest" in shown.stdout
    assert request.prompt in shown.stdout
    dump = tallystream("dead-letters", "show", f"{bad.partition}:{bad.offset}", env=settings)
    assert "01 5b 72 65 64 5d 1b" in dump.stdout
    assert "more bytes" in dump.stdout
    assert "\x1b" not in dump.stdout
    assert "0xff00" in dump.stdout

    missing = tallystream("dead-letters", "show", "0:999999999", env=settings)
    assert (missing.returncode, "dead-letters list" in missing.stderr) == (1, True)
    wrong = tallystream("dead-letters", "show", "seventeen", env=settings)
    assert (wrong.returncode, "0:17" in wrong.stderr) == (2, True)
    when = tallystream("dead-letters", "replay", "--since", "soon", env=settings)
    assert (when.returncode, "--since" in when.stderr) == (2, True)


def test_what_can_not_be_sent_again_is_named_and_the_others_go(asker: Asker) -> None:
    good = misplace(asker, 1, "mixed")[0]
    foreign = [
        (PREFIX + "code", b"x"),
        (PREFIX + "topic", b"elsewhere"),
        (PREFIX + "partition", b"0"),
        (PREFIX + "offset", b"1"),
    ]
    asker.put_bytes(b"not ours", 0, b"mixed", foreign, topic=DEAD_LETTERS)
    asker.put_bytes(None, 0, b"mixed", None, topic=DEAD_LETTERS)
    done = tallystream(
        "dead-letters", "replay", "--apply", "--since", "1h", env=environment_of(asker.settings)
    )
    assert done.returncode == 1, done.stderr
    assert "none of this pipeline's partitions" in done.stdout.replace("\n", " ")
    assert asker.finals([good.request_id])[good.request_id].status is Status.DONE
