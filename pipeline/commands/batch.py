"""``tallystream batch``: a file of requests to a file of results, in any order, resumable."""

from __future__ import annotations

import contextlib
import json
import math
import secrets
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, TextIO

import msgspec
import typer
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pipeline.client import RequestProducer, TopicFollower
from pipeline.commands.console import connected_settings, err
from pipeline.errors import DecodeError, InvalidRequestError, TallystreamError
from pipeline.events import ErrorInfo, Event, InferenceRequest, Mode, Result
from pipeline.kafka.clients import value_of
from pipeline.kafka.connect import make_codec
from pipeline.kafka.read_back import read_back
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import RESULTS

_SLACK = 60.0
_PEEK = 5.0
"""Seconds after which results from before this run are looked at for ids that lines brought along."""


@dataclass(slots=True)
class State:
    """What a killed run leaves for the next one, beside the output file.

    Attributes:
        token: prefix of the ids made for lines without one.
        sent: lines that Kafka has acknowledged, from the first on.
    """

    token: str
    sent: int = 0


@dataclass(slots=True)
class Run:
    """One batch: where results go, what an earlier run finished, and what is outstanding (id to line)."""

    out: TextIO
    earlier: frozenset[str] = frozenset()
    lines: dict[str, int] = field(default_factory=dict[str, int])
    overdue_at: dict[str, float] = field(default_factory=dict[str, float])
    finished: int = 0
    failed: int = 0

    def note(self, event: Event) -> None:
        """Take a final result of an outstanding line."""
        if isinstance(event, Result) and event.status.terminal:
            self.write(event.request_id, _outcome(event))

    def write(self, request_id: str, outcome: dict[str, Any]) -> None:
        """Write an outstanding line's outcome, once."""
        line = self.lines.pop(request_id, None)
        self.overdue_at.pop(request_id, None)
        if line is None:
            return
        self.finished += 1
        self.failed += outcome["status"] == "failed"
        self.out.write(json.dumps({"id": request_id, "line": line, **outcome}, ensure_ascii=False) + "\n")
        self.out.flush()


def batch(
    source: Annotated[
        Path, typer.Argument(metavar="IN.jsonl", exists=True, dir_okay=False, help="One request a line.")
    ],
    target: Annotated[Path, typer.Argument(metavar="OUT.jsonl", dir_okay=False, help="One result a line.")],
    mode: Annotated[Mode, typer.Option(help="For lines that name none.")] = Mode.STANDARD,
    priority: Annotated[int, typer.Option(min=0, max=5, help="For lines that name none.")] = 4,
    max_tokens: Annotated[int | None, typer.Option(help="For lines that name none.")] = None,
    deadline: Annotated[float | None, typer.Option(help="Seconds, for lines that name none.")] = None,
    outstanding: Annotated[int, typer.Option(min=1, help="Requests sent and not answered at once.")] = 256,
) -> None:
    """Send every line of IN.jsonl and write one result a line to OUT.jsonl, in the order they come.

    A line is a JSON object: "prompt" or "messages", and optionally "id", "mode", "priority", "kind", "tenant",
    "sampling" {n, temperature, top_p, top_k, min_p, repetition_penalty, max_new_tokens, seed, stop, top_logprobs},
    "deadline_ms", "cache", "metadata". Memory does not grow with the file. Run the same command again to go on where
    a run was stopped.

    Exit codes: 0 every line has an answer, 1 some failed.
    """
    settings = connected_settings()
    defaults = {"mode": mode.value, "priority": priority}
    defaults |= {"deadline_ms": round(deadline * 1000)} if deadline else {}
    run = _run(settings, source, target, defaults, max_tokens, outstanding)
    style = "yellow" if run.failed else "green"
    err.print(f"{run.finished} lines, {run.finished - run.failed} answered, {run.failed} failed", style=style)
    raise typer.Exit(1 if run.failed else 0)


def _run(
    settings: Settings,
    source: Path,
    target: Path,
    defaults: dict[str, Any],
    max_tokens: int | None,
    outstanding: int,
) -> Run:
    state_path = target.with_name(target.name + ".state")
    resumed = state_path.exists() and target.exists()
    state = (
        msgspec.json.decode(state_path.read_bytes(), type=State) if resumed else State(secrets.token_hex(6))
    )
    codec = make_codec(settings)
    follower = TopicFollower(settings, codec, [RESULTS], from_start=resumed)
    producer = RequestProducer(settings, codec)
    with source.open(encoding="utf-8") as lines:
        total = sum(1 for line in lines if line.strip())
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with (
        source.open(encoding="utf-8") as lines,
        target.open("a" if resumed else "w", encoding="utf-8") as out,
        Progress(*columns, console=err) as progress,
    ):
        earlier = _finished(target) if resumed else frozenset[str]()
        run = Run(out, earlier, finished=len(earlier))
        if resumed:
            err.print(f"going on: {run.finished} of {total} lines are finished")
        bar = progress.add_task(source.name, total=total, completed=run.finished)
        already_sent = state.sent
        sender = Sender(settings, producer, run, state, state_path, defaults, max_tokens)

        def collect(timeout: float) -> None:
            for _, event in follower.read(timeout):
                run.note(event)
            sender.look_back()
            progress.update(bar, completed=run.finished)

        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            sender.send(number, line)
            while len(run.lines) >= outstanding and number > already_sent:
                sender.checkpoint()
                collect(0.2)
        while run.lines:
            sender.checkpoint()
            collect(0.2)
    follower.close()
    state_path.unlink(missing_ok=True)
    return run


