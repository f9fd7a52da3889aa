"""Whose trace a batch of several requests goes on with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_unpack import group

from pipeline.kafka.codec import Codec
from pipeline.kafka.records import Headers
from pipeline.scheduling.batch_records import batch_records
from pipeline.settings import load_settings

LIMITS = load_settings().batching
SAMPLED, OTHER = (f"00-{digit * 32}-{digit * 16}-01" for digit in "ab")
UNSAMPLED = f"00-{'c' * 32}-{'c' * 16}-00"


def headers_of_batch(*traces: str) -> Headers:
    groups = [(3, replace(group(f"q-{place}", 1), trace=trace)) for place, trace in enumerate(traces)]
    (batch,) = batch_records(groups, shard=0, codec=Codec(), limits=LIMITS, now=0, spans=[])
    return batch.headers


@pytest.mark.parametrize(
    ("traces", "told"),
    [
        ([SAMPLED], SAMPLED),
        ([SAMPLED, OTHER], SAMPLED),
        ([UNSAMPLED, "", OTHER], OTHER),
        ([UNSAMPLED], UNSAMPLED),
    ],
)
def test_a_batch_goes_on_with_the_first_trace_that_is_told(traces: list[str], told: str) -> None:
    assert headers_of_batch(*traces) == (("traceparent", told.encode()),)


def test_a_batch_of_requests_without_a_trace_has_none() -> None:
    assert headers_of_batch("", "") == ()
