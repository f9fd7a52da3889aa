from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from pipeline.errors import ConfigError, GatewayDownError, RefusedError
from pipeline.http_client import HttpClient, Remote

Answer = httpx.Response | Exception


class Gateway(httpx.BaseTransport):
    """Gives these answers, one a call, the last one for ever; keeps the calls."""

    def __init__(self, *answers: Answer | Callable[[], Answer]) -> None:
        self._answers = itertools.chain(answers[:-1], itertools.repeat(answers[-1]))
        self.calls: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.calls.append(request)
        answer = next(self._answers)
        answer = answer() if callable(answer) else answer
        if isinstance(answer, Exception):
            raise answer
        return answer


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def client(gateway: Gateway, time: Time, key: str = "tsk_a_b") -> HttpClient:
    remote = Remote("http://gateway:8080/", key)
    return HttpClient(remote, transport=gateway, sleep=time.sleep, clock=lambda: time.now)


def problem(status: int, detail: str, field: str | None = None, **headers: str) -> httpx.Response:
    body = {"detail": detail, "field": field, "status": status}
    return httpx.Response(status, json=body, headers=headers)


def stream(*events: str, broken: bool = False) -> httpx.Response:
    def body() -> Iterator[bytes]:
        yield from (event.encode() for event in events)
        if broken:
            raise httpx.ReadError("cut")

    return httpx.Response(200, content=body())


def event(name: str, place: str = "") -> str:
    return f"event: {name}\n{f'id: {place}' if place else ': none'}\ndata: {{}}\n\n"


ACCEPTED = httpx.Response(202, json={"id": "q"})
REFUSED = httpx.ConnectError("refused")


def test_an_ask_is_repeated_under_one_key_until_the_gateway_has_it() -> None:
    gateway, time = (
        Gateway(REFUSED, problem(503, "busy", **{"Retry-After": "7"}), httpx.ReadError("cut"), ACCEPTED),
        Time(),
    )
    assert client(gateway, time).submit({"prompt": "x"}, "k1") == {"id": "q"}
    assert [call.headers["Idempotency-Key"] for call in gateway.calls] == ["k1"] * 4
    assert {call.headers["Authorization"] for call in gateway.calls} == {"Bearer tsk_a_b"}
    assert time.slept == [1.0, 7.0, 1.0]


def test_a_problem_is_one_line_that_names_the_field_and_is_not_repeated() -> None:
    gateway = Gateway(problem(422, "must be 0 to 5", "priority"))
    with pytest.raises(RefusedError, match=r"^priority: must be 0 to 5$") as refused:
        client(gateway, Time()).submit({}, "k")
    assert refused.value.field == "priority" and len(gateway.calls) == 1


def test_a_detail_that_names_its_field_itself_is_left_as_it_is() -> None:
    with pytest.raises(RefusedError, match=r"^limit is 1 to 100$"):
        list(client(Gateway(problem(422, "limit is 1 to 100", "limit")), Time()).tasks(5))


def test_what_is_no_problem_document_is_told_by_its_status() -> None:
    for answer in (
        httpx.Response(404, text="<html>"),
        httpx.Response(404, json=[1]),
        httpx.Response(404, json={}),
    ):
        with pytest.raises(RefusedError, match=r"^404 Not Found$"):
            client(Gateway(answer), Time()).task("q")


def test_a_missing_key_says_where_it_goes() -> None:
    with pytest.raises(RefusedError, match="TALLYSTREAM_KEY"):
        client(Gateway(problem(401, "an API key is needed")), Time(), key="").task("q")


def test_a_gateway_that_stays_away_is_given_up() -> None:
    time = Time()
    with pytest.raises(GatewayDownError, match="http://gateway:8080: refused"):
        client(Gateway(REFUSED), time).task("q")
    assert 25 < time.now <= 30
    with pytest.raises(GatewayDownError, match="busy"):
        client(Gateway(problem(503, "busy", **{"Retry-After": "3600"})), Time()).task("q")


def test_an_id_is_one_segment_of_the_path_whatever_it_holds() -> None:
    gateway = Gateway(httpx.Response(200, json={}))
    client(gateway, Time()).task("../a b/ü?x", "samples", "request")
    assert gateway.calls[0].url.raw_path == b"/v1/tasks/..%2Fa%20b%2F%C3%BC%3Fx?include=samples%2Crequest"


def test_a_list_goes_on_page_by_page() -> None:
    pages = [
        {"tasks": [{"id": str(n)} for n in range(100)], "cursor": "c"},
        {"tasks": [{"id": "x"}], "cursor": None},
    ]
    gateway = Gateway(*(httpx.Response(200, json=page) for page in pages))
    assert len(list(client(gateway, Time()).tasks(150, status="done"))) == 101
    assert [dict(call.url.params) for call in gateway.calls] == [
        {"status": "done", "limit": "100"},
        {"status": "done", "limit": "50", "cursor": "c"},
    ]


def test_events_go_on_behind_the_last_one_after_every_kind_of_loss() -> None:
    gateway = Gateway(
        stream(event("state"), event("sample", "s1")),  # it ends, without an ``end``
        REFUSED,
        stream(event("state"), event("tokens", "s1.p4"), broken=True),
        problem(503, "starting"),
        stream(event("state"), event("result", "s1.r0.p4"), event("end")),
    )
    found = [(each.name, each.id) for each in client(gateway, Time()).events("q")]
    assert found == [
        ("state", ""),
        ("sample", "s1"),
        ("state", "s1"),
        ("tokens", "s1.p4"),
        ("state", "s1.p4"),
        ("result", "s1.r0.p4"),
        ("end", "s1.r0.p4"),
    ]
    sent = [call.headers.get("Last-Event-ID") for call in gateway.calls]
    assert sent == [None, "s1", "s1", "s1.p4", "s1.p4"]


def test_events_of_what_is_not_there_end_at_once() -> None:
    with pytest.raises(RefusedError, match="no such task"):
        list(client(Gateway(problem(404, "there is no such task")), Time()).events("q"))


def test_events_are_read_no_longer_than_wanted() -> None:
    time = Time()
    gateway = Gateway(lambda: stream(event("state")))
    found = list(client(gateway, time).events("q", within=3.0))
    assert found and time.now == pytest.approx(3.0)


def test_a_gateway_that_is_lost_for_good_is_said() -> None:
    with pytest.raises(GatewayDownError):
        list(client(Gateway(stream(event("state")), REFUSED), Time()).events("q"))


@pytest.mark.parametrize("url", ["ftp://x", "http://", "://", "http://\x00"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        HttpClient(Remote(url))


def test_a_key_is_in_no_representation_and_may_not_break_a_header() -> None:
    assert "secret" not in repr(Remote("http://x", "secret"))
    with pytest.raises(ConfigError, match="TALLYSTREAM_KEY") as refused:
        HttpClient(Remote("http://x", "secret\r\nX: y"))
    assert "secret" not in str(refused.value)


def test_a_body_is_sent_as_json() -> None:
    gateway = Gateway(ACCEPTED)
    client(gateway, Time()).submit({"prompt": "ü"}, "k")
    assert json.loads(gateway.calls[0].content) == {"prompt": "ü"}