class Sender:
    """Sends lines, and keeps in the state file how far Kafka has them."""

    def __init__(
        self,
        settings: Settings,
        producer: RequestProducer,
        run: Run,
        state: State,
        state_path: Path,
        defaults: dict[str, Any],
        max_tokens: int | None,
    ) -> None:
        self._settings, self._producer, self._run = settings, producer, run
        self._state, self._state_path = state, state_path
        self._defaults, self._max_tokens = defaults, max_tokens
        self._codec = make_codec(settings)
        self._given: set[str] = set()
        self._peek_at = math.inf
        self._last = 0
        self._saved = 0.0
        self._save()

    def send(self, number: int, line: str) -> None:
        """Send a line, or only wait for it when an earlier run has sent it; a bad line fails alone."""
        request_id = f"{self._state.token}-{number}"
        try:
            request = self._read(line, request_id)
            request_id = request.request_id
            if request_id in self._run.earlier:
                return
            if request_id in self._run.lines or request_id in self._given:
                request_id = f"{self._state.token}-{number}"
                raise InvalidRequestError(
                    f"id {request.request_id!r} stands on an earlier line too", field="id"
                )
            if request_id != f"{self._state.token}-{number}":
                self._given.add(request_id)
                self._peek_at = min(self._peek_at, time.monotonic() + _PEEK)
            self._run.lines[request_id] = number
            self._run.overdue_at[request_id] = time.monotonic() + self._patience(request)
            if number > self._state.sent:
                self._producer.send(request, self._refused)
        except TallystreamError as error:
            if request_id in self._run.earlier:
                return
            problem = {"code": error.code, "message": error.message, "field": error.field}
            self._run.lines[request_id] = number
            self._run.write(request_id, {"status": "failed", "error": problem})
        self._last = number

    def look_back(self) -> None:
        """For lines that are overdue: find results that came before this run, else give the lines up.

        An id of a line's own may have been asked and answered by an earlier run.
        """
        now = time.monotonic()
        overdue = [request_id for request_id, at in self._run.overdue_at.items() if at < now]
        if not overdue and now < self._peek_at:
            return
        self._peek_at = math.inf
        places = [(RESULTS, shard) for shard in range(self._settings.shards)]
        for message in read_back(self._settings, places):
            with contextlib.suppress(DecodeError):
                self._run.note(self._codec.decode(value_of(message)))
        for request_id in overdue:
            late = {
                "code": "no_result",
                "message": "no result came by the deadline; is the pipeline running?",
            }
            self._run.write(request_id, {"status": "failed", "error": late})

    def checkpoint(self) -> None:
        """Now and then: wait for Kafka's acknowledgements, then note how far they go."""
        if self._last > self._state.sent and time.monotonic() - self._saved > 1.0:
            self._producer.flush()
            self._state.sent = self._last
            self._save()

    def _patience(self, request: InferenceRequest) -> float:
        """Seconds after which a line is overdue: its request ends by its deadline, or it was asked before."""
        limits = self._settings.limits
        own = limits.deadline_deep_ms if request.mode is Mode.DEEP else limits.deadline_ms
        return (request.deadline_ms or own) / 1000 * 1.1 + _SLACK

    def _save(self) -> None:
        draft = self._state_path.with_name(self._state_path.name + ".new")
        draft.write_bytes(msgspec.json.encode(self._state))
        draft.replace(self._state_path)
        self._saved = time.monotonic()

    def _read(self, line: str, request_id: str) -> InferenceRequest:
        try:
            given = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise InvalidRequestError(f"not a JSON object: {error}", field=None) from error
        if "id" in given:
            given["request_id"] = given.pop("id")
        try:
            request = msgspec.convert(
                {"request_id": request_id, "created_at": now_ms(), **self._defaults, **given},
                InferenceRequest,
            )
        except msgspec.ValidationError as error:
            name = str(error).rpartition("$.")[2].rstrip("`") if "$." in str(error) else None
            raise InvalidRequestError(str(error), field=name) from error
        if self._max_tokens is not None and request.sampling.max_new_tokens is None:
            sampling = replace(request.sampling, max_new_tokens=self._max_tokens)
            request = replace(request, sampling=sampling)
        return request

    def _refused(self, request_id: str, error: Any) -> None:
        if error is not None:
            info = ErrorInfo("refused_by_kafka", error.str(), retriable=bool(error.retriable()))
            self._run.write(request_id, {"status": "failed", "error": msgspec.to_builtins(info)})


def _finished(target: Path) -> frozenset[str]:
    """Ids in an output file; a line cut by a kill counts as not written."""
    done: set[str] = set()
    kept = 0
    with target.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            try:
                done.add(msgspec.json.decode(line)["id"])
            except (msgspec.DecodeError, KeyError):
                break
            kept += len(line)
    with target.open("r+b") as file:
        file.truncate(kept)
    return frozenset(done)


def _outcome(result: Result) -> dict[str, Any]:
    whole = msgspec.to_builtins(result)
    names = ("status", "answer", "confidence", "votes", "error", "clarifying_question", "usage", "metadata")
    texts = {chain.sample_index: chain.text for chain in result.reasoning}
    chosen = texts.get(result.chosen_sample if result.chosen_sample is not None else min(texts, default=0))
    took = result.timings.finished_at - result.timings.created_at
    return {name: whole[name] for name in names} | {"text": chosen, "took_ms": took}
