"""``tallystream explain``: why a result says what it says."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from pipeline.commands.console import connected_settings, err, out
from pipeline.commands.explain_view import explanation
from pipeline.commands.show import one_line
from pipeline.events import Result
from pipeline.kafka.connect import make_codec
from pipeline.replay.published import published_of


def explain(
    request_id: Annotated[str, typer.Argument(metavar="ID", help="The request's id.")],
    run: Annotated[int | None, typer.Option(min=0, help="Which run of it; the newest without.")] = None,
    full: Annotated[bool, typer.Option("--full", help="Every chain's whole text.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
) -> None:
    """Show a result's answer, its groups, every chain with why it won or lost, and where the time went.

    Results are kept for a day. Exit codes: 0 it is there, 1 there is no result of this id, 2 it can't be looked up.
    """
    settings = connected_settings()
    with err.status("reading results …"):
        found = published_of(settings, make_codec(settings), [request_id])
    runs = sorted({result.run for result in found})
    chosen = [result for result in found if result.run == (runs[-1] if run is None and runs else run)]
    if not chosen:
        err.print(_missing(request_id, run, runs), style="yellow", markup=False, soft_wrap=True)
        raise typer.Exit(1)
    newest = chosen[-1]
    if json:
        out.print_json(msgspec.json.encode(newest).decode())
        return
    out.print(explanation(newest, full=full))
    for line in _history(chosen[:-1]):
        out.print(line, style="dim", markup=False)


def _missing(request_id: str, run: int | None, runs: list[int]) -> str:
    name = one_line(request_id, 128)
    if runs:
        return f"no result of run {run} of {name}; there is run {', '.join(map(str, runs))}"
    return f"no result of {name}: it is still being worked on, is older than a day, or was never asked here"


def _history(earlier: list[Result]) -> list[str]:
    return [
        f"before, revision {result.revision}: {result.status.value}, {one_line(result.answer or '—', 80)}"
        for result in earlier
    ]
