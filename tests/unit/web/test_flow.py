from __future__ import annotations

from agents.web.flow import Flow, flow_of
from pipeline.health_server import AgentHealth
from pipeline.store.tasks import LaneLoad, Load

LANES = (LaneLoad(), LaneLoad(12, 3, 4, 1_000), *(LaneLoad(2),), *(LaneLoad(),) * 3)


def shown(**body: object) -> Flow:
    return flow_of(Load(LANES), {}, [AgentHealth("worker-3", "url", dict(body))], 5_000)


def test_bars_are_as_long_as_the_fullest_lane_allows() -> None:
    lanes = shown(status="ok").lanes
    assert (lanes[1].running_width, lanes[1].waiting_width) == (25, 75)
    assert (lanes[2].running_width, lanes[2].waiting_width) == (0, 12.5)
    assert (lanes[0].oldest_s, lanes[1].oldest_s) == (None, 4)


def test_a_few_do_not_fill_a_lane() -> None:
    assert flow_of(Load((LaneLoad(1),) * 6), {}, (), 0).lanes[0].waiting_width == 12.5


def test_how_an_agent_is() -> None:
    flow = shown(
        status="ok", kafka="reachable", rows={"in_use": 2, "total": 3}, partitions=[{"lag": 4}, {"lag": None}]
    )
    assert flow.agents is not None
    (agent,) = flow.agents["worker"]
    assert (agent.name, agent.tone, agent.word, agent.lag) == ("worker-3", "good", "ok", 4)
    assert agent.pips == [True, True, False]


def test_an_agent_that_is_not_well_says_why() -> None:
    told = [
        shown(),
        shown(status="stalled", kafka="reachable", reason="requests[0] has not moved", partitions=[]),
        shown(status="ok", kafka="away", partitions=[]),
        shown(status="resting", reason="it is night"),
    ]
    agents = [flow.agents["worker"][0] for flow in told if flow.agents]
    assert [(each.tone, each.word) for each in agents] == [
        ("bad", "silent"),
        ("bad", "stalled"),
        ("part", "no Kafka"),
        ("bad", "resting"),
    ]
    assert all(each.why for each in agents)


def test_who_may_not_see_the_agents_is_shown_none() -> None:
    assert flow_of(Load(LANES), {}, None, 0).agents is None
