"""A real Chromium, and a visitor of the page that is never to see a fault or another host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Request, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_WIDE, _PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
PATIENCE_MS = 60_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser of this machine; without one the tests that need it are skipped."""
    path = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium on the PATH: install it (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_QUIET))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def visitor(browser: Browser, url: str) -> Iterator[Page]:
    """A page of a fresh browser profile.

    Raises:
        AssertionError: when the block ends: the console showed an error, or another host was asked for something.
    """
    troubles: list[str] = []

    def asked(request: Request) -> None:
        if urlsplit(request.url).scheme != "data" and urlsplit(request.url).netloc != urlsplit(url).netloc:
            troubles.append(f"asked another host: {request.url}")

    context = browser.new_context(base_url=url, viewport=_WIDE, color_scheme="light", reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    page.on("request", asked)
    page.on("pageerror", lambda error: troubles.append(f"a script failed: {error}"))
    page.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
    try:
        yield page
    finally:
        context.close()
    assert not troubles, troubles


def shoot(page: Page, name: str, folder: Path) -> None:
    """Pictures of what is shown now, light, dark and on a phone; on none may it be wider than the window."""
    views = (("light", _WIDE), ("dark", _WIDE), ("phone", _PHONE))
    for view, size in views:
        page.emulate_media(color_scheme="dark" if view == "dark" else "light")
        page.set_viewport_size(size)
        path = folder / f"{name}-{view}.png"
        page.screenshot(path=str(path), full_page=True)
        too_wide = page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert too_wide <= 0, f"{path.name} has to be scrolled sideways"
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(_WIDE)


def pictures(fallback: Path) -> Path:
    """Where pictures are kept: ``TALLYSTREAM_PICTURES``, or a folder of the test's."""
    folder = Path(os.environ.get("TALLYSTREAM_PICTURES") or fallback)
    folder.mkdir(parents=True, exist_ok=True)
    print(f"pictures: {folder}")
    return folder
