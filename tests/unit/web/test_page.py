"""The page over HTTP: who sees what, what forms do, and that nothing that others wrote is markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from page_world import NASTY, FakeStore, delivery, letter, running, served, voted

from agents.web import operations, resending
from pipeline.delivery import resend
from pipeline.delivery.history import Kept
from pipeline.errors import OverloadedError
from pipeline.events import Callback, DeliveryState, Kind, Message, Mode, Status
from pipeline.replay.letters import LetterPlace
from pipeline.replay.resend import Plan, Planned
from pipeline.store.tasks import TaskFilter

VIEWS = ("/", "/tasks", "/tasks/nasty", "/tasks/run", "/deliveries", "/dead-letters", "/ask")
_VOID = {"meta", "link", "input", "br", "img", "hr"}


class Markup(HTMLParser):
    """All elements with their attributes; fails where tags are not closed in order, or a direction gets out."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop()[0] == tag, f"</{tag}>"

    def handle_data(self, data: str) -> None:
        if "\u202e" in data:
            isolated = any(tag in ("bdi", "title") or each.get("dir") == "auto" for tag, each in self.open)
            assert isolated, self.open[-3:]


def hostile() -> FakeStore:
    """A store in which strangers and models have written what they could."""
    task, samples = voted([NASTY, NASTY, "other"], "nasty", prompt=NASTY, tenant=NASTY, texts=[NASTY] * 3)
    assert task.result is not None
    talk = (Message("system", NASTY), Message("user", NASTY))
    request = replace(
        task.request, prompt="", messages=talk, metadata={NASTY: NASTY}, callback=Callback(NASTY)
    )
    chains = tuple(replace(chain, note=NASTY) for chain in task.result.reasoning)
    result = replace(task.result, why=NASTY, clarifying_question=NASTY, reasoning=chains)
    waits, drawn = running("run", prompt=NASTY)
    failed = delivery("nasty", DeliveryState.FAILED, url=NASTY)
    assert failed.error is not None
    failed = replace(failed, event=NASTY, error=replace(failed.error, message=NASTY, code=NASTY))
    store = FakeStore([replace(task, request=request, result=result), waits], [*samples, *drawn], [failed])
    store.dead = [replace(letter(message=NASTY), key=NASTY.encode())]
    store.problem = NASTY
    return store


@pytest.mark.parametrize("path", VIEWS)
async def test_what_others_wrote_is_text_and_keeps_its_direction_to_itself(path: str, tmp_path: Path) -> None:
    async with served(tmp_path, hostile()) as world:
        text = await world.text(path)
        assert "alert(1)" in text or path in ("/ask",)
        elements = Markup(text).elements
    for tag, attributes in elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"], (
            tag,
            attributes,
        )
        assert tag != "script" or "src" in attributes
        for name in ("src", "href", "action"):
            assert (attributes.get(name) or "/").startswith(("/", "#")), attributes


