from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.topics import LANES, REQUESTS, declared_topics, lane_of, request_partition, shard_of


def test_the_shard_is_zlibs_crc32() -> None:
    assert shard_of("123456789", 2**32) == 0xCBF43926  # the check value of CRC-32/ISO-HDLC
    assert shard_of("", 7) == 0
    assert shard_of("问题", 2**32) == 0x8ACD50ED


@settings(deadline=None)
@given(request_id=st.text(max_size=20), priority=st.integers(0, 5), shards=st.integers(1, 64))
def test_a_partition_holds_one_lane_of_one_shard(request_id: str, priority: int, shards: int) -> None:
    partition = request_partition(request_id, priority, shards)
    assert lane_of(partition, shards) == priority
    assert partition % shards == shard_of(request_id, shards)
    assert partition < 6 * shards


@pytest.mark.parametrize("shards", [1, 5])
def test_partitions_as_declared(shards: int) -> None:
    counts = {spec.name: spec.partitions for spec in declared_topics(shards, "app")}
    assert counts.pop(REQUESTS) == 6 * shards
    assert counts.pop("control") == 1
    assert set(counts.values()) == {shards}
    assert set(LANES) <= set(counts) and "app-aggregator-windows-changelog" in counts
