from __future__ import annotations

import logging

from pipeline.log_repeats import Repeats


def record(name: str, message: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord(name, logging.ERROR, "", 0, message, args, None)


def test_a_library_is_heard_once_in_a_while_and_told_how_often_it_spoke() -> None:
    now = [0.0]
    repeats = Repeats(every=10, clock=lambda: now[0])
    heard = [repeats.filter(record("aiokafka.conn", "no answer from node %d", node)) for node in range(5)]
    assert heard == [True, False, False, False, False]
    now[0] = 10.0
    last = record("aiokafka.conn", "no answer from node %d", 7)
    assert repeats.filter(last)
    assert last.getMessage() == "no answer from node 7 (and 4 more like it)"


def test_other_words_other_levels_and_our_own_lines_are_never_left_out() -> None:
    repeats = Repeats(clock=lambda: 0.0)
    assert repeats.filter(record("rdkafka", "refused"))
    assert repeats.filter(record("rdkafka", "closed"))
    warning = record("rdkafka", "refused")
    warning.levelno = logging.WARNING
    assert repeats.filter(warning)
    assert all(repeats.filter(record("pipeline.kafka.fenced_sink", "sink opened")) for _ in range(3))


def test_its_memory_is_bounded() -> None:
    repeats = Repeats(clock=lambda: 0.0)
    for number in range(2_000):
        repeats.filter(record("rdkafka", "x" * number))
    assert len(repeats._kinds) == 256


def test_a_collector_that_is_away_is_heard_once_in_a_while() -> None:
    repeats = Repeats(clock=lambda: 0.0)
    assert [repeats.filter(record("opentelemetry.exporter", "failed")) for _ in range(2)] == [True, False]
