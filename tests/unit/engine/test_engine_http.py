"""The engine ``http`` against a real server with every fault that one can have."""

from __future__ import annotations

import random
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from engine_support import Recorder, run_all, task
from model_server import (
    ModelServer,
    disconnect,
    event,
    event_of,
    model_server,
    saying,
    status,
    stream,
    texts_of,
    usage,
)
from structlog.testing import capture_logs

from pipeline.engine.base import Position, TokenLogprob
from pipeline.engine.factory import create_engine
from pipeline.engine.http_engine import HttpEngine
from pipeline.errors import ConfigError, ModelLoadError, ModelServerDownError
from pipeline.events import FinishReason
from pipeline.settings import Settings, load_settings


def http_settings(server: ModelServer | None, rows: int = 4, **options: Any) -> Settings:
    options = {"url": server.url if server else "", "retry_delay": 0.001, "retry_delay_most": 0.01} | options
    return load_settings(engine={"name": "http", "rows": rows}, http_engine=options)


@contextmanager
def engine_on(server: ModelServer, rows: int = 4, **options: Any):
    engine, recorder = create_engine(http_settings(server, rows, **options)), Recorder()
    assert isinstance(engine, HttpEngine)
    engine.start(recorder)
    try:
        yield engine, recorder
    finally:
        engine.close()


def test_a_sample_is_what_the_server_streams():
    with model_server(saying("Paris.")) as server, engine_on(server) as (engine, recorder):
        [done] = run_all(engine, recorder, [task("a", max_new_tokens=9, seed=5, top_p=0.5, stop=("\n",))])
    assert (done.text, done.finish_reason, done.error) == ("Paris.", FinishReason.STOP, None)
    assert (done.prompt_tokens, done.completion_tokens, done.mean_logprob) == (7, 6, -0.5)
    assert recorder.pieces[done.key] == list("Paris.")
    [body] = server.calls
    assert body["model"] == "tiny" and body["messages"] == [{"role": "user", "content": "hello"}]
    assert (body["max_tokens"], body["seed"], body["top_p"], body["stop"]) == (9, 5, 0.5, ["\n"])
    assert body["stream"] and not {"n", "top_k", "min_p", "repetition_penalty"} & set(body)


@pytest.mark.parametrize(
    "fault",
    [
        status(429, **{"Retry-After": "0"}),
        status(500),
        status(503, ["not", "an", "error"]),
        disconnect,
        stream(*texts_of("Pa"), drop=True),
        stream(*texts_of("Pa")),
        stream(event("Pa"), "{garbage"),
        stream(event("Pa"), '{"choices": 7}'),
        stream({"error": {"message": "cuda", "code": 500}}),
        stream({"error": "cuda"}),
        stream(event("Pa", "abort")),
    ],
)
def test_a_fault_that_may_pass_costs_a_repetition_and_no_sample(fault):
    with model_server(fault, saying("Paris")) as server, engine_on(server) as (engine, recorder):
        [done] = run_all(engine, recorder, [task("a", seed=1)])
    assert (done.text, done.finish_reason, len(server.calls)) == ("Paris", FinishReason.STOP, 2)
    assert recorder.streamed(done.key) == "Paris"


def test_a_repetition_that_says_something_else_is_not_joined_to_what_was_shown():
    first = stream(*texts_of("Rome"), drop=True)
    with model_server(first, saying("Paris")) as server, engine_on(server) as (engine, recorder):
        [done] = run_all(engine, recorder, [task("a")])
    assert done.text == "Paris"
    assert recorder.streamed(done.key) == "Rome"


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        (status(400, {"error": {"message": "top_p is odd"}}), "server_refused", "top_p is odd"),
        (status(422, {"detail": "unexpected field"}), "server_refused", "unexpected field"),
        (status(401), "server_access", "API_KEY"),
        (status(404), "server_access", "MODEL"),
        (status(302, Location="http://127.0.0.1:1/"), "server_refused", "302"),
        (
            status(400, {"error": {"message": "4097 tokens", "code": "context_length_exceeded"}}),
            "prompt_too_long",
            "4097",
        ),
        (stream({"error": {"message": "bad", "code": 400}}), "server_refused", "bad"),
        (stream(event("Pa", "content_filter")), "server_refused", "filtered"),
        (status(200, {"choices": []}), "server_refused", "stream"),
    ],
)
def test_a_refusal_ends_the_sample_at_once_and_says_why(answer, code, says):
    with model_server(answer) as server, engine_on(server) as (engine, recorder):
        [done] = run_all(engine, recorder, [task("a")])
    assert done.finish_reason is FinishReason.ERROR and done.error is not None
    assert (done.error.code, done.error.retriable, len(server.calls)) == (code, False, 1)
    assert says in done.error.message


