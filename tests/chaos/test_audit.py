"""Each kind of finding is found in a run where all else is well, and nothing is found where all is well."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

from pipeline.chaos.evidence import Committed, Disturbance, Reception, Snapshot
from pipeline.events import Delivery, ErrorInfo, InferenceRequest, Mode, Status, Vote
from tests.chaos.world import (
    DELIVERIES,
    ID,
    LANE,
    REQUESTS,
    RESULTS,
    SAMPLES,
    World,
    batch,
    chains,
    changed,
    delivery,
    opened,
    result,
    sample,
    well,
)


def one_vote() -> Vote:
    """Of sample 0 alone."""
    sure = math.exp(-0.1)
    return Vote("7", 1, sure, 0.7 + 0.3 * sure, (0,))


ALONE = 0.7 * 2 / 3 + 0.3 * math.exp(-0.1)
"""How sure a result of sample 0 alone is: one vote, with one more for it and one against."""


def without_result() -> World:
    world = well()
    world.topics[RESULTS], world.topics[DELIVERIES], world.received = [], [], {}
    return world


def test_nothing_is_found_where_all_is_well() -> None:
    assert well().findings() == []


# Requests


def test_an_acknowledged_request_that_is_nowhere_is_lost() -> None:
    world = well()
    world.accepted.add("request-2")
    assert world.said() == {"an acknowledged request is not on requests"}


def test_a_request_passed_over_is_lost() -> None:
    world = well()
    world.topics[REQUESTS].append(InferenceRequest("request-2", "What?"))
    world.accepted.add("request-2")
    assert world.kinds() == {"lost", "ahead"}
    assert "a request was passed over and not opened" in world.said()


def test_a_request_that_waits_is_stuck_and_not_lost() -> None:
    world = well()
    world.topics[REQUESTS].append(InferenceRequest("request-2", "What?"))
    world.accepted.add("request-2")
    world.passed[REQUESTS] = Committed(1)
    assert world.said() == {"a request has no final result yet"}
    assert world.kinds() == {"stuck"}


def test_a_task_in_no_batch_is_lost() -> None:
    world = without_result()
    world.topics[LANE] = [batch(0, 1)]
    world.topics[SAMPLES].pop()
    assert "a task of a request is in no batch" in world.said()


def test_a_task_without_a_sample_is_lost_when_its_batch_was_passed_over() -> None:
    world = without_result()
    world.topics[SAMPLES].pop()
    assert world.kinds() == {"lost", "ahead"}
    assert "a task was passed over and has no sample" in world.said()


def test_a_task_marked_as_finished_in_the_metadata_is_passed_over_too() -> None:
    world = without_result()
    world.topics[SAMPLES].pop()
    world.passed[LANE] = Committed(0, {0: 0b111})
    assert "a task was passed over and has no sample" in world.said()
    world.passed[LANE] = Committed(0, {0: 0b011})
    assert world.said() == {"a request has no final result yet"}


def test_a_complete_vote_without_a_result_is_lost() -> None:
    world = without_result()
    assert "a complete vote was passed over and has no result" in world.said()
    world.passed[SAMPLES] = Committed(3)
    assert world.said() == {"a request has no final result yet"}


def test_a_request_that_ended_by_its_deadline_is_stuck() -> None:
    world = well()
    changed(world, status=Status.PARTIAL_DONE)
    assert world.said() == {"a request ended by its deadline"}


def test_a_result_for_no_request_is_illegal() -> None:
    world = well()
    world.topics[REQUESTS].clear()
    world.accepted.clear()
    assert world.said() == {"a result answers no request"}


# Once


def test_whatever_stands_twice_is_a_duplicate() -> None:
    for place, event, what in (
        (REQUESTS, InferenceRequest(ID, "What?"), "a request stands on requests more than once"),
        (SAMPLES, opened(), "a request was opened more than once"),
        (SAMPLES, sample(1, 7, -0.2), "a sample was published more than once"),
        (LANE, batch(1), "two batches hold the same task"),
        (RESULTS, result(), "a request has more than one final result"),
    ):
        world = well()
        world.topics[place].append(event)
        assert "duplicated" in world.kinds()
        assert what in world.said()


# Results


def test_a_revision_out_of_order_is_illegal() -> None:
    world = well()
    changed(world, revision=1)
    world.topics[DELIVERIES], world.received = [], {}
    assert "revisions of a result are out of order" in world.said()


def test_mode_deep_may_publish_a_first_answer_before_its_final_result() -> None:
    world = well()
    changed(world, mode=Mode.DEEP, revision=1, callback=None)
    (final,) = world.topics[RESULTS]
    world.topics[DELIVERIES], world.received = [], {}
    assert world.findings() == []
    alone = one_vote()
    first = replace(
        result(),
        mode=Mode.DEEP,
        status=Status.FIRST_ANSWER,
        reasoning=chains((0, 7)),
        votes=(alone,),
        confidence=ALONE,
        callback=None,
    )
    world.topics[RESULTS] = [first, final]
    assert world.findings() == []
    world.topics[RESULTS] = [final, first]
    assert world.said() == {"revisions of a result are out of order"}


def test_a_wrong_answer_is_a_wrong_vote() -> None:
    world = well()
    changed(world, answer="8")
    assert world.said() == {"the answer is not the vote's"}


def test_a_wrong_choice_confidence_group_or_score_is_a_wrong_vote() -> None:
    published = result()
    best = published.votes[0]
    for fields in (
        {"chosen_sample": 1},
        {"confidence": 0.5},
        {"votes": published.votes[:1]},
        {"votes": (replace(best, score=0.9), published.votes[1])},
    ):
        world = well()
        changed(world, **fields)
        assert world.kinds() == {"wrong_vote"}, fields


def test_a_quote_of_another_text_is_a_wrong_vote() -> None:
    world = well()
    changed(world, reasoning=chains((0, 7), (1, 7), (2, 9)))
    assert world.said() == {"a result quotes another text than its sample's"}


def test_a_sample_that_counted_and_is_not_there_is_a_wrong_vote() -> None:
    world = well()
    world.topics[SAMPLES].pop()
    assert "a sample that counted is not on samples exactly once" in world.said()


def test_an_early_stop_that_a_later_sample_overturns_is_a_wrong_vote() -> None:
    world = well()
    alone = one_vote()
    changed(world, reasoning=chains((0, 7)), votes=(alone,), confidence=ALONE)
    assert world.findings() == []
    world.topics[SAMPLES][2] = sample(1, 8, -0.2)
    assert world.said() == {"samples after an early stop would change the answer"}


def test_failed_samples_do_not_vote_and_silent_ones_abstain() -> None:
    world = well()
    world.topics[SAMPLES][3] = sample(2, None, None, ErrorInfo("scripted_failure", "It fails"))
    assert world.kinds() == {"wrong_vote"}


# Callbacks


def test_a_callback_that_was_never_recorded_is_lost_or_stuck() -> None:
    world = well()
    world.topics[DELIVERIES], world.received = [], {}
    assert world.said() == {
        "a callback was passed over",
        "the webhook agent's offset is ahead of a callback that was not recorded",
    }
    world.passed[RESULTS] = Committed(0)
    assert world.said() == {"a callback is not recorded yet"}


def test_a_callback_without_an_end_is_stuck() -> None:
    world = well()
    world.topics[DELIVERIES].pop()
    world.received["dlv"].pop()
    assert world.said() == {"a callback has no end yet"}


def test_an_attempt_that_is_missing_or_recorded_twice_is_found() -> None:
    world = well()
    del world.topics[DELIVERIES][1]
    assert "an attempt at a callback is not recorded" in world.said()
    world = well()
    world.topics[DELIVERIES].insert(1, delivery(1, 500))
    assert "an attempt at a callback is recorded more than once" in world.said()


def test_a_callback_that_goes_on_after_its_end_is_a_duplicate() -> None:
    world = well()
    world.topics[DELIVERIES].append(delivery(3, 204))
    assert world.said() == {"a callback went on after its end"}


def test_two_webhook_ids_for_one_result_are_a_duplicate() -> None:
    world = well()
    first = world.topics[DELIVERIES][-1]
    assert isinstance(first, Delivery)
    world.topics[DELIVERIES].append(replace(first, delivery_id="other", attempt=0))
    world.received["other"] = []
    assert "a result has more than one webhook-id" in world.said()


def test_a_callback_that_ended_and_never_came_is_lost() -> None:
    world = well()
    world.received.clear()
    assert world.said() == {"a callback ended and never came"}


def test_a_repeat_needs_a_fault_that_explains_it() -> None:
    world = well()
    world.received["dlv"].append(Reception(10_000, "body"))
    assert world.kinds() == {"unexplained_repeat"}
    world.disturbances.append(Disturbance(5_000, 6_000))
    assert world.findings() == []
    world.disturbances[0] = Disturbance(50_000, 60_000)
    assert world.kinds() == {"unexplained_repeat"}


def test_bodies_that_differ_signatures_that_are_bad_and_strange_callbacks_are_illegal() -> None:
    world = well()
    world.received["dlv"][1] = Reception(20, "another body")
    world.received["strange"] = [Reception(30, "body")]
    world.rejected = 1
    assert world.kinds() == {"illegal"}
    assert len(world.findings()) == 3


# Offsets


def at(time: int, **positions: Committed) -> Snapshot:
    places = {"requests": REQUESTS, "lane": LANE, "samples": SAMPLES, "results": RESULTS}
    return Snapshot(time, {places[name]: position for name, position in positions.items()})


def test_an_offset_ahead_of_work_that_was_done_later_is_found() -> None:
    for place, offset, position, what in (
        (SAMPLES, 0, {"requests": Committed(1)}, "the batcher's offset is ahead of a request that was not opened"),
        (LANE, 0, {"requests": Committed(1)}, "the batcher's offset is ahead of a task in no batch"),
        (SAMPLES, 3, {"lane": Committed(1)}, "the worker's offset is ahead of a task without a sample"),
        (SAMPLES, 2, {"lane": Committed(0, {0: 2})}, "the worker's offset is ahead of a task without a sample"),
        (RESULTS, 0, {"samples": Committed(4)}, "the aggregator's offset is ahead of a complete vote without a result"),
    ):  # fmt: skip
        world = well()
        world.times[place, offset] = world.times[RESULTS, 0] = 60
        world.snapshots = [at(50, **position)]
        assert world.said() == {what}
        world.snapshots = [at(61, **position)]
        assert world.findings() == []


def test_a_vote_whose_reviews_are_still_drawn_has_no_result_yet() -> None:
    world = well()
    world.times[RESULTS, 0] = 60
    world.topics[LANE].append(batch(3))
    world.snapshots = [at(50, samples=Committed(4))]
    assert "the aggregator's offset is ahead of a complete vote without a result" not in world.said()


def test_an_offset_ahead_of_a_callback_that_was_recorded_later_is_found() -> None:
    world = well()
    world.times |= {(DELIVERIES, offset): 60 for offset in range(3)}
    world.snapshots = [at(50, results=Committed(1))]
    assert world.said() == {"the webhook agent's offset is ahead of a callback that was not recorded"}


def test_an_offset_behind_the_end_of_its_partition_is_found() -> None:
    world = well()
    world.passed[LANE] = Committed(9)
    assert world.said() == {"a committed offset is behind the end of its partition"}


def test_a_task_of_a_decided_request_needs_no_sample() -> None:
    world = well()
    world.snapshots = [at(50, lane=Committed(1))]
    world.times[SAMPLES, 3] = 60
    assert world.findings() == []


# The rest


def test_dead_letters_and_bytes_that_are_no_event_are_found() -> None:
    world = well()
    world.dead_letters = ["dead-letters[0]@0 poison_record"]
    world.unreadable = ["samples[0]@9: not in single-object encoding"]
    assert world.kinds() == {"dead_letter", "illegal"}


def test_the_audit_does_not_use_what_it_judges() -> None:
    judged = ("windows", "fusion", "scheduling", "kafka.fenced_sink", "kafka.transactions", "kafka.in_flight")
    code = "import sys, pipeline.chaos.audit, pipeline.chaos.collect; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {f"pipeline.{name}" for name in judged} & set(loaded.split())
