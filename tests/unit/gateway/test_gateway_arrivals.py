from __future__ import annotations

import pytest

from pipeline.events import InferenceRequest
from pipeline.gateway.arrivals import Arrivals
from pipeline.store.rows import Stored
from pipeline.topics import REQUESTS


def request(request_id: str, tenant: str = "a") -> InferenceRequest:
    return InferenceRequest(request_id, "x", tenant=tenant)


def test_what_arrives_counts_until_the_view_shows_it() -> None:
    arrivals = Arrivals(lambda: 0)
    for request_id, tenant in (("1", "a"), ("2", "a"), ("3", "b")):
        with arrivals.arriving(request(request_id, tenant)):
            pass
    assert (len(arrivals), arrivals.of("a"), arrivals.of("b"), arrivals.of("c")) == (3, 2, 1, 0)
    shown = [Stored(REQUESTS, 0, 0, 0, request(request_id)) for request_id in ("1", "1", "9")]
    arrivals.seen(shown)
    assert (len(arrivals), arrivals.of("a")) == (2, 1)


def test_what_fails_does_not_count() -> None:
    arrivals = Arrivals(lambda: 0)
    with pytest.raises(RuntimeError), arrivals.arriving(request("1")):
        assert len(arrivals) == 1
        raise RuntimeError
    assert len(arrivals) == 0


def test_the_same_id_twice_counts_once() -> None:
    arrivals = Arrivals(lambda: 0)
    for _ in range(2):
        with arrivals.arriving(request("1")):
            pass
    assert (len(arrivals), arrivals.of("a")) == (1, 1)


def test_what_is_never_shown_is_forgotten() -> None:
    now = 0
    arrivals = Arrivals(lambda: now)
    with arrivals.arriving(request("1")):
        pass
    now = 30_000
    with arrivals.arriving(request("2")):
        pass
    now = 60_001
    assert (len(arrivals), arrivals.of("a")) == (1, 1)
