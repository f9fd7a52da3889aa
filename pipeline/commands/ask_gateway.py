"""``tallystream ask --url``: the same over a gateway."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Any

from pipeline.commands.console import err, out, print_json
from pipeline.commands.remote import command_for, ended_task, follow, result_of
from pipeline.commands.show import one_line, result_view
from pipeline.events import InferenceRequest, Status
from pipeline.http_client import Document, HttpClient, Remote


def ask_gateway(remote: Remote, request: InferenceRequest, timeout: float, *, json: bool) -> int:
    """Ask, and show the answer; the exit code of ``ask``.

    Raises:
        GatewayDownError, RefusedError: it could not be asked, or not be followed.
    """

    def seen(name: str, _: str, data: Any) -> None:
        if name == "first_answer" and not json:
            err.print(f"first answer: {one_line(data['answer'] or '', 100)}", style="cyan", markup=False)

    with HttpClient(remote) as client:
        request_id = client.submit(_body(request), str(uuid.uuid4()))["id"]
        try:
            ended = follow(client, request_id, within=timeout, seen=seen)
            task = ended_task(client, request_id) if ended else None
        except BaseException:  # above all Ctrl-C: what was asked is not lost
            _say_how_to_go_on(request_id, remote)
            raise
    if task is None:
        err.print(not_yet(request_id, timeout), style="yellow")
        _say_how_to_go_on(request_id, remote)
        return 3
    if json:
        print_json(task)
    else:
        out.print(result_view(result_of(task)))
    return 1 if task["status"] in (Status.FAILED, Status.CANCELLED) else 0


def not_yet(request_id: str, timeout: float) -> str:
    return f"no result for {request_id} within {timeout:.0f} s; it is still being worked on"


def _say_how_to_go_on(request_id: str, remote: Remote) -> None:
    err.print(f"{request_id} goes on without this command", markup=False, soft_wrap=True)
    for name in ("watch", "cancel"):
        err.print(f"  {command_for(name, request_id, remote)}", markup=False, soft_wrap=True)


def _body(request: InferenceRequest) -> Document:
    """What is posted: of the request what was said, the rest is the gateway's to fill in."""
    sampling = {name: value for name, value in asdict(request.sampling).items() if value not in (None, ())}
    body: Document = {
        "prompt": request.prompt,
        "mode": request.mode,
        "priority": request.priority,
        "cache": request.cache,
    }
    if sampling:
        body["sampling"] = sampling
    if request.session is not None:
        body["session"] = asdict(request.session)
    return body
