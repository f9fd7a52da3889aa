from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.events import InferenceRequest
from pipeline.ids import new_request_id
from pipeline.scheduling.validate import check_identity

NOW = 1_764_000_000_000


def test_ids_are_unique_and_sort_by_when_they_were_made() -> None:
    made = [new_request_id(NOW + i // 100) for i in range(5_000)]
    assert len(set(made)) == len(made)
    assert made == sorted(made)


@settings(deadline=None)
@given(st.tuples(st.integers(0, 2**44), st.integers(0, 2**44)))
def test_time_is_what_sorts_first(times: tuple[int, int]) -> None:
    earlier, later = sorted(times)
    if earlier < later:
        assert new_request_id(later) > new_request_id(earlier)


@settings(deadline=None)
@given(st.integers(0, 2**44))
def test_an_id_can_be_a_requests(now: int) -> None:
    made = new_request_id(now)
    assert made.isascii() and made.isprintable() and len(made) == 19
    check_identity(InferenceRequest(made))
