"""``/ask``: a form, and a task made of it. It is the task of its own sheet of paper: sent twice, it is asked once."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from aiohttp import web

from agents.web.forms import posted, went
from agents.web.templating import page
from agents.web.views import path_of
from pipeline.delivery.guard import Guard
from pipeline.errors import TallystreamError
from pipeline.events import DEFAULT_PRIORITY, PRIORITIES, Kind, Mode
from pipeline.gateway.bodies import TaskBody, parse_body
from pipeline.gateway.context import gateway_of, principal_of
from pipeline.scheduling.modes import PROFILES

_KINDS = tuple(kind.value for kind in Kind if kind is not Kind.VISION)
_LONGEST_ONCE = 64


@dataclass(frozen=True, slots=True)
class AskForm:
    """What stands in the form.

    Attributes:
        once: names this sheet.
        trouble: why it was not taken.
    """

    prompt: str = ""
    mode: str = Mode.STANDARD.value
    kind: str = Kind.ANSWER.value
    priority: str = str(DEFAULT_PRIORITY)
    n: str = ""
    callback: str = ""
    tests: str = ""
    once: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    trouble: str = ""

    @classmethod
    def of(cls, posted: Mapping[str, str], trouble: str = "") -> AskForm:
        """What was posted; a field that is not there is the default."""
        names = ("prompt", "mode", "kind", "priority", "n", "callback", "tests", "once")
        return cls(**{name: posted[name] for name in names if name in posted}, trouble=trouble)

    def body(self) -> dict[str, Any]:
        """As ``POST /v1/tasks`` takes it; what is no number stays a text, of which it then complains."""
        body: dict[str, Any] = {
            "prompt": self.prompt.replace("\r\n", "\n"),
            "mode": self.mode,
            "kind": self.kind,
            "priority": _number(self.priority),
        }
        if self.n.strip():
            body["sampling"] = {"n": _number(self.n)}
        if self.callback.strip():
            body["callback"] = {"url": self.callback.strip(), "events": ["first_answer", "done"]}
        if self.tests.strip():
            body["tests"] = self.tests.replace("\r\n", "\n")
        return body

    def key(self, body: bytes) -> str:
        """Its Idempotency-Key: another text on the same sheet is another task."""
        return hashlib.sha256(self.once[:_LONGEST_ONCE].encode() + b"\0" + body).hexdigest()


def choices() -> dict[str, Any]:
    """What the form offers."""
    modes = [(mode.value, f"{mode.value} · {profile.samples}") for mode, profile in PROFILES.items()]
    return {"modes": modes, "kinds": _KINDS, "priorities": range(PRIORITIES)}


async def show(request: web.Request) -> web.Response:
    return page(request, "ask.html", **choices(), form=AskForm())


async def ask(request: web.Request) -> web.Response:
    """Take the task, and go to its page; without a task, the form again and why."""
    fields = await posted(request)
    form = AskForm.of(fields)
    try:
        request_id = await _submit(request, form)
    except TallystreamError as error:
        again = AskForm.of(fields, trouble=error.message)
        status = HTTPStatus.UNPROCESSABLE_ENTITY if error.http_status < 500 else error.http_status
        return page(request, "ask.html", status=status, **choices(), form=again)
    return went(request, path_of(request_id))


async def _submit(request: web.Request, form: AskForm) -> str:
    gateway, principal = gateway_of(request), principal_of(request)
    body = json.dumps(form.body()).encode()
    webhook = gateway.settings.webhook
    guard = Guard(webhook.allow_private, webhook.allowed_ports)
    asked = parse_body(body, TaskBody).to_request("", principal.tenant, guard)
    submitted = await gateway.submissions.submit(asked, principal, form.key(body))
    return submitted.request.request_id


def _number(text: str) -> int | str:
    text = text.strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text
