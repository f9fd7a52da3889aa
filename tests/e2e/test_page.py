"""The page as a person meets it: a real browser, a gateway, and a pipeline on a Kafka of their own."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from pipeline.gateway.key_file import changed_keys
from pipeline.gateway.keys import new_key
from pipeline.health_server import read_agents
from pipeline.stack import AGENTS, GATEWAY
from pipeline.supervisor import Supervisor
from pipeline.topics import DEAD_LETTERS
from tests.e2e.browser import PATIENCE_MS, chromium, pictures, shoot, visitor
from tests.eventually import eventually
from tests.integration.asker import Asker
from tests.integration.own_pipeline import OwnPipeline, own_pipeline

pytestmark = pytest.mark.integration

expect.set_options(timeout=PATIENCE_MS)

# What the samples show before they have ended, whenever that is: noted in the page, so that no look comes too late.
_WATCH = """() => {
  window.seen = { partly: new Set(), standing: new Set() };
  new MutationObserver(() => {
    for (const card of document.querySelectorAll("#samples .card.run")) {
      const text = card.querySelector(".text").textContent;
      if (text) seen.partly.add(`${card.dataset.index} ${text}`);
    }
    if (!document.getElementById("votes").hidden) seen.standing.add(document.getElementById("standing").textContent);
  }).observe(document.body, { childList: true, subtree: true, characterData: true, attributes: true });
}"""
_SEEN = "name => [...window.seen[name]]"


@dataclass(frozen=True, slots=True)
class Site:
    """A gateway that nobody needs a key for, and what stands behind it."""

    url: str
    pipeline: OwnPipeline
    agents: Supervisor
    folder: Path

    def gateway(self, name: str) -> str:
        """Where a gateway process listens, once it does."""
        found: list[str] = []

        def listens() -> bool:
            found[:] = [
                each.url.removesuffix("/healthz")
                for each in read_agents(self.pipeline.settings)
                if each.name == name and each.body
            ]
            return bool(found)

        eventually(listens)
        return found[0]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    script = '{"min_ms": 150, "max_ms": 600, "rows": 4}'
    env = {"TALLYSTREAM_GATEWAY__PORT": "0"}
    with (
        own_pipeline(folder, agents=(), script=script, env=env) as pipeline,
        pipeline.agents((*AGENTS, GATEWAY)) as agents,
    ):
        site = Site("", pipeline, agents, pictures(folder / "pictures"))
        yield Site(site.gateway("gateway-0"), pipeline, agents, site.folder)


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    with visitor(browser, site.url) as page:
        yield page


def ask(page: Page, prompt: str, **fields: str) -> None:
    """Fill the form in by hand, and click."""
    page.goto("/")
    page.get_by_label("Question").fill(prompt)
    for label, value in fields.items():
        field = page.locator(f"#ask [name={label}]")
        if label == "n":
            field.fill(value)
        else:
            field.select_option(value)
    page.locator("#ask").get_by_role("button", name="Ask").click()
    page.wait_for_url(re.compile("/tasks/"))


def ended(page: Page, state: str) -> None:
    expect(page.locator("#verdict .state").first).to_have_text(state)


def test_a_question_asked_by_clicking_streams_its_samples_and_ends_with_its_answer(
    page: Page, site: Site
) -> None:
    worker = site.agents.pids["worker-0"]
    os.kill(worker, signal.SIGSTOP)  # nothing comes before somebody looks
    try:
        with page.expect_response(re.compile("/events")):
            ask(page, "answers=12,12,13 What is 7 + 5?", n="9")
        page.evaluate(_WATCH)
        expect(page.locator("#samples .card.wait")).to_have_count(9)
        shoot(page, "task-waiting", site.folder)
    finally:
        os.kill(worker, signal.SIGCONT)
    ended(page, "done")
    expect(page.locator("#answer")).to_have_text("12")
    expect(page.locator(".column.leads .card.chosen .word")).to_have_text("the answer")
    partly = page.evaluate(_SEEN, "partly")
    assert any(not text.endswith(("12", "13")) for text in partly), partly
    assert any("the leader stays ahead" in text for text in page.evaluate(_SEEN, "standing"))
    expect(page.locator(".timeline tr").first).to_be_visible()
    shoot(page, "task", site.folder)
    page.reload()
    expect(page.locator("#answer")).to_have_text("12")


def test_by_keyboard_alone(page: Page, site: Site) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    for _ in range(30):
        if page.evaluate("document.activeElement.id") == "prompt":
            break
        page.keyboard.press("Tab")
    page.keyboard.type("answers=42 Which number?")
    for _ in range(5):
        page.keyboard.press("Tab")
    expect(page.locator("#ask button.main")).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/tasks/"))
    ended(page, "done")
    expect(page.locator("#answer")).to_have_text("42")


def test_what_a_model_says_is_shown_and_not_done(page: Page, site: Site) -> None:
    said = "<img/src=x/onerror=alert(1)>"
    ask(page, f"answers={said} <script>document.title='done for'</script>", mode="fast", kind="open")
    ended(page, "done")
    expect(page.locator(".card .text").first).to_contain_text(said)
    assert page.locator("img").count() == 0
    assert "done for" not in page.title().partition("·")[2]


def test_a_task_is_stopped_after_asking(page: Page, site: Site) -> None:
    worker = site.agents.pids["worker-0"]
    os.kill(worker, signal.SIGSTOP)
    try:
        ask(page, "answers=1 How long?", n="5")
        page.locator("#cancel summary").click()
        page.get_by_role("button", name="Stop this task").click()
        expect(page.get_by_text("It is being stopped")).to_be_visible()
        ended(page, "cancelled")
    finally:
        os.kill(worker, signal.SIGCONT)


def test_callbacks_are_shown_with_their_attempts(page: Page, site: Site) -> None:
    page.goto("/ask")
    page.get_by_label("Question").fill("answers=5,5,6 Call me back")
    page.get_by_text("More", exact=True).click()
    page.get_by_label("Call back").fill(site.pipeline.receiver.url)
    page.locator("#ask").get_by_role("button", name="Ask").click()
    page.wait_for_url(re.compile("/tasks/"))
    ended(page, "done")
    delivery = page.locator("#deliveries .delivery")
    expect(delivery.locator("summary .state")).to_have_text("delivered")
    delivery.locator("summary").click()
    expect(delivery.locator("tbody tr").last).to_contain_text("204")
    shoot(page, "task-delivered", site.folder)
    page.goto("/deliveries")
    expect(page.locator("#rows tbody tr").first).to_contain_text("delivered")
    shoot(page, "deliveries", site.folder)


def test_a_callback_that_has_failed_is_sent_again_after_asking(page: Page, site: Site) -> None:
    answers = [410, 204]

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(answers.pop(0))
            self.end_headers()

    with HTTPServer(("127.0.0.1", 0), Endpoint) as endpoint:
        threading.Thread(target=endpoint.serve_forever, daemon=True).start()
        page.goto("/ask")
        page.get_by_label("Question").fill("answers=5,5,6 Nobody is there yet")
        page.get_by_text("More", exact=True).click()
        page.get_by_label("Call back").fill(f"http://127.0.0.1:{endpoint.server_port}/")
        page.locator("#ask").get_by_role("button", name="Ask").click()
        page.wait_for_url(re.compile("/tasks/"))
        delivery = page.locator("#deliveries .delivery")
        expect(delivery.locator("summary .state").first).to_have_text("failed")
        delivery.locator("summary").first.click()
        delivery.get_by_text("Send again …").click()
        shoot(page, "task-resend", site.folder)
        page.get_by_role("button", name="Send it again").click()
        expect(delivery.locator("summary .state").first).to_have_text("delivered")
        endpoint.shutdown()
    assert not answers
    delivery.locator("summary").first.click()
    expect(delivery.locator("tbody tr")).to_have_count(4)
    expect(page.get_by_text("Send again …")).to_have_count(0)


def test_a_dead_letter_is_shown_and_sent_again_after_asking(page: Page, site: Site) -> None:
    page.goto("/dead-letters")
    expect(page.get_by_text("Every record could be handled")).to_be_visible()
    with Asker(site.pipeline.settings, [DEAD_LETTERS]) as asker:
        asker.put_bytes(b"\x00", 0, b"<b>key</b>")
        asker.until(lambda: asker.dead, "the dead letter")
    expect_row = page.locator("#rows tbody tr")

    def shown() -> bool:
        page.reload()
        return expect_row.count() == 1

    eventually(shown)
    expect(expect_row).to_contain_text("too_short")
    expect(expect_row).to_contain_text("<b>key</b>")
    page.locator("summary", has_text="Replay").click()
    shoot(page, "dead-letters", site.folder)
    page.get_by_role("button", name="Send it again").click()
    expect(page.get_by_role("status")).to_contain_text("was sent again")

    def back_again() -> bool:
        page.reload()
        return expect_row.count() == 2

    eventually(back_again)
    expect(expect_row.last).to_contain_text("sent")


def test_the_overview_and_the_list_show_what_there_is(page: Page, site: Site) -> None:
    ask(page, "answers=1,2 The newest of all", priority="1")
    ended(page, "done")
    page.goto("/")
    expect(page.locator("#rows tbody tr").first).to_contain_text("The newest of all")
    for agent in ("gateway-0", "batcher-0", "worker-0", "aggregator-0", "webhook-0"):
        expect(page.locator("#flow .agents")).to_contain_text([re.compile(agent)])
    expect(page.locator("#flow .rows").first).to_contain_text("/4 rows")
    expect(page.locator("#chart canvas")).to_be_visible()
    shoot(page, "overview", site.folder)
    page.goto("/tasks")
    shoot(page, "tasks", site.folder)
    page.get_by_label("State").select_option("cancelled")
    expect(page).to_have_url(re.compile("status=cancelled"))
    expect(page.locator("#rows tbody .state:not(.off)")).to_have_count(0)
    expect(page.get_by_text("The newest of all")).to_have_count(0)


def test_without_scripts_it_can_be_read_and_asked(browser: Browser, site: Site) -> None:
    context = browser.new_context(base_url=site.url, java_script_enabled=False)
    try:
        page = context.new_page()
        page.goto("/ask")
        page.fill("#prompt", "answers=3 Without scripts")
        page.click("#ask button.main")
        page.wait_for_url(re.compile("/tasks/"))
        eventually(lambda: page.goto(page.url) and "done" in page.inner_text("#verdict"))
        assert page.inner_text("#answer") == "3"
    finally:
        context.close()


def test_a_gateway_that_is_lost_is_missed_and_found_again(browser: Browser, site: Site) -> None:
    context = browser.new_context(base_url=site.url)
    try:
        page = context.new_page()
        page.goto("/")
        context.set_offline(True)
        expect(page.locator("#lost")).to_be_visible()
        context.set_offline(False)
        expect(page.locator("#lost")).to_be_hidden()
    finally:
        context.close()


def test_signing_in_with_a_key(browser: Browser, site: Site, tmp_path: Path) -> None:
    key, text = new_key("acme", 1)
    file = tmp_path / "keys.json"
    with changed_keys(file) as keys:
        keys.append(key)
    needs_keys = site.pipeline.agents([GATEWAY], slot=1, TALLYSTREAM_GATEWAY__KEYS_FILE=str(file))
    with needs_keys, visitor(browser, url := site.gateway("gateway-1")) as page:
        page.goto("/")
        page.wait_for_url(re.compile("/login"))
        shoot(page, "login", site.folder)
        page.get_by_label("API key").fill(text)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url(f"{url}/")
        expect(page.get_by_role("link", name="Dead letters")).to_have_count(0)
        ask(page, "answers=9 Mine alone")
        ended(page, "done")
        page.get_by_role("button", name="Sign out").click()
        page.wait_for_url(re.compile("/login"))
