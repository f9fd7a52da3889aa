"""The audit's own reading agrees with what the pipeline writes."""

from __future__ import annotations

import pytest

from pipeline.chaos.collect import Decoder, bitmaps
from pipeline.chaos.recount import disagreement, recount
from pipeline.events import Mode
from pipeline.kafka.codec import Codec
from pipeline.kafka.in_flight import InFlight, Position
from tests.chaos.world import batch, delivery, opened, result, sample


def test_its_decoder_reads_what_the_codec_writes() -> None:
    for event in (batch(), opened(), sample(0, 7, -0.1), result(), delivery(1, 500)):
        assert Decoder().decode(Codec().encode(event)) == event


def test_its_decoder_refuses_what_is_no_event() -> None:
    for value in (b"", b"{}", b"\xc3\x01" + bytes(8)):
        with pytest.raises(ValueError, match="single-object"):
            Decoder().decode(value)


def test_it_reads_the_metadata_that_a_worker_commits() -> None:
    tracker = InFlight(Position(10))
    for offset in (10, 11, 12):
        tracker.add(offset, 3)
    for offset, task in ((10, 1), (12, 0), (12, 2)):
        tracker.finish(offset, task)
    position = tracker.position()
    assert bitmaps(position.offset, position.metadata) == {10: 0b010, 12: 0b101}
    assert bitmaps(10, "") == {}


def test_level_scores_are_told_apart_by_votes_then_confidence_then_index() -> None:
    level = [sample(0, 4, -0.2), sample(1, 5, -0.2)]
    assert recount(level, Mode.STANDARD).groups[0].answer == "4"
    surer = [sample(0, 4, -0.2), sample(1, 5, -0.1)]
    assert recount(surer, Mode.STANDARD).groups[0].answer == "5"
    assert [group.answer for group in recount(surer, Mode.FAST).groups] == ["5", "4"]


def test_a_sample_without_an_answer_lowers_the_confidence_and_not_the_score() -> None:
    told = recount([sample(0, 4, 0.0), sample(1, None, -0.1)], Mode.STANDARD)
    assert told.groups[0].score == pytest.approx(1.0)
    assert told.confidence == pytest.approx(0.65)


def test_an_honest_result_agrees() -> None:
    assert disagreement(result(), [sample(0, 7, -0.1), sample(1, 7, -0.2), sample(2, 8, -0.3)]) == ""