def test_bad_tasks_never_reach_the_server():
    bad = [
        task("t", temperature=-1),
        task("p", top_p=0),
        task("n", max_new_tokens=0),
        task("e", prompt="  "),
        task("s", stop=(3,)),
        task("l", top_logprobs=21),
        replace(task("i"), images=(b"x",)),
    ]
    with model_server(saying("Paris")) as server, engine_on(server) as (engine, recorder):
        done = run_all(engine, recorder, [*bad, task("good")])
    assert [one.error and one.error.code for one in done] == [
        *["invalid_sampling"] * 3,
        "empty_prompt",
        *["invalid_sampling"] * 2,
        "unsupported_sampling",
        None,
    ]
    assert len(server.calls) == 1


def test_cancel_keeps_the_text_and_closes_the_connection():
    with (
        model_server(stream(*texts_of("Par"), hang=True)) as server,
        engine_on(server) as (engine, recorder),
    ):
        one = task("a")
        assert engine.submit(one) and not engine.submit(one)
        recorder.wait_tokens(one.key, 3)
        engine.cancel(one.key)
        done = recorder.wait_done(1)[one.key]
        server.wait_for(lambda: server.gone == 1)
        engine.cancel(one.key)
        assert engine.capacity() == 4
    assert (done.text, done.finish_reason, len(recorder.completions)) == ("Par", FinishReason.CANCELLED, 1)
    assert done.completion_tokens == 3


def test_the_deadline_ends_a_drip_with_the_text_so_far():
    with (
        model_server(stream(*texts_of("Par"), hang=True)) as server,
        engine_on(server) as (engine, recorder),
    ):
        [done] = run_all(engine, recorder, [task("a", deadline=time.time() + 0.5)])
        server.wait_for(lambda: server.gone == 1)
    assert (done.text, done.finish_reason) == ("Par", FinishReason.TIMEOUT)


def test_a_silent_server_is_asked_again():
    with (
        model_server(stream(event("Pa"), hang=True), saying("Paris")) as server,
        engine_on(server, idle_timeout=0.2) as (engine, recorder),
    ):
        [done] = run_all(engine, recorder, [task("a")])
    assert (done.text, len(server.calls)) == ("Paris", 2)


def test_retry_after_is_obeyed_and_the_deadline_still_holds():
    with (
        model_server(status(429, **{"Retry-After": "3600"}), saying("Paris")) as server,
        engine_on(server) as (engine, recorder),
    ):
        [done] = run_all(engine, recorder, [task("a", deadline=time.time() + 0.5)])
    assert (done.finish_reason, len(server.calls)) == (FinishReason.TIMEOUT, 1)


def test_without_usage_and_log_probabilities_the_pieces_are_counted():
    bare = stream(*texts_of(["Pa", "ris"]), event("", "length"))
    with model_server(bare) as server, engine_on(server, logprobs=False) as (engine, recorder):
        [done] = run_all(engine, recorder, [task("a")])
    assert (done.prompt_tokens, done.completion_tokens, done.mean_logprob) == (0, 2, None)
    assert done.finish_reason is FinishReason.LENGTH and "logprobs" not in server.calls[0]


def spoken(*tokens: str) -> list[dict[str, Any]]:
    """An event a token, each token the likeliest by far."""
    return [event_of(token, (token, -0.25, {token: -0.25, "?": -2.5})) for token in tokens]


def test_log_probabilities_by_token_are_the_server_s_best_first_and_as_many_as_asked():
    three = {"Rome": -3.0, "Paris": -0.5, "Nice": -2.0}
    answer = stream(
        event_of("Paris", ("Paris", -0.5, three)), event_of("", ("</s>", -0.25, {})), event("", "stop")
    )
    with model_server(answer) as server, engine_on(server, logprobs=False) as (engine, recorder):
        asked = [task(f"top {top}", top_logprobs=top) for top in (None, 0, 2)]
        none, own, two = run_all(engine, recorder, asked)
    drawn = [TokenLogprob(None, -0.5, "Paris"), TokenLogprob(None, -0.25, "</s>")]
    likeliest = (drawn[0], TokenLogprob(None, -2.0, "Nice"))
    assert (none.positions, none.mean_logprob) == ((), -0.375)
    assert own.positions == tuple(map(Position, drawn))
    assert two.positions == (Position(drawn[0], likeliest), Position(drawn[1]))
    bodies = {(body.get("logprobs"), body.get("top_logprobs")) for body in server.calls}
    assert bodies == {(None, None), (True, None), (True, 2)}


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        (spoken("one", " ", "ST", "OP", " two"), ["one", " "]),
        ([*spoken("one", " "), event_of("", ("STOP", -1.0, {})), event("", "stop")], ["one", " "]),
        (
            [
                event_of("", ("one", -1.0, {}), (" ", -1.0, {})),
                event_of("one ST", ("ST", -1.0, {})),
                *spoken("OP"),
            ],
            ["one", " ", "ST"],
        ),
        ([*spoken("one", " S"), event("", "stop")], ["one", " S"]),
    ],
    ids=["cut here", "cut there", "text comes late", "no stop text"],
)
def test_what_a_stop_text_cuts_off_has_no_log_probability(events, kept):
    """A server whose text lags behind its tokens does not say where they begin: then one too many may stay."""
    with model_server(stream(*events)) as server, engine_on(server) as (engine, recorder):
        [done] = run_all(engine, recorder, [task("a", stop=("STOP",), top_logprobs=1)])
    assert done.text in ("one ", "one S")
    assert [position.drawn.text for position in done.positions] == kept


