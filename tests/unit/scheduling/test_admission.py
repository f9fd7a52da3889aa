from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from pipeline.events import Mode
from pipeline.scheduling.admission import Admission, Door
from pipeline.store.tasks import LaneLoad, Load

NUMBERS = st.integers(0, 1_200)
DOORS = st.builds(Door, st.integers(1, 1_000), st.booleans())


def load(waiting: int = 0, opened: int = 0, unread: int = 0, rate: float = 0.0) -> Load:
    return Load((LaneLoad(waiting=waiting, opened=opened),), unread, rate)


@given(DOORS, NUMBERS)
def test_a_door_is_closed_from_its_limit_on_and_open_well_below_it(door: Door, waiting: int) -> None:
    after = door.after(waiting)
    if waiting >= door.limit:
        assert after.closed
    elif waiting <= 0.8 * door.limit:
        assert not after.closed
    else:
        assert after.closed == door.closed, "within the band nothing changes"


@given(st.integers(6, 1_000), st.lists(st.floats(0.81, 0.999), min_size=2))
def test_it_never_flaps_within_the_band(limit: int, shares: list[float]) -> None:
    counts = [min(int(share * limit) + 1, limit - 1) for share in shares]
    for first in (Door(limit), Door(limit, closed=True)):
        doors = accumulate(counts, Door.after, initial=first)
        states = {door.closed for door in doors}
        assert len(states) == 1


@given(st.lists(NUMBERS, min_size=1), st.integers(1, 1_000))
def test_between_two_changes_lies_a_fifth_of_the_limit(counts: list[int], limit: int) -> None:
    door, changed_at = Door(limit), None
    for count in counts:
        after = door.after(count)
        if after.closed != door.closed:
            assert changed_at is None or abs(count - changed_at) >= 0.2 * limit - 1e-6
            changed_at = count
        door = after


@given(NUMBERS, NUMBERS, NUMBERS, st.floats(0, 1e6), st.sampled_from(list(Mode)))
def test_a_refusal_says_when_to_come_again(
    waiting: int, opened: int, unread: int, rate: float, mode: Mode
) -> None:
    seen = load(waiting, opened, unread, rate)
    admission = Admission.of(500, 8).after(seen)
    wait = admission.refusal(mode, seen)
    refused = waiting + unread >= 500 or (mode is Mode.FAST and opened >= 40)
    assert (wait is not None) is refused
    assert wait is None or 1 <= wait <= 60


def test_the_wait_follows_the_rate() -> None:
    admission = Admission.of(500, 8)

    def wait(seen: Load) -> float | None:
        return admission.after(seen).refusal(Mode.STANDARD, seen)

    assert wait(load(600, rate=20.0)) == 10.0
    assert wait(load(600)) == 60.0, "nothing ends, so nobody knows"
    assert wait(load(500, unread=0, rate=1e9)) == 1.0
    assert wait(load(300, unread=200, rate=10.0)) == 10.0, "what was not read counts"


def test_other_modes_do_not_care_about_the_engine() -> None:
    seen = load(waiting=45, opened=45, rate=1.0)
    admission = Admission.of(500, 8).after(seen)
    assert admission.refusal(Mode.DEEP, seen) is None
    assert admission.refusal(Mode.FAST, seen) == 13.0
