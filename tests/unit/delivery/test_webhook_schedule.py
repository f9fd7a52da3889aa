from dataclasses import replace
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webhook_servers import DELIVERY, steady

from pipeline.delivery.outcome import Outcome, OutcomeCode, outcome_of_status
from pipeline.delivery.schedule import RetryPolicy, conclude, next_attempt_at, parse_retry_after
from pipeline.events import DeliveryState
from pipeline.settings import WebhookSettings

NOW = 1_700_000_000_000
DAY = 86_400
POLICY = RetryPolicy(WebhookSettings().retry_schedule, 0.1)  # type: ignore[call-arg]
FAILED = Outcome(500, OutcomeCode.HTTP_ERROR, "500")

jitters = st.floats(0, 1, exclude_max=True)


def test_the_default_schedule() -> None:
    waits = [next_attempt_at(n, FAILED, 0, POLICY, 0.0) for n in range(1, 11)]
    hours = [3_600_000 * h for h in (2, 5, 10, 14, 20, 24)]
    assert waits == [5_000, 300_000, 1_800_000, *hours, None]


@steady
@given(st.integers(1, 30), jitters, st.none() | st.floats(0, DAY), st.booleans())
def test_waits_lie_between_the_schedule_and_its_cap(attempt, jitter, retry_after, final) -> None:
    outcome = Outcome(503, OutcomeCode.HTTP_ERROR, "", retry_after, final)
    due = next_attempt_at(attempt, outcome, NOW, POLICY, jitter)
    if final or attempt > 9:
        assert due is None
        return
    assert due is not None
    base = POLICY.schedule[attempt - 1]
    wait = (due - NOW) / 1000
    assert max(base, retry_after or 0) - 0.001 <= wait <= max(base * 1.1, retry_after or 0) + 0.001


@steady
@given(st.integers(1, 9), jitters, jitters)
def test_more_jitter_is_never_earlier(attempt, one, other) -> None:
    early, late = (next_attempt_at(attempt, FAILED, NOW, POLICY, j) for j in sorted((one, other)))
    assert early is not None and late is not None and early <= late


@steady
@given(st.text(max_size=40) | st.from_regex(r"[0-9]{1,6000}") | st.dates().map(str))
def test_any_retry_after_is_a_wait_of_at_most_a_day_or_nothing(value: str) -> None:
    wait = parse_retry_after(value, NOW)
    assert wait is None or 0 <= wait <= DAY


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("0", 0),
        (" 120 ", 120),
        ("86401", DAY),
        ("9" * 5000, DAY),
        (formatdate(NOW / 1000 + 90, usegmt=True), 90),
        (formatdate(NOW / 1000 - 90, usegmt=True), 0),
        (formatdate(NOW / 1000 + 9 * DAY, usegmt=True), DAY),
        ("-5", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        (None, None),
        ("²", None),
        ("Fri, 99 Foo 2026 00:00:00 GMT", None),
    ],
)
def test_both_forms_of_retry_after(value: str | None, wait: float | None) -> None:
    assert parse_retry_after(value, NOW) == wait


@steady
@given(st.integers(100, 999))
def test_which_statuses_are_final(status: int) -> None:
    outcome = outcome_of_status(status, "", None)
    assert outcome.final == (200 <= status < 400 or status == 410)
    assert (outcome.code is OutcomeCode.DELIVERED) == (200 <= status < 300)
    assert (outcome.code is OutcomeCode.REDIRECT) == (300 <= status < 400)
    assert (outcome.code is OutcomeCode.GONE) == (status == 410)


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 425, 429, 500, 503, 504])
def test_these_are_retried(status: int) -> None:
    updated = conclude(DELIVERY, outcome_of_status(status, "no", 7.0), NOW, POLICY, 0.0)
    assert (updated.state, updated.next_due_at) == (DeliveryState.PENDING, NOW + 7_000)
    assert updated.error is not None and updated.error.retriable


@steady
@given(st.integers(0, 12), st.integers(200, 599), jitters)
def test_a_terminal_delivery_has_no_due_time_and_the_body_stays(attempt, status, jitter) -> None:
    before = replace(DELIVERY, attempt=attempt)
    after = conclude(before, outcome_of_status(status, "m", None), NOW, POLICY, jitter)
    assert (after.next_due_at is None) == (after.state is not DeliveryState.PENDING)
    assert (after.error is None) == (after.state is DeliveryState.DELIVERED)
    assert (after.attempt, after.status_code, after.updated_at) == (attempt + 1, status, NOW)
    assert (after.body, after.delivery_id, after.created_at) == (
        before.body,
        before.delivery_id,
        before.created_at,
    )
