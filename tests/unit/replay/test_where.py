"""Which requests ``--where`` takes, and what it says to a mistake."""

from __future__ import annotations

import pytest

from pipeline.errors import InvalidRequestError
from pipeline.events import InferenceRequest, Kind, Mode, Session
from pipeline.replay.where import FIELDS, Where

REQUEST = InferenceRequest(
    "q=1",
    "how many?",
    tenant="acme",
    priority=2,
    mode=Mode.DEEP,
    kind=Kind.OPEN,
    session=Session("ann", "s-1"),
    run=4,
    metadata={"team": "red", "a=b": "c", "empty": ""},
)


@pytest.mark.parametrize(
    ("texts", "taken"),
    [
        ([], True),
        (["id=q=1"], True),
        (["id=q"], False),
        (["tenant=acme", "priority=2", "mode=deep", "kind=open", "user=ann", "session=s-1", "run=4"], True),
        (["tenant=acme", "priority=3"], False),
        (["priority=3", "priority=2"], True),
        (["mode=fast", "mode=standard"], False),
        (["run=0"], False),
        (["metadata.team=red"], True),
        (["metadata.team=blue"], False),
        (["metadata.none=red"], False),
        (["metadata.none="], False),
        (["metadata.empty="], True),
        (["user=bob"], False),
    ],
)
def test_all_named_fields_have_one_of_their_values(texts: list[str], taken: bool) -> None:
    assert Where.of(texts).takes(REQUEST) is taken


@pytest.mark.parametrize("text", ["user=", "session=", "user=ann"])
def test_a_request_without_a_session_has_no_user(text: str) -> None:
    assert not Where.of([text]).takes(InferenceRequest("q"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour=red", ", ".join(FIELDS)),
        ("metadata.=red", ", ".join(FIELDS)),
        ("=red", "there is no field ''"),
        ("tenant", "FIELD=VALUE"),
        ("mode=slow", "fast, standard, deep, open"),
        ("kind=poem", "answer, open, code, vision"),
        ("priority=6", "0, 1, 2, 3, 4, 5"),
    ],
)
def test_a_mistake_is_named_with_what_there_is(text: str, said: str) -> None:
    with pytest.raises(InvalidRequestError, match=said) as caught:
        Where.of([text])
    assert text in caught.value.message
