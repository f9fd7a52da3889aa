"""``tallystream watch``: a task that was asked, as it comes along, and its end."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipeline.commands.console import out, print_json
from pipeline.commands.remote import Key, Url, ended_task, follow, gateway_for, result_of
from pipeline.commands.show import cell, one_line, result_view
from pipeline.events import Status
from pipeline.http_client import HttpClient


def watch(
    request_id: Annotated[str, typer.Argument(metavar="ID", help="The task's id.")],
    json: Annotated[
        bool, typer.Option("--json", help="Print every event as a line of JSON, and no more.")
    ] = False,
    url: Url = "",
    key: Key = "",
) -> None:
    """Watch a task: its samples as they end, and the answer, the votes and the chains.

    It is watched over a gateway: the one at --url, or the one that runs on this machine. A task that has ended is shown
    at once; watching changes nothing, and may be stopped at any time.

    Exit codes: 0 an answer came, 1 the task failed or was cancelled, 2 it can not be watched.
    """

    def seen(name: str, place: str, data: Any) -> None:
        if json:
            print_json({"event": name, "id": place, "data": data})
        elif name == "sample":
            text = one_line(data["error"]["message"] if data["error"] else data["text"], 100)
            out.print(cell(f"sample {data['sample']}  {data['path']}  {text}"), style="dim")
        elif name == "first_answer":
            out.print(cell(f"first answer: {one_line(data['answer'] or '', 100)}"), style="cyan")

    with HttpClient(gateway_for(url, key)) as client:
        follow(client, request_id, last="end" if json else "result", seen=seen)
        task = ended_task(client, request_id)
    if not json:
        out.print(result_view(result_of(task)))
    raise typer.Exit(1 if task["status"] in (Status.FAILED, Status.CANCELLED) else 0)
