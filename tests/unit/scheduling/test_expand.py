from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InvalidRequestError
from pipeline.events import (
    Batch,
    Callback,
    InferenceRequest,
    Kind,
    Message,
    Mode,
    Role,
    SampleTask,
    SamplingOverrides,
    TaskGroup,
)
from pipeline.kafka.codec import Codec
from pipeline.kafka.crash_journal import Work
from pipeline.kafka.records import Finished
from pipeline.scheduling.convert import generation_task
from pipeline.scheduling.expand import LONGEST_QUESTION, Expansion, expand
from pipeline.scheduling.validate import check_content, check_identity
from pipeline.scheduling.waiting import Assigned
from pipeline.settings import EngineSettings, LimitSettings

LIMITS = LimitSettings()  # type: ignore[call-arg]
ENGINE = EngineSettings()
APPENDED, NOW = 1_000_000_000, 1_000_000_050
REQUEST = InferenceRequest("q-1", prompt="six times seven?", created_at=APPENDED - 10)


def expanded(request: InferenceRequest) -> Expansion:
    return expand(request, appended_at=APPENDED, now=NOW, limits=LIMITS)


def tasks(expansion: Expansion) -> dict[int, tuple[int, TaskGroup, SampleTask]]:
    """Sample index to lane, group and task."""
    found: dict[int, tuple[int, TaskGroup, SampleTask]] = {}
    for lane, group in expansion.groups:
        for task in group.tasks:
            assert task.sample_index not in found
            found[task.sample_index] = (lane, group, task)
    return dict(sorted(found.items()))


@pytest.mark.parametrize(
    ("mode", "count", "temperature", "tokens", "paths"),
    [
        (Mode.FAST, 1, 0.3, 512, {"direct"}),
        (Mode.STANDARD, 3, 0.5, 1024, {"direct"}),
        (Mode.OPEN, 2, 0.5, 1024, {"direct"}),
        (Mode.DEEP, 5, 0.4, 2048, {"chain_of_thought", "step_by_step", "code_verification"}),
    ],
)
def test_each_mode(mode: Mode, count: int, temperature: float, tokens: int, paths: set[str]) -> None:
    found = tasks(expanded(replace(REQUEST, mode=mode)))
    assert list(found) == list(range(count))
    voting = [entry for index, entry in found.items() if mode is not Mode.DEEP or index > 0]
    assert {group.path for _, group, _ in voting} == paths
    assert {(group.temperature, group.max_new_tokens, group.top_p) for _, group, _ in voting} == {
        (temperature, tokens, 1.0)
    }
    assert all(task.role is Role.ANSWER and task.seed is None for _, _, task in voting)
    assert all(lane == REQUEST.priority for lane, _, _ in voting)


@pytest.mark.parametrize(("priority", "lane"), [(0, 0), (1, 0), (3, 2), (5, 4)])
def test_the_first_answer_of_deep_goes_one_lane_up_and_is_drawn_fast(priority: int, lane: int) -> None:
    found = tasks(expanded(replace(REQUEST, mode=Mode.DEEP, priority=priority)))
    first_lane, group, task = found[0]
    assert (first_lane, task.role, group.path, group.priority) == (lane, Role.FIRST, "direct", priority)
    assert (group.temperature, group.max_new_tokens) == (0.3, 512)
    assert {lane for lane, _, task in found.values() if task.role is Role.ANSWER} == {priority}


def test_the_last_turn_says_the_path() -> None:
    turns = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    for _, group in expanded(replace(REQUEST, prompt="", messages=turns, mode=Mode.DEEP)).groups:
        assert group.messages[:-1] == turns[:-1]
        assert group.messages[-1].content.startswith("c")
        assert (group.messages[-1].content == "c") is (group.path == "direct")


def test_overrides_replace_the_mode() -> None:
    sampling = SamplingOverrides(n=4, temperature=0.0, top_p=0.5, max_new_tokens=9, seed=100, stop=("x",))
    found = tasks(expanded(replace(REQUEST, mode=Mode.DEEP, sampling=sampling, images=(b"i",))))
    assert [task.seed for _, _, task in found.values()] == [100, 101, 102, 103]
    for _, group, _ in found.values():
        assert (group.temperature, group.top_p, group.max_new_tokens) == (0.0, 0.5, 9)
        assert (group.stop, group.images) == (("x",), (b"i",))