def test_a_repeated_call_gives_the_log_probabilities_of_its_own_text():
    first, second = stream(*spoken("Ro", "me"), drop=True), stream(*spoken("Par", "is"), event("", "stop"))
    with model_server(first, second) as server, engine_on(server) as (engine, recorder):
        [done] = run_all(engine, recorder, [task("a", top_logprobs=1)])
    assert [position.drawn.text for position in done.positions] == ["Par", "is"]


def test_a_stop_text_holds_whatever_the_server_does_about_it():
    deaf = stream(*texts_of(["one", " ST", "OP", " two"]), hang=True)
    with model_server(deaf) as server, engine_on(server) as (engine, recorder):
        [done] = run_all(engine, recorder, [task("a", stop=("STOP",))])
        server.wait_for(lambda: server.gone == 1)
    assert (done.text, done.finish_reason) == ("one ", FinishReason.STOP)
    assert recorder.streamed(done.key) == "one "


def test_never_more_calls_at_once_than_rows():
    slow = stream(event("x"), hang=True)
    with model_server(slow) as server, engine_on(server, rows=2) as (engine, recorder):
        tasks = [task(i) for i in range(6)]
        assert engine.capacity() == 2
        assert all(engine.submit(each) for each in tasks)
        assert engine.capacity() == 0
        server.wait_for(lambda: len(server.calls) == 2)
        engine.cancel(tasks[5].key)  # one that waits
        recorder.wait_done(1)
        server.then(saying("x"))
        server.let_go()
        found = recorder.wait_done(6)
    assert server.most == 2
    assert found[tasks[5].key].finish_reason is FinishReason.CANCELLED


def test_unseeded_siblings_share_a_call_where_the_server_can():
    three = stream(
        *(event(letter, index=index) for index, letter in enumerate("abc")),
        *(event("", "stop", index=index) for index in range(3)),
        usage(7, 3),
    )
    with (
        model_server(three) as server,
        engine_on(server, rows=3, share_calls_ms=60_000) as (engine, recorder),
    ):
        done = run_all(engine, recorder, [task("r", index=index) for index in range(3)])
    assert [body["n"] for body in server.calls] == [3]
    assert [one.text for one in done] == ["a", "b", "c"]


def test_one_of_several_in_a_call_can_be_cancelled_and_only_the_rest_is_asked_again():
    first = stream(event("a"), event("b", index=1), event("", "stop"), hang=True)
    with (
        model_server(first, saying("ok")) as server,
        engine_on(server, rows=3, share_calls_ms=60_000, idle_timeout=0.5) as (
            engine,
            recorder,
        ),
    ):
        tasks = [task("r", index=index) for index in range(3)]
        assert all(engine.submit(each) for each in tasks)
        recorder.wait_tokens(tasks[1].key)
        engine.cancel(tasks[1].key)
        found = recorder.wait_done(3)
    assert [found[each.key].text for each in tasks] == ["a", "b", "ok"]
    assert found[tasks[1].key].finish_reason is FinishReason.CANCELLED
    assert [body.get("n") for body in server.calls] == [3, None]


def test_seeded_samples_go_one_a_call():
    with model_server(saying("ok")) as server, engine_on(server, share_calls_ms=60_000) as (engine, recorder):
        run_all(engine, recorder, [task("r", index=index, seed=index) for index in range(3)])
    assert sorted(body["seed"] for body in server.calls) == [0, 1, 2]


def test_while_the_server_is_away_one_task_finds_out():
    with model_server(status(503)) as server, engine_on(server, retry_delay_most=0.05) as (engine, recorder):
        one = task("a")
        engine.submit(one)
        server.wait_for(lambda: len(server.calls) >= 3)
        assert engine.capacity() == 0
        engine.cancel(one.key)
        recorder.wait_done(1)
        assert engine.capacity() == 1
        server.then(saying("ok"))
        run_all(engine, Waiting(recorder, 2), [task("b")])
        assert engine.capacity() == 4


