"""The worker's choice: shares of lanes, waits, urgent requests, tenants, what a choice costs; and stopping."""

from __future__ import annotations

from typing import Final

from pipeline.bench.parts import Measure
from pipeline.bench.scheduling_decisions import decisions
from pipeline.bench.scheduling_stops import last_tokens, stops
from pipeline.bench.scheduling_waits import low_lane, shares, tenants, urgent_requests

MEASURES: Final[dict[str, Measure]] = {
    "lane-shares": shares,
    "low-lane": low_lane,
    "urgent": urgent_requests,
    "tenants": tenants,
    "decisions": decisions,
    "cancel-step": last_tokens,
    "stops": stops,
}