def test_cuts_penalty_and_log_probabilities_reach_the_engine_by_way_of_the_batch() -> None:
    """Left out, they are off; given, they arrive, also with the early first answer."""
    off = SamplingOverrides(top_logprobs=0)
    sampling = SamplingOverrides(top_k=40, min_p=0.05, repetition_penalty=1.3, top_logprobs=20)
    neutral = (0, 0.0, 1.0, None)
    for given_by, wanted in (
        (SamplingOverrides(), neutral),
        (off, neutral),
        (sampling, (40, 0.05, 1.3, 20)),
    ):
        groups = expanded(replace(REQUEST, mode=Mode.DEEP, sampling=given_by)).groups
        batch = Codec().decode(Codec().encode(Batch("b", 0, NOW, tuple(group for _, group in groups))))
        assert isinstance(batch, Batch)
        for group in batch.groups:
            done, work = Finished(("batches.3", 0), 0, 0), Work("batches.3", 0, 0, 0, 0)
            assigned = Assigned(group, group.tasks[0], done, NOW, 3, work)
            task = generation_task(assigned, now=NOW, limits=ENGINE)
            params = task.params
            assert (params.top_k, params.min_p, params.repetition_penalty, task.top_logprobs) == wanted


def test_a_long_override_does_not_make_the_first_answer_long() -> None:
    found = tasks(expanded(replace(REQUEST, mode=Mode.DEEP, sampling=SamplingOverrides(max_new_tokens=3000))))
    assert [group.max_new_tokens for _, group, _ in found.values()] == [512, 3000, 3000, 3000, 3000]


@pytest.mark.parametrize(
    ("given_at", "taken"),
    [
        (APPENDED - 10, APPENDED - 10),
        (1, 1),
        (0, APPENDED),
        (-5, APPENDED),
        (APPENDED + 60_000, APPENDED + 60_000),
        (APPENDED + 60_001, APPENDED),
        (2**63 - 1, APPENDED),
    ],
)
def test_the_deadline_counts_from_created_at_if_that_can_be(given_at: int, taken: int) -> None:
    for request, wait in (
        (replace(REQUEST, created_at=given_at), 300_000),
        (replace(REQUEST, created_at=given_at, mode=Mode.DEEP), 420_000),
        (replace(REQUEST, created_at=given_at, deadline_ms=77), 77),
    ):
        result = expanded(request)
        assert (result.opened.created_at, result.opened.deadline_at) == (taken, taken + wait)
        due = {(taken, taken + wait)} if taken + wait > NOW else set()
        assert {(g.created_at, g.deadline_at) for _, g in result.groups} == due


def test_the_marker_carries_the_request() -> None:
    request = replace(REQUEST, run=2, tenant="t", callback=Callback("https://a.b"), metadata={"a": "b"})
    opened = expanded(request).opened
    assert (opened.request_id, opened.run, opened.tenant, opened.opened_at) == ("q-1", 2, "t", NOW)
    assert (opened.callback, opened.metadata) == (request.callback, request.metadata)
    assert (opened.expected, opened.error) == (3, None)


@pytest.mark.parametrize(
    ("change", "question"),
    [
        ({"mode": Mode.DEEP}, "six times seven?"),
        ({"mode": Mode.OPEN, "kind": Kind.OPEN}, "six times seven?"),
        ({"mode": Mode.STANDARD}, ""),
        ({"mode": Mode.DEEP, "kind": Kind.CODE}, ""),
        ({"mode": Mode.DEEP, "kind": Kind.VISION, "images": (b"i",)}, ""),
        ({"mode": Mode.DEEP, "prompt": "x" * (LONGEST_QUESTION + 1)}, ""),
        (
            {"mode": Mode.DEEP, "prompt": "", "messages": (Message("user", "a"), Message("user", "b"))},
            "user: a\nuser: b",
        ),
    ],
)
def test_the_marker_carries_the_question_where_reviews_may_follow(
    change: dict[str, Any], question: str
) -> None:
    assert expanded(replace(REQUEST, **change)).opened.question == question


