"""``tallystream list``: the newest tasks."""

from __future__ import annotations

from typing import Annotated

import typer

from pipeline.commands.console import out, print_json
from pipeline.commands.remote import Key, Url, gateway_for
from pipeline.commands.show import cell, grid, one_line, status_text
from pipeline.events import Status
from pipeline.http_client import HttpClient


def list_tasks(
    status: Annotated[
        list[Status] | None, typer.Option(help="Only tasks of this state; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 20,
    json: Annotated[
        bool, typer.Option("--json", help="Print each task's document as a line of JSON.")
    ] = False,
    url: Url = "",
    key: Key = "",
) -> None:
    """List tasks, newest first: those of the key's tenant, over the gateway at --url, or that of this machine.

    Exit codes: 0, or 2 when they can not be listed.
    """
    table = grid("id", "status", "mode", "prio", "accepted (UTC)", "answer", right=("prio",))
    wanted = {"status": ",".join(status)} if status else {}
    with HttpClient(gateway_for(url, key)) as client:
        for task in client.tasks(limit, **wanted):
            if json:
                print_json(task)
                continue
            answer = task["answer"] if task["error"] is None else task["error"]["code"]
            table.add_row(
                cell(task["id"]),
                status_text(Status(task["status"])),
                task["mode"],
                str(task["priority"]),
                task["created_at"].replace("T", " ").removesuffix("Z"),
                cell(one_line(answer or "—", 60)),
            )
    if not json:
        out.print(table if table.row_count else "no tasks")
