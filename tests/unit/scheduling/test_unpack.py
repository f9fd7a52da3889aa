from __future__ import annotations

from dataclasses import replace

from pipeline.events import Batch, FinishReason, Kind, Message, Mode, SampleTask, TaskGroup
from pipeline.kafka.crash_journal import Work, work_of
from pipeline.kafka.dead_letters import Source
from pipeline.kafka.records import Finished
from pipeline.scheduling.unpack import poisoned, unpack

SOURCE = Source("batches.3", 1, 40, 1, b"k", b"v")


def group(name: str, tasks: int) -> TaskGroup:
    return TaskGroup(
        name,
        0,
        "t",
        3,
        Mode.STANDARD,
        Kind.ANSWER,
        "direct",
        (Message("user", "?"),),
        0.5,
        1.0,
        16,
        0,
        9,
        tuple(SampleTask(index, seed=5) for index in range(tasks)),
    )


def test_tasks_keep_the_order_of_their_bits_and_each_request_has_its_own_deaths() -> None:
    batch = Batch("b", 3, 7, (group("a", 2), group("b", 1)))
    asked: list[Work] = []

    def deaths(work: Work) -> int:
        asked.append(work)
        return 3 if work.part == 1 else 0

    tasks = unpack(batch, SOURCE, deaths)
    assert asked == [work_of(SOURCE, 0), work_of(SOURCE, 1)]
    assert [task.finished for task in tasks] == [Finished(("batches.3", 1), 40, bit) for bit in range(3)]
    assert [(task.group.request_id, task.work.part, task.poison) for task in tasks] == [
        ("a", 0, False),
        ("a", 0, False),
        ("b", 1, True),
    ]


def test_poison_ends_as_an_error_that_a_retry_does_not_help() -> None:
    (task,) = unpack(Batch("b", 3, 7, (group("a", 1),)), SOURCE, lambda _: 3)
    end = poisoned(task, now=5_000)
    assert (end.key, end.finish_reason, end.text, end.seed, end.started_at) == (
        task.key,
        FinishReason.ERROR,
        "",
        5,
        5.0,
    )
    assert end.error is not None
    assert (end.error.code, end.error.retriable) == ("poison_record", False)
    assert "3 worker processes" in end.error.message and "of a" in end.error.message


def test_tasks_are_linked_to_the_batch_they_came_in() -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    source = replace(SOURCE, headers=(("traceparent", trace.encode()),))
    (task,) = unpack(Batch("b", 3, 7, (group("a", 1),)), source, lambda _: 0)
    assert task.batch_trace == trace
