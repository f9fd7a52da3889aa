"""The same id is the same request only if the same is asked."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from pipeline.events import Callback, InferenceRequest, Message, Mode, SamplingOverrides
from pipeline.scheduling.content import content_of
from tests.golden.golden_events import GOLDEN

REQUEST = InferenceRequest("q", "six times seven?", created_at=5)


@pytest.mark.parametrize("change", [{"created_at": 6}, {"replay_id": "r"}, {"request_id": "p"}, {"run": 3}])
def test_who_asks_again_may_stamp_it_anew(change: dict[str, Any]) -> None:
    assert content_of(replace(REQUEST, **change)) == content_of(REQUEST)


def test_every_other_field_counts() -> None:
    asked = GOLDEN["InferenceRequest"]
    assert isinstance(asked, InferenceRequest)
    plain = InferenceRequest("q-1")
    names = {each.name for each in fields(asked)} - {"request_id", "run", "created_at", "replay_id"}
    found = {content_of(replace(plain, **{name: getattr(asked, name)})) for name in names}
    assert len(found | {content_of(plain)}) == len(names) + 1


def test_a_value_that_is_its_default_counts_as_left_out_and_metadata_has_no_order() -> None:
    assert content_of(replace(REQUEST, mode=Mode.STANDARD, sampling=SamplingOverrides())) == content_of(
        REQUEST
    )
    one, other = (replace(REQUEST, metadata=dict(pairs)) for pairs in ([("a", "1"), ("b", "2")],) * 2)
    turned = replace(REQUEST, metadata={"b": "2", "a": "1"})
    assert content_of(one) == content_of(other) == content_of(turned)


def test_neighbouring_texts_do_not_run_together() -> None:
    asked = [
        replace(REQUEST, prompt="", messages=(Message("user", "ab"), Message("assistant", "c"))),
        replace(REQUEST, prompt="", messages=(Message("user", "a"), Message("assistant", "bc"))),
        replace(REQUEST, callback=Callback("http://a.b/", "c")),
        replace(REQUEST, callback=Callback("http://a.b/c", "")),
    ]
    assert len({content_of(each) for each in asked}) == len(asked)