async def test_the_browser_is_told_what_the_page_may(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        response = await world.client.get("/")
        policy = response.headers["Content-Security-Policy"]
        assert response.headers["Referrer-Policy"] == "same-origin", "else its forms come from Origin: null"
    assert "script-src 'self'" in policy and "style-src 'self'" in policy and "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


async def test_an_empty_page_says_what_to_do(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        assert "Ask something" in await world.text("/")
        assert "Ask something" in await world.text("/tasks")
        assert "No task is like that" in await world.text("/tasks?status=done")
        assert "No callback" in await world.text("/deliveries")
        assert "Every record could be handled" in await world.text("/dead-letters")


async def test_demo_mode_says_so_and_who_has_a_key_is_named(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        assert "demo mode" in await world.text("/")
    async with served(tmp_path, tenants=["acme"]) as world:
        text = await world.text("/", Authorization=f"Bearer {world.keys['acme']}")
        assert "demo mode" not in text
        assert "acme" in text


async def test_a_tenant_sees_its_own_tasks_and_no_operations(tmp_path: Path) -> None:
    mine, _ = voted(["1"], "mine", tenant="acme", prompt="my question")
    theirs, _ = voted(["2"], "theirs", tenant="other", prompt="their question")
    async with served(tmp_path, FakeStore([mine, theirs]), tenants=["acme", "admin"]) as world:
        bearer = {"Authorization": f"Bearer {world.keys['acme']}"}
        for path in ("/", "/tasks", "/tasks?tenant=other", "/page/newest"):
            text = await world.text(path, **bearer)
            assert ("my question" in text, "their question" in text) == (True, False), path
        assert "no such task" in await world.text("/tasks/theirs", 404, **bearer)
        for path in ("/deliveries", "/dead-letters"):
            assert "admin" in await world.text(path, 403, **bearer)
            assert path not in await world.text("/", **bearer)
        assert "agents" not in await world.text("/page/flow", **bearer)
        everything = await world.text("/tasks", Authorization=f"Bearer {world.keys['admin']}")
        assert "their question" in everything


async def test_signing_in_and_out(tmp_path: Path) -> None:
    async with served(tmp_path, FakeStore(), tenants=["acme"]) as world:
        client, html = world.client, {"Accept": "text/html"}
        away = await client.get("/tasks", headers=html, allow_redirects=False)
        assert (away.status, away.headers["Location"]) == (303, "/login?next=%2Ftasks")
        wrong = await client.post("/login", data={"key": "tsk_no_no", "next": "/tasks"}, headers=html)
        assert wrong.status == 401
        assert "not known here" in await wrong.text()
        fields = {"key": f" {world.keys['acme']} ", "next": "/tasks"}
        right = await client.post("/login", data=fields, headers=html, allow_redirects=False)
        assert (right.status, right.headers["Location"]) == (303, "/tasks")
        cookie = right.headers["Set-Cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/"))
        assert "Secure" not in cookie
        by_tls = {"X-Forwarded-Proto": "https"}
        secure = await client.post("/login", data=fields, headers=by_tls, allow_redirects=False)
        assert "Secure" in secure.headers["Set-Cookie"]
        await client.post("/login", data=fields, allow_redirects=False)
        assert "acme" in await world.text("/tasks")
        await client.post("/logout", allow_redirects=False)
        assert (await client.get("/tasks", headers=html, allow_redirects=False)).status == 303


async def test_a_callback_of_a_batch_is_shown_and_leads_nowhere(tmp_path: Path) -> None:
    of_task = delivery("t1", delivery_id="d1")
    of_batch = replace(delivery("batch_0a", delivery_id="d2"), event="batch.completed")
    async with served(tmp_path, FakeStore([], [], [of_task, of_batch])) as world:
        text = await world.text("/deliveries")
        links = [attributes.get("href") or "" for _, attributes in Markup(text).elements]
    assert "batch_0a" in text
    assert [link for link in links if link.endswith("#deliveries")] == ["/tasks/t1#deliveries"]


@pytest.mark.parametrize(
    "there",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "/a\r\nX: y"],
)
async def test_signing_in_leads_nowhere_else(there: str, tmp_path: Path) -> None:
    async with served(tmp_path, tenants=["acme"]) as world:
        fields = {"key": world.keys["acme"], "next": there}
        response = await world.client.post("/login", data=fields, allow_redirects=False)
        assert response.headers["Location"] == "/"


async def test_a_form_is_a_task_and_its_sheet_is_asked_once(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        world.submissions.request_id = "a/b c"
        sheet = re.search(r'name="once" value="([^"]+)"', await world.text("/ask"))
        assert sheet
        fields = {
            "prompt": "Why?\r\nSay.",
            "mode": "deep",
            "kind": "code",
            "priority": "1",
            "n": "7",
            "tests": "assert f(2) == 4",
            "once": sheet[1],
        }
        answer = await world.client.post("/ask", data=fields, allow_redirects=False)
        assert (answer.status, answer.headers["Location"]) == (303, "/tasks/a%2Fb%20c")
        again = await world.client.post("/ask", data=fields, headers={"HX-Request": "true"})
        assert (again.status, again.headers["HX-Redirect"]) == (204, "/tasks/a%2Fb%20c")
        await world.client.post("/ask", data=fields | {"prompt": "Why not?"}, allow_redirects=False)
        first, second, other = world.submissions.keys
        assert first == second != other, "the same sheet is the same task, with other words another"
        taken = world.submissions.taken[0]
        assert (taken.prompt, taken.mode, taken.kind, taken.priority) == (
            "Why?\nSay.",
            Mode.DEEP,
            Kind.CODE,
            1,
        )
        assert (taken.sampling.n, taken.tests, taken.callback) == (7, "assert f(2) == 4", None)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n": "many"}, "sampling.n"),
        ({"n": "0"}, "sampling.n"),
        ({"priority": "6"}, "priority"),
        ({"mode": "quick"}, "mode"),
        ({"callback": "http://127.0.0.1/"}, "127.0.0.1"),
    ],
)
async def test_what_is_refused_stays_in_the_form(change: dict[str, str], told: str, tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        fields = {"prompt": "</textarea>\nmy words", "mode": "fast", "priority": "1"} | change
        response = await world.client.post("/ask", data=fields)
        text = await response.text()
        assert response.status == 422
        assert told in text
        assert "&lt;/textarea&gt;\nmy words" in text
        assert not world.submissions.taken


async def test_an_overload_is_told_in_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def full(*_: object) -> None:
        raise OverloadedError("too many tasks wait", retry_after=3)

    async with served(tmp_path) as world:
        monkeypatch.setattr(world.submissions, "submit", full)
        response = await world.client.post("/ask", data={"prompt": "Why?", "mode": "fast", "priority": "1"})
        assert response.status == 503
        assert "too many tasks wait" in await response.text()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"prompt=%ff", "application/x-www-form-urlencoded"),
        (b"\xff", "application/x-www-form-urlencoded"),
        (b"&".join([b"a=b"] * 60), "application/x-www-form-urlencoded"),
        (b'{"prompt": "x"}', "application/json"),
        (b"prompt=x", "application/x-www-form-urlencoded; charset=no-such"),
    ],
)
async def test_what_is_no_form_is_no_fault_of_ours(body: bytes, kind: str, tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        for path in ("/ask", "/login", "/dead-letters/replay", "/deliveries/resend"):
            response = await world.client.post(path, data=body, headers={"Content-Type": kind})
            assert 400 <= response.status < 500, path


async def test_another_site_can_not_post(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        theirs = {"Sec-Fetch-Site": "cross-site"}
        for path in ("/ask", "/tasks/q/cancel", "/dead-letters/replay", "/deliveries/resend"):
            response = await world.client.post(path, data={"prompt": "x", "letter": "0:1"}, headers=theirs)
            assert response.status == 403, path
        assert not world.submissions.taken


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", TaskFilter()),
        ("?status=done&tenant=a", TaskFilter(tenant="a", statuses=(Status.DONE,))),
        ("?status=open", TaskFilter(statuses=(Status.PENDING, Status.RUNNING, Status.FIRST_ANSWER))),
        ("?status=nonsense&within=nonsense", TaskFilter()),
    ],
)
async def test_the_filters_of_the_list(query: str, wanted: TaskFilter, tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        await world.text(f"/tasks{query}")
        assert world.store.asked == [wanted]


async def test_pages_of_the_list_keep_its_filters(tmp_path: Path) -> None:
    store = FakeStore([voted(["1"], f"t{number}")[0] for number in range(31)])
    async with served(tmp_path, store) as world:
        assert 'href="/tasks?status=done&amp;after=more"' in await world.text("/tasks?status=done")
        later = await world.text("/tasks?status=done&after=more")
        assert 'href="/tasks?status=done"' in later
        assert "every 2s" not in later, "only the first page is the newest"


async def test_a_task_that_runs_can_be_listened_to_and_stopped_and_an_ended_one_not(tmp_path: Path) -> None:
    (ended, drawn), (runs, some) = voted(["7"], "done"), running("run")
    async with served(tmp_path, FakeStore([ended, runs], [*drawn, *some])) as world:
        text = await world.text("/tasks/run")
        assert "data-live" in text and 'action="/tasks/run/cancel"' in text
        text = await world.text("/tasks/done")
        assert "data-live" not in text and "/cancel" not in text
        assert "The answer is 18" in await world.text("/tasks/run/samples/0")
        for index in ("1", "x", "-1", "0" * 300):
            await world.text(f"/tasks/run/samples/{index}", 404)


async def test_what_becomes_of_a_callback_is_listened_to(tmp_path: Path) -> None:
    task, _ = voted(["7"], "q", callback=Callback("https://hooks.example.com/"))
    for told, live in (((), True), ((DeliveryState.PENDING,), True), ((DeliveryState.DELIVERED,), False)):
        async with served(tmp_path, FakeStore([task], [], [delivery(state=each) for each in told])) as world:
            assert ("data-live" in await world.text("/tasks/q")) is live


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (lambda item: Plan((Planned(item, ("requests", 4)),), 0), "sent again, to requests[4]"),
        (
            lambda item: Plan((Planned(item, None, "is no request"),), 0),
            "can not be sent again: is no request",
        ),
        (lambda item: Plan((), 1), "was sent again before"),
        (lambda item: Plan((), 0), "There is no letter 0:17"),
    ],
)
async def test_replaying_a_letter_says_what_became_of_it(
    plan: Callable[[Any], Plan], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[LetterPlace] = []

    def replayed(gateway: object, place: LetterPlace) -> Plan:
        asked.append(place)
        return plan(letter())

    monkeypatch.setattr(operations, "_replayed", replayed)
    async with served(tmp_path, FakeStore(dead=[letter()])) as world:
        response = await world.client.post(
            "/dead-letters/replay", data={"letter": "0:17"}, headers={"HX-Request": "true"}
        )
        assert told in await response.text()
        assert asked == [(0, 17)]
        wrong = await world.client.post("/dead-letters/replay", data={"letter": "all"})
        assert (wrong.status, len(asked)) == (422, 1)


async def test_a_failed_callback_is_sent_again_and_its_task_shown_once_the_view_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, drawn = voted(["7"], "q", callback=Callback("https://hooks.example.com/"))
    failed = delivery(state=DeliveryState.FAILED)
    kept = Kept(failed, (0, 7), 100)
    outcome = [resend.Planned(kept)]
    store = FakeStore([task], drawn, [failed])
    asked: list[str] = []

    def resent(gateway: object, delivery_id: str) -> resend.Plan:
        asked.append(delivery_id)
        if not outcome[0].reason:
            store.told.append(replace(failed, state=DeliveryState.PENDING, attempts_before=failed.attempt))
        return resend.Plan(tuple(outcome), ())

    monkeypatch.setattr(resending, "_resent", resent)
    async with served(tmp_path, store, tenants=["acme", "admin"]) as world:
        admin = {"Authorization": f"Bearer {world.keys['admin']}"}
        post = partial(world.client.post, "/deliveries/resend", allow_redirects=False)
        assert 'action="/deliveries/resend"' in await world.text("/tasks/q", **admin)
        none = await post(data={"delivery": "no-such"}, headers=admin)
        tenant = {"Authorization": f"Bearer {world.keys['acme']}"}
        other = await post(data={"delivery": "d"}, headers=tenant)
        assert (none.status, other.status, asked) == (404, 403, [])
        outcome[0] = resend.Planned(kept, "it is disabled")
        disabled = await post(data={"delivery": "d"}, headers=admin)
        assert disabled.status == 422 and f"--enable {kept.endpoint}" in await disabled.text()
        outcome[0] = resend.Planned(kept)
        done = await post(data={"delivery": "d"}, headers=admin)
        assert (done.status, done.headers["Location"], asked) == (303, "/tasks/q#deliveries", ["d", "d"])
        text = await world.text("/tasks/q", **admin)
        assert "data-live" in text and 'action="/deliveries/resend"' not in text


async def test_a_problem_is_a_page_to_people_and_a_document_to_programs(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        assert "Not Found" in await world.text("/tasks/none", 404)
        response = await world.client.get("/tasks/none")
        assert response.content_type == "application/problem+json"


async def test_files_come_with_their_type_and_nothing_else_is_there(tmp_path: Path) -> None:
    async with served(tmp_path) as world:
        page = await world.text("/")
        for url in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
            response = await world.client.get(url)
            assert response.status == 200, url
            assert "immutable" in response.headers["Cache-Control"]
        plain = await world.client.get("/static/page.css")
        assert "immutable" not in plain.headers["Cache-Control"], "its URL does not name its content"
        for name in (
            "..%2fpage.py",
            "vendor%2f..%2f..%2froutes.py",
            "%00",
            "templates/base.html",
            "x" * 5_000,
        ):
            assert (await world.client.get(f"/static/{name}")).status == 404


def test_nothing_that_is_vendored_names_a_host_but_its_home() -> None:
    vendor = Path(operations.__file__).parent / "static" / "vendor"
    hosts = {
        found for path in vendor.iterdir() for found in re.findall(r"https?://[\w.-]+", path.read_text())
    }
    assert hosts <= {"https://github.com"}
    assert {path.name.partition(".")[0].partition("-")[0] for path in vendor.glob("*.txt")} == {
        "htmx",
        "uplot",
    }