class Waiting:
    """A recorder that has heard of some ends already."""

    def __init__(self, recorder: Recorder, ends: int) -> None:
        self._recorder, self._ends = recorder, ends

    def wait_done(self, _: int):
        return self._recorder.wait_done(self._ends)


def test_a_start_waits_for_the_server_but_not_for_ever():
    with model_server(saying("ok")) as server:
        server.models = status(503)
        engine = create_engine(http_settings(server, start_timeout=0.05))
        with pytest.raises(ModelServerDownError, match="503"):
            engine.start(Recorder())
        engine.close()
    engine = create_engine(http_settings(None, url=server.url, start_timeout=0.05))
    with pytest.raises(ModelServerDownError, match="No answer from"):
        engine.start(Recorder())
    engine.close()
    engine.close()


@pytest.mark.parametrize(
    ("models", "options", "says"),
    [
        (status(401), {}, "API_KEY"),
        (status(404), {}, "URL"),
        (status(200, {"data": []}), {}, "HTTP_ENGINE__MODEL"),
        (status(200, {"models": 3}), {}, "HTTP_ENGINE__MODEL"),
    ],
)
def test_a_start_says_what_is_wrong(models, options, says):
    with model_server(saying("ok")) as server:
        server.models = models
        engine = create_engine(http_settings(server, **options))
        with pytest.raises(ModelLoadError, match=says):
            engine.start(Recorder())
        engine.close()


@pytest.mark.parametrize("code", [404, 500])
def test_a_server_without_a_list_of_models_is_taken_at_its_name(code):
    with model_server(saying("ok")) as server:
        server.models = status(code)
        with engine_on(server, model="mine") as (engine, recorder):
            run_all(engine, recorder, [task("a")])
    assert server.calls[0]["model"] == "mine"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"url": ""}, "not set"),
        ({"url": "localhost:8000"}, "http"),
        ({"url": "http://x:99999"}, "URL"),
        ({"url": "http://x", "api_key_file": "/nowhere"}, "API_KEY_FILE"),
        ({"url": "http://x", "api_key": "a\nb"}, "characters"),
    ],
)
def test_wrong_settings_are_named(options, says):
    with pytest.raises(ConfigError, match=says):
        create_engine(http_settings(None, **options))


def test_the_key_is_sent_and_never_shown(tmp_path):
    file = tmp_path / "key"
    file.write_text("sk-secret\n")
    with capture_logs() as logs, model_server(status(503), status(401)) as server:
        with engine_on(server, api_key_file=file) as (engine, recorder):
            [done] = run_all(engine, recorder, [task("a")])
        settings = http_settings(server, api_key="sk-secret")
        with engine_on(server, api_key="sk-secret") as (engine, recorder):
            run_all(engine, recorder, [task("b")])
    assert set(server.keys) == {"Bearer sk-secret"}
    assert "sk-secret" not in f"{logs}{done}{settings!r}{settings.model_dump_json()}"


def test_closing_ends_what_runs_and_what_waits():
    with model_server(stream(event("x"), hang=True)) as server:
        with engine_on(server, rows=1) as (engine, recorder):
            tasks = [task(i) for i in range(3)]
            assert all(engine.submit(each) for each in tasks)
            recorder.wait_tokens(tasks[0].key)
        assert not engine.submit(task("late"))
    assert [one.finish_reason for one in recorder.completions] == [FinishReason.CANCELLED] * 3


def test_every_task_ends_once_whatever_the_server_and_the_client_do():
    dice = random.Random(3)
    faults = [
        status(429),
        status(500),
        status(400),
        disconnect,
        stream(event("Pa"), drop=True),
        stream(event("Pa"), "garbage"),
        saying("Paris"),
        saying("Paris"),
    ]

    async def any_fault(server: ModelServer, request: Any, body: Any):
        return await dice.choice(faults)(server, request, body)

    tasks = [task(i // 3, index=i % 3, seed=dice.choice([None, 1])) for i in range(150)]
    with model_server(any_fault) as server, engine_on(server, rows=16) as (engine, recorder):
        for each in tasks:
            assert engine.submit(each)
            if dice.random() < 0.1:
                engine.cancel(dice.choice(tasks).key)
        found = recorder.wait_done(len(tasks))
        assert engine.capacity() >= 1
    assert set(Counter(one.key for one in recorder.completions).values()) == {1}
    assert {one.text for one in found.values() if one.finish_reason is FinishReason.STOP} == {"Paris"}
