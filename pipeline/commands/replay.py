"""``tallystream replay``: requests of the past asked again, under a new run number."""

from __future__ import annotations

import shlex
import time
from typing import Annotated

import typer

from pipeline.commands.console import connected_settings, err, out, print_json
from pipeline.commands.moments import moment, when
from pipeline.commands.replay_view import example_table, group_table, plan_object, unreadable_line
from pipeline.events import InferenceRequest
from pipeline.kafka.connect import make_codec
from pipeline.replay.ask_again import AskAgain
from pipeline.replay.pace import Pace
from pipeline.replay.survey import Choice, Plan
from pipeline.replay.where import FIELDS, Where
from pipeline.telemetry import now_ms
from pipeline.topics import CONTROL, DEAD_LETTERS, DELIVERIES, LANES, PROGRESS, REQUESTS, RESULTS, SAMPLES

_INSTEAD = {
    RESULTS: "results are delivered again by: tallystream deliveries resend",
    DELIVERIES: "callbacks are sent again by: tallystream deliveries resend",
    DEAD_LETTERS: "dead letters are sent again by: tallystream dead-letters replay",
    SAMPLES: "votes are taken again from samples by: tallystream revote",
    **dict.fromkeys(LANES, f"samples are drawn again by asking again: tallystream replay --topic {REQUESTS}"),
    **dict.fromkeys((CONTROL, PROGRESS), "nothing there can be done again"),
}
"""What doing a topic again means where it does not mean asking."""

_RATE = 10


def replay(
    since: Annotated[
        str, typer.Option("--from", metavar="T", help="Asked since then: 2h, 7d, or 2026-05-01T12:00 (UTC).")
    ],
    until: Annotated[
        str, typer.Option("--to", metavar="T", help="Asked before then, written likewise; 0s is now.")
    ] = "0s",
    topic: Annotated[
        str, typer.Option(help="Of other topics it names the command that is meant.")
    ] = REQUESTS,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FIELD=VALUE",
            help=f"Only these; once more for another field, or another value of the same: {', '.join(FIELDS)}.",
        ),
    ] = None,
    as_run: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=2**31 - 1,
            metavar="N",
            help="The new run number; without, it is said which one is free.",
        ),
    ] = None,
    deliver: Annotated[
        bool, typer.Option("--deliver", help="Send their callbacks for the new run, too.")
    ] = False,
    rate: Annotated[int, typer.Option(min=1, help="Requests a second at most.")] = _RATE,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many, the oldest first.")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it; without, only say what would be done.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a request.")] = False,
) -> None:
    """Ask requests of the past again, as run N of the same ids. Says what it would do; --apply does it.

    Everything is as it was asked, sampling and seed too; only the deadline counts anew, and nobody is called
    unless --deliver says so. Their results come as run N. An id is asked once under a number: a replay that
    was stopped or killed is repeated, and goes on with the rest. What has not ended yet is left out.

    Exit codes: 0 all can be (or were) asked, 1 some can not, or there are none in this time, 2 a mistake, or
    Kafka is away.
    """
    if topic != REQUESTS:
        problem = _INSTEAD.get(topic, f"there is no topic {topic!r}")
        raise typer.BadParameter(problem, param_hint="--topic")
    now = time.time()
    begin, end = when(since, now, "--from"), when(until, now, "--to")
    if begin >= end:
        raise typer.BadParameter(f"{until} is not after {since}", param_hint="--to")
    if apply and as_run is None:
        raise typer.BadParameter(
            "--apply needs it, so that a replay that is repeated asks nothing twice; without --apply it is said "
            "which number is free",
            param_hint="--as-run",
        )
    name = f"{moment(begin)}/{moment(end)}"
    choice = Choice(begin, end, Where.of(where or ()), as_run, deliver, limit, name)
    settings = connected_settings()
    action = AskAgain(settings, make_codec(settings, writes=(InferenceRequest,) if apply else ()), now_ms)
    asked = None
    try:
        with err.status("reading requests …") as status:
            if apply:
                done = action.apply(choice, Pace(rate), status.update)
                plan, asked = done.plan, done.asked
            else:
                plan = action.plan(choice, status.update)
    except (KeyboardInterrupt, SystemExit):
        if apply:
            err.print("stopped; nothing is asked twice when you go on with:", style="yellow")
            err.print(_command(choice, where or (), rate, as_run), markup=False, soft_wrap=True)
        raise
    if as_json:
        for item in plan.items:
            print_json(plan_object(item, plan.run))
    else:
        _show(plan)
    _report(plan, choice, asked)
    if plan.to_ask and not apply:
        err.print("this was a dry run: it is done by", style="dim")
        err.print(_command(choice, where or (), rate, plan.run), markup=False, soft_wrap=True)
    lost = asked is not None and asked < len(plan.to_ask)
    raise typer.Exit(1 if plan.refused or lost or not plan.items else 0)


def _show(plan: Plan) -> None:
    if plan.to_ask:
        out.print(group_table(plan.to_ask))
        out.print()
    if plan.items:
        out.print(example_table(plan.items))


def _report(plan: Plan, choice: Choice, asked: int | None) -> None:
    count = len(plan.to_ask) if asked is None else asked
    parts = [
        f"{_requests(count)} {'would be asked' if asked is None else 'asked'} again as run {plan.run}",
        *([f"{plan.done} asked before"] if plan.done else []),
        *([f"{len(plan.refused)} can not be"] if plan.refused else []),
        *([f"{plan.beyond} beyond the limit"] if plan.beyond else []),
    ]
    if lost := len(plan.to_ask) - count:
        parts.append(f"{lost} deleted meanwhile")
    err.print(", ".join(parts), style="yellow" if plan.refused or not plan.items else "green", soft_wrap=True)
    if silent := sum(each.callback for each in plan.to_ask) if not choice.deliver else 0:
        err.print(f"{silent} with a callback, which is not called (--deliver)", style="dim")
    if unreadable := unreadable_line(plan):
        err.print(f"skipped, because no batcher would take them: {unreadable}", style="dim", soft_wrap=True)


def _command(choice: Choice, where: list[str] | tuple[str, ...], rate: int, run: int | None) -> str:
    """The same, to be said again later: with its times fixed."""
    words = ["tallystream", "replay", "--topic", REQUESTS]
    words += ["--from", moment(choice.since), "--to", moment(choice.until)]
    words += [word for each in where for word in ("--where", each)]
    words += ["--as-run", str(run), "--rate", str(rate)]
    words += ["--limit", str(choice.limit)] if choice.limit is not None else []
    words += ["--deliver"] if choice.deliver else []
    return shlex.join([*words, "--apply"])


def _requests(count: int) -> str:
    return "1 request" if count == 1 else f"{count:,} requests"
