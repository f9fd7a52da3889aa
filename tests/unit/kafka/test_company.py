"""How long a transaction waits for more records."""

from __future__ import annotations

from pipeline.kafka.company import Traffic, worth_waiting


def test_a_lone_record_waits_for_next_to_nothing_and_a_flood_has_a_bound() -> None:
    assert worth_waiting(1) < 0.001
    assert worth_waiting(40) == 0.01
    assert worth_waiting(10_000) == worth_waiting(100_000) < 0.1


def test_only_what_came_lately_counts() -> None:
    traffic = Traffic()
    assert traffic.lately(0.0) == 0
    traffic.note(3, 1.0)
    traffic.note(4, 1.05)
    assert traffic.lately(1.06) == 7
    assert traffic.lately(1.12) == 4
    assert traffic.lately(9.0) == 0
