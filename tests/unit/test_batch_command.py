"""The parts of ``tallystream batch`` that need no Kafka."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.commands.batch import Run, Sender, State, _finished
from pipeline.errors import InvalidRequestError
from pipeline.events import InferenceRequest, Kind, Mode
from pipeline.settings import load_settings


class Producer:
    """Takes requests; refuses those of tenant ``nobody``."""

    def __init__(self) -> None:
        self.sent: list[InferenceRequest] = []
        self.flushes = 0

    def send(self, request: InferenceRequest, delivered: Any = None) -> None:
        if request.tenant == "nobody":
            raise InvalidRequestError("tenant is unknown", field="tenant")
        self.sent.append(request)

    def flush(self) -> None:
        self.flushes += 1


class Desk:
    """A sender with everything that it touches."""

    def __init__(self, folder: Path, *, earlier: frozenset[str] = frozenset(), sent: int = 0) -> None:
        self.out, self.producer = io.StringIO(), Producer()
        self.run = Run(self.out, earlier)
        self.state_path = folder / "out.jsonl.state"
        self.sender = Sender(
            load_settings(),
            self.producer,  # type: ignore[arg-type]
            self.run,
            State("tok", sent),
            self.state_path,
            {"mode": "fast", "priority": 4},
            64,
        )

    def written(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.getvalue().splitlines()]


def test_lines_become_requests(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.sender.send(1, '{"prompt": "六乘七?"}')
    desk.sender.send(
        2,
        '{"id": "mine", "prompt": "a", "mode": "deep", "kind": "code", "sampling": {"n": 2}, "priority": 0}',
    )
    desk.sender.send(3, '{"prompt": "a", "sampling": {"max_new_tokens": 9}, "metadata": {"k": "v"}}')
    first, second, third = desk.producer.sent
    assert (first.request_id, first.prompt, first.mode, first.priority) == ("tok-1", "六乘七?", Mode.FAST, 4)
    assert first.created_at > 0 and first.sampling.max_new_tokens == 64
    assert (second.request_id, second.mode, second.kind, second.priority) == ("mine", Mode.DEEP, Kind.CODE, 0)
    assert (second.sampling.n, second.sampling.max_new_tokens) == (2, 64)
    assert (third.sampling.max_new_tokens, third.metadata) == (9, {"k": "v"})
    assert desk.run.lines == {"tok-1": 1, "mine": 2, "tok-3": 3}


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("{", None),
        ("[1]", None),
        ("nonsense", None),
        ('{"prompt": 5}', "prompt"),
        ('{"prompt": "a", "mode": "slow"}', "mode"),
        ('{"prompt": "a", "sampling": {"n": "two"}}', "sampling.n"),
        ('{"prompt": "a", "sampling": 3}', "sampling"),
        ('{"messages": [{"role": "user"}]}', "messages[0]"),
        ('{"prompt": "a", "tenant": "nobody"}', "tenant"),
    ],
)
def test_a_bad_line_fails_alone_and_names_its_field(tmp_path: Path, line: str, field: str | None) -> None:
    desk = Desk(tmp_path)
    desk.sender.send(1, line)
    desk.sender.send(2, '{"prompt": "good"}')
    (bad,) = desk.written()
    assert (bad["id"], bad["line"], bad["status"]) == ("tok-1", 1, "failed")
    assert (bad["error"]["code"], bad["error"]["field"]) == ("invalid_request", field)
    assert [request.request_id for request in desk.producer.sent] == ["tok-2"]
    assert (desk.run.finished, desk.run.failed, desk.run.lines) == (1, 1, {"tok-2": 2})


def test_a_run_that_goes_on_sends_only_what_is_missing(tmp_path: Path) -> None:
    desk = Desk(tmp_path, earlier=frozenset({"tok-1"}), sent=2)
    for number in (1, 2, 3):
        desk.sender.send(number, '{"prompt": "a"}')
    assert [request.request_id for request in desk.producer.sent] == ["tok-3"]
    assert desk.run.lines == {"tok-2": 2, "tok-3": 3}


def test_a_bad_line_that_an_earlier_run_wrote_is_not_written_again(tmp_path: Path) -> None:
    desk = Desk(tmp_path, earlier=frozenset({"tok-1"}), sent=1)
    desk.sender.send(1, "{")
    assert desk.written() == []
    assert desk.run.finished == 0


def test_an_outcome_is_written_once(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.sender.send(1, '{"prompt": "a"}')
    for _ in range(2):
        desk.run.write("tok-1", {"status": "done", "answer": "四十二"})
    assert desk.out.getvalue() == '{"id": "tok-1", "line": 1, "status": "done", "answer": "四十二"}\n'


LINES = [json.dumps({"id": name, "line": 1, "text": "甲"}, ensure_ascii=False) for name in ("a", "b")]
WHOLE = ("\n".join(LINES) + "\n").encode()


@pytest.mark.parametrize(
    "cut", [0, 1, 9, len(LINES[1].encode()) // 2, len(LINES[1].encode()), len(WHOLE) // 2]
)
def test_a_line_cut_by_a_kill_counts_as_not_written(tmp_path: Path, cut: int) -> None:
    target = tmp_path / "out.jsonl"
    target.write_bytes(WHOLE[: len(WHOLE) // 2 + cut])
    done = _finished(target)
    assert done == ({"a", "b"} if cut == len(WHOLE) // 2 else {"a"})
    assert target.read_bytes() == b"".join(WHOLE.splitlines(keepends=True)[: len(done)])


def test_an_empty_output_file(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.touch()
    assert _finished(target) == frozenset()
