"""``tallystream deliveries``: what became of callbacks, sending them again, and endpoints that take nothing."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from pipeline.commands.console import connected_settings, err, out, print_json
from pipeline.commands.deliveries_view import (
    body_text,
    delivery_object,
    delivery_table,
    endpoint_object,
    endpoint_table,
    plan_table,
    record_view,
)
from pipeline.commands.moments import period
from pipeline.delivery.history import Kept, Selection, endpoints, newest, read_records
from pipeline.delivery.resend import Plan, Resend
from pipeline.events import DeliveryState
from pipeline.kafka.connect import make_codec
from pipeline.telemetry import now_ms

deliveries = typer.Typer(help="Callbacks, and where they stand.", no_args_is_help=True)


class Ended(StrEnum):
    """What can be sent again."""

    FAILED = "failed"
    DELIVERED = "delivered"


StateOption = Annotated[DeliveryState | None, typer.Option("--state", help="Only in this state.")]
EndpointOption = Annotated[
    str | None, typer.Option("--endpoint", help="Only to this host:port, or to that of this URL.")
]
Request = Annotated[str | None, typer.Option(help="Only of the request with this id.")]
Code = Annotated[str | None, typer.Option(help="Only with this code of the last error.")]
Since = Annotated[str | None, typer.Option(help="Changed since then: 2h, 7d, or 2026-05-01T12:00 (UTC).")]
Until = Annotated[str | None, typer.Option(help="Changed before then, written likewise.")]
Limit = Annotated[int | None, typer.Option(min=1, help="At most so many, the oldest first.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object a line.")]


@deliveries.callback()
def group() -> None:
    """Callbacks, and where they stand."""


@deliveries.command("list")
def list_deliveries(
    state: StateOption = None,
    endpoint: EndpointOption = None,
    request: Request = None,
    code: Code = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List deliveries, those first that have not changed for the longest time.

    Exit codes: 0 there are some, 1 there are none.
    """
    selection = _selection(frozenset(), state, endpoint, request, code, since, until)
    found = [kept for kept in _read().values() if selection.takes(kept)]
    found.sort(key=lambda kept: (kept.delivery.updated_at, kept.place))
    shown = found[:limit]
    if as_json:
        for kept in shown:
            print_json(delivery_object(kept))
    elif shown:
        out.print(delivery_table(shown))
    err.print(f"{len(shown)} of {_count(len(found))}", style="dim")
    raise typer.Exit(0 if shown else 1)


@deliveries.command()
def show(
    delivery_id: Annotated[str, typer.Argument(metavar="ID", help="The webhook-id, as list names it.")],
) -> None:
    """Show one delivery: where it stands, the attempts that are still on record, and its body.

    Exit codes: 0 it is there, 1 it is not.
    """
    settings = connected_settings()
    records = [
        delivery
        for _, delivery in read_records(settings, make_codec(settings))
        if delivery.delivery_id == delivery_id
    ]
    if not records:
        err.print(
            f"no delivery {delivery_id!r}; `tallystream deliveries list` names what is there",
            style="yellow",
            markup=False,
        )
        raise typer.Exit(1)
    out.print(record_view(records))
    out.print(body_text(records[-1].body), markup=False, soft_wrap=True)


@deliveries.command()
def resend(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Only these deliveries.")] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it; without, only say what would be done.")
    ] = False,
    state: Annotated[
        Ended, typer.Option(help="failed; or delivered, to send once more what has arrived.")
    ] = Ended.FAILED,
    endpoint: EndpointOption = None,
    request: Request = None,
    code: Code = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = None,
) -> None:
    """Send deliveries again that have failed. Says what it would do; --apply does it.

    Id and body stay as they were, so a receiver that has it already drops it. The webhook agent sends them, by
    the whole schedule. A resend that was stopped or killed is repeated, and goes on with the rest.

    Exit codes: 0 all can be (or were) sent, or need not be, 1 some can not.
    """
    selection = _selection(
        frozenset(ids or ()), DeliveryState(state.value), endpoint, request, code, since, until
    )
    settings = connected_settings()
    action = Resend(settings, make_codec(settings), now_ms)
    if apply:
        with err.status("reading deliveries …") as status:
            plan = action.apply(
                selection, limit, lambda sent: status.update(f"{sent} are to be sent again …")
            )
    else:
        plan = action.plan(selection, limit)
    _report(plan, applied=apply)
    raise typer.Exit(1 if plan.refused or plan.missing else 0)


@deliveries.command("endpoints")
def list_endpoints(
    enable: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Let this disabled endpoint (or a URL's) be tried again."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List endpoints: what they have taken, since when they take nothing, and which are disabled.

    Exit codes: 0 there are some, or it is enabled, 1 there are none, or it was not disabled.
    """
    if enable is not None:
        settings = connected_settings()
        shards = Resend(settings, make_codec(settings), now_ms).enable(enable)
        if shards:
            err.print(f"{enable} is enabled; what failed meanwhile: deliveries resend", markup=False)
        else:
            err.print(f"{enable} is not disabled", style="yellow", markup=False)
        raise typer.Exit(0 if shards else 1)
    found = list(endpoints(_read().values()).values())
    if as_json:
        for endpoint in found:
            print_json(endpoint_object(endpoint))
    elif found:
        out.print(endpoint_table(found))
    disabled = sum(bool(endpoint.disabled) for endpoint in found)
    err.print(f"{len(found)} endpoints, {disabled} disabled", style="dim")
    raise typer.Exit(0 if found else 1)


def _read() -> dict[str, Kept]:
    settings = connected_settings()
    return newest(read_records(settings, make_codec(settings)))


def _selection(
    ids: frozenset[str],
    state: DeliveryState | None,
    endpoint: str | None,
    request: str | None,
    code: str | None,
    since: str | None,
    until: str | None,
) -> Selection:
    return Selection(ids, state, endpoint, request, code, *period(since, until))


def _report(plan: Plan, *, applied: bool) -> None:
    if plan.deliveries:
        out.print(plan_table(plan.deliveries))
    sendable, needless = len(plan.sendable), sum(item.needless for item in plan.deliveries)
    parts = [f"{_count(sendable)} {'to be sent again' if applied else 'would be sent again'}"]
    parts += [f"{needless} need not be"] if needless else []
    parts += [f"{len(plan.refused)} can not be"] if plan.refused else []
    parts += [f"not there: {', '.join(plan.missing)}"] if plan.missing else []
    fault = plan.refused or plan.missing
    err.print(", ".join(parts), style="yellow" if fault else "green", markup=False, soft_wrap=True)
    if plan.refused:
        err.print("enable an endpoint first: deliveries endpoints --enable HOST:PORT", style="dim")
    if sendable and not applied:
        err.print("this was a dry run: add --apply to send", style="dim")


def _count(number: int) -> str:
    return "1 delivery" if number == 1 else f"{number} deliveries"