def test_the_marker_carries_what_fusion_asks_for() -> None:
    code = replace(REQUEST, kind=Kind.CODE, tests="assert f() == 1", prompt="写一个函数")
    opened = expanded(code).opened
    assert (opened.tests, opened.language, opened.max_new_tokens) == ("assert f() == 1", "zh", 1024)
    assert expanded(replace(code, kind=Kind.ANSWER)).opened.tests is None
    short = replace(REQUEST, sampling=SamplingOverrides(max_new_tokens=9))
    assert (expanded(short).opened.max_new_tokens, expanded(short).opened.language) == (9, "en")


REFUSED: dict[str, tuple[InferenceRequest, str]] = {
    "empty prompt": (replace(REQUEST, prompt=" \n"), "prompt"),
    "empty turns": (replace(REQUEST, prompt="", messages=(Message("user", " "),)), "prompt"),
    "both": (replace(REQUEST, messages=(Message("user", "a"),)), "messages"),
    "role": (replace(REQUEST, prompt="", messages=(Message("tool", "a"),)), "messages"),
    "no sample": (replace(REQUEST, sampling=SamplingOverrides(n=0)), "sampling.n"),
    "many samples": (replace(REQUEST, sampling=SamplingOverrides(n=65)), "sampling.n"),
    "cold": (replace(REQUEST, sampling=SamplingOverrides(temperature=-0.1)), "sampling.temperature"),
    "hot": (replace(REQUEST, sampling=SamplingOverrides(temperature=2.1)), "sampling.temperature"),
    "nan": (replace(REQUEST, sampling=SamplingOverrides(temperature=math.nan)), "sampling.temperature"),
    "top_p 0": (replace(REQUEST, sampling=SamplingOverrides(top_p=0.0)), "sampling.top_p"),
    "top_p nan": (replace(REQUEST, sampling=SamplingOverrides(top_p=math.nan)), "sampling.top_p"),
    "top_k": (replace(REQUEST, sampling=SamplingOverrides(top_k=-1)), "sampling.top_k"),
    "min_p": (replace(REQUEST, sampling=SamplingOverrides(min_p=1.01)), "sampling.min_p"),
    "min_p nan": (replace(REQUEST, sampling=SamplingOverrides(min_p=math.nan)), "sampling.min_p"),
    "penalty 0": (
        replace(REQUEST, sampling=SamplingOverrides(repetition_penalty=0.0)),
        "sampling.repetition_penalty",
    ),
    "penalty inf": (
        replace(REQUEST, sampling=SamplingOverrides(repetition_penalty=math.inf)),
        "sampling.repetition_penalty",
    ),
    "top_logprobs": (replace(REQUEST, sampling=SamplingOverrides(top_logprobs=21)), "sampling.top_logprobs"),
    "top_logprobs -1": (
        replace(REQUEST, sampling=SamplingOverrides(top_logprobs=-1)),
        "sampling.top_logprobs",
    ),
    "no token": (replace(REQUEST, sampling=SamplingOverrides(max_new_tokens=0)), "sampling.max_new_tokens"),
    "deadline": (replace(REQUEST, deadline_ms=0), "deadline_ms"),
    "past": (replace(REQUEST, deadline_ms=-1), "deadline_ms"),
    "blind": (replace(REQUEST, kind=Kind.VISION), "images"),
    "tests": (replace(REQUEST, kind=Kind.CODE, tests='{"inputs": [1]}'), "tests"),
}


