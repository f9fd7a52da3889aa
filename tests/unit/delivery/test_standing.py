"""Since when an endpoint fails, from attempts and from records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webhook_servers import DELIVERY, steady

from pipeline.delivery.outcome import Outcome, OutcomeCode, outcome_of_status
from pipeline.delivery.standing import NOTHING_KNOWN, DisablePolicy, Standing, after, told_by
from pipeline.events import DeliveryState, ErrorInfo

DAY = 86_400_000
POLICY = DisablePolicy.of(5 * 86_400, 86_400)
DOWN, OK = outcome_of_status(503, "", None), outcome_of_status(200, "", None)
UNSENT = Outcome(None, OutcomeCode.FORBIDDEN_URL, final=True)


def at(*days: float, standing: Standing = NOTHING_KNOWN) -> Standing:
    """The standing after a failure at each of these days."""
    for day in days:
        standing = after(standing, DOWN, round(day * DAY), POLICY)
    return standing


def test_five_days_of_nothing_but_failures_disable() -> None:
    assert not at(1, 2, 3, 4, 5, 5.99).disabled
    assert at(1, 2, 3, 4, 5, 6) == Standing(6 * DAY, DAY, True)


def test_one_success_begins_the_count_anew() -> None:
    well = after(at(1, 2, 3, 4, 5), OK, round(5.5 * DAY), POLICY)
    assert well.failing_since is None
    assert at(6, 7, 8, 9, 10, standing=well) == Standing(10 * DAY, 6 * DAY)


def test_a_time_without_attempts_is_no_time_of_failures() -> None:
    assert at(1, 8) == Standing(8 * DAY, 8 * DAY)
    assert at(1, 3, 5, 6).disabled, "two days are the longest wait, Retry-After and jitter included"


def test_what_was_not_sent_says_nothing() -> None:
    failing = at(1, 2)
    assert after(failing, UNSENT, 9 * DAY, POLICY) == failing


def test_never_means_never() -> None:
    standing = NOTHING_KNOWN
    for day in range(100):
        standing = after(standing, DOWN, day * DAY, DisablePolicy(0, 2 * DAY))
    assert standing.failing_since == 0 and not standing.disabled


def test_a_schedule_with_longer_waits_is_quiet_for_longer() -> None:
    assert DisablePolicy.of(1, 30 * 86_400).quiet_ms == 60 * DAY


@steady
@given(st.lists(st.tuples(st.integers(0, 2 * DAY), st.booleans()), max_size=30))
def test_disabled_is_five_days_from_the_first_failure_after_the_last_success(steps) -> None:
    standing, now, since = NOTHING_KNOWN, 0, None
    for passed, up in steps:
        now += passed
        since = None if up else now if since is None else since
        standing = after(standing, OK if up else DOWN, now, POLICY)
        assert standing.failing_since == since
        assert standing.disabled == (since is not None and now - since >= 5 * DAY)


class TestRecords:
    FAILED = replace(
        DELIVERY,
        state=DeliveryState.FAILED,
        attempt=3,
        updated_at=9 * DAY,
        next_due_at=None,
        failing_since=DAY,
    )

    @pytest.mark.parametrize(("code", "disabled"), [("endpoint_disabled", True), ("http_error", False)])
    def test_a_record_of_an_attempt_says_how_its_endpoint_stood(self, code: str, disabled: bool) -> None:
        record = replace(self.FAILED, error=ErrorInfo(code, ""))
        assert told_by(record) == Standing(9 * DAY, DAY, disabled)

    def test_a_delivered_one_says_that_it_is_well(self) -> None:
        record = replace(self.FAILED, state=DeliveryState.DELIVERED, failing_since=None)
        assert told_by(record) == Standing(9 * DAY)

    def test_one_that_was_enabled_says_so_though_its_error_stays(self) -> None:
        record = replace(self.FAILED, failing_since=None, error=ErrorInfo("endpoint_disabled", ""))
        assert told_by(record) == Standing(9 * DAY)

    @pytest.mark.parametrize("attempt", [0, 3])
    def test_one_that_was_not_attempted_since_it_was_sent_says_nothing(self, attempt: int) -> None:
        assert told_by(replace(DELIVERY, attempt=attempt, attempts_before=attempt)) is None
