from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from pipeline.store.tasks import LaneLoad, Load
from tests.unit.gateway.gateway_world import NOW, World, world


async def told(here: World) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    status, headers, page = await here.call("GET", "/metrics", key=None)
    assert (status, headers["Content-Type"].partition(";")[0]) == (200, "text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


async def test_what_waits_is_told_by_priority(tmp_path: Path) -> None:
    async with world(tmp_path, keyed=True) as here:
        here.store.busy = Load((LaneLoad(3, 1, 2, NOW), *[LaneLoad()] * 5), unread=7, as_of=NOW)
        found = await told(here)
    assert found["tallystream_requests_waiting", (("priority", "0"),)] == 3
    assert found["tallystream_requests_running", (("priority", "0"),)] == 2
    assert found["tallystream_requests_waiting", (("priority", "5"),)] == 0
    assert found["tallystream_oldest_wait_seconds", (("priority", "5"),)] == 0
    assert found["tallystream_view_unread_records", ()] == 7
    assert found["tallystream_listeners", ()] == 0


async def test_calls_are_counted_by_route_never_by_what_they_ask_for(tmp_path: Path) -> None:
    async with world(tmp_path) as here:
        before = await told(here)
        for path in ("/v1/tasks/one", "/v1/tasks/two", "/no/such/page"):
            await here.call("GET", path)
        found = await told(here)
    name = "tallystream_http_requests_total"

    def grown(method: str, route: str, status: str) -> float:
        key = (name, (("method", method), ("route", route), ("status", status)))
        return found.get(key, 0) - before.get(key, 0)

    assert grown("GET", "/v1/tasks/{id}", "404") == 2
    assert grown("none", "none", "404") == 1
    routes = {dict(labels).get("route", "/") for _, labels in found}
    assert all(route == "none" or (route[0] == "/" and "one" not in route) for route in routes)