@pytest.mark.parametrize(("request_", "field"), REFUSED.values(), ids=REFUSED)
def test_a_refused_request_opens_a_window_that_fails(request_: InferenceRequest, field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_content(request_, LIMITS)
    assert caught.value.field == field
    assert caught.value.message.startswith(field + " ")
    result = expanded(request_)
    assert result.groups == ()
    assert result.opened.expected == 0
    assert result.opened.error is not None
    assert (result.opened.error.code, result.opened.error.message) == (
        "invalid_request",
        caught.value.message,
    )
    assert result.opened.error.retriable is False


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"request_id": ""}, "request_id"),
        ({"request_id": "x" * 129}, "request_id"),
        ({"request_id": "a\nb"}, "request_id"),
        ({"request_id": "a\0b"}, "request_id"),
        ({"priority": -1}, "priority"),
        ({"priority": 6}, "priority"),
        ({"run": -1}, "run"),
    ],
)
def test_an_identity_that_can_not_be_routed(change: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        check_identity(replace(REQUEST, **change))
    assert caught.value.field == field


@pytest.mark.parametrize("request_id", ["x" * 128, "问题 1", "a b/c:d"])
def test_an_upstreams_own_id_is_taken(request_id: str) -> None:
    check_identity(replace(REQUEST, request_id=request_id))


long = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([2**63 - 1, -(2**63), 0, 1])


@settings(max_examples=200, deadline=None)
@given(
    mode=st.sampled_from(Mode),
    priority=st.integers(0, 5),
    created_at=long,
    deadline_ms=st.none() | long,
    seed=st.none() | long,
    n=st.none() | st.integers(-1, 65),
    tokens=st.none() | st.integers(-1, 2**31 - 1),
)
def test_whatever_can_be_read_can_be_written_on(
    mode: Mode,
    priority: int,
    created_at: int,
    deadline_ms: int | None,
    seed: int | None,
    n: int | None,
    tokens: int | None,
) -> None:
    """A record that can not be encoded would stop the batcher for good."""
    request = replace(
        REQUEST,
        mode=mode,
        priority=priority,
        created_at=created_at,
        deadline_ms=deadline_ms,
        sampling=SamplingOverrides(n=n, seed=seed, max_new_tokens=tokens),
    )
    result, codec = expanded(request), Codec()
    assert codec.decode(codec.encode(result.opened)) == result.opened
    batch = Batch("b", priority, NOW, tuple(group for _, group in result.groups))
    assert codec.decode(codec.encode(batch)) == batch
    due = result.opened.deadline_at > NOW
    assert sorted(tasks(result)) == list(range(result.opened.expected if due else 0))


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("tenant", {"tenant": "x" * 129}),
        ("metadata", {"metadata": {"m": "\x01" * 70_000}}),
        ("callback.url", {"callback": Callback("http://example.com/" + "x" * 3_000)}),
    ],
)
def test_what_travels_with_every_event_is_bounded(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_identity(InferenceRequest("r", "hi", **change))
    assert refused.value.field == field


def test_stop_texts_are_bounded() -> None:
    for stop in (("x" * 257,), ("",), ("x",) * 17):
        request = InferenceRequest("r", "hi", sampling=SamplingOverrides(stop=stop))
        with pytest.raises(InvalidRequestError, match=r"sampling\.stop"):
            check_content(request, LimitSettings.model_validate({}))


def test_what_is_past_its_deadline_opens_a_window_and_keeps_no_model_busy() -> None:
    late = expanded(replace(REQUEST, created_at=NOW - 1_000, deadline_ms=1_000))
    assert late.groups == () and late.opened.error is None and late.opened.expected == 3
    assert expanded(replace(REQUEST, created_at=NOW - 1_000, deadline_ms=1_001)).groups


def test_a_sample_that_may_be_long_has_more_time() -> None:
    wide = replace(REQUEST, deadline_ms=1_000_000)
    for tokens, seconds in ((1_024, 60), (1_025, 90)):
        asked = replace(wide, sampling=SamplingOverrides(max_new_tokens=tokens))
        (group,) = (group for _, group in expanded(asked).groups)
        place = ("batches.3", 0)
        assigned = Assigned(group, group.tasks[0], Finished(place, 0, 0), NOW, 3, Work(*place, 0, 0, 0))
        assert generation_task(assigned, now=NOW, limits=ENGINE).deadline == NOW / 1000 + seconds
