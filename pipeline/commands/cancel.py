"""``tallystream cancel``: stop requests, and say how they ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.text import Text

from pipeline.client import TopicFollower, send_control
from pipeline.commands.console import connected_settings, err, out
from pipeline.commands.remote import Key, Url, ended_task, follow
from pipeline.commands.show import status_text
from pipeline.events import Control, ControlAction, Event, Result, Status
from pipeline.http_client import HttpClient, Remote
from pipeline.kafka.codec import Codec
from pipeline.kafka.connect import make_codec
from pipeline.replay.published import published_of
from pipeline.settings import Settings
from pipeline.telemetry import now_ms
from pipeline.topics import RESULTS

_SOON = 1.0
"""Seconds in which what runs has ended; for the others older results are looked through, which can take longer."""


def cancel(
    request_ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The requests' ids.")],
    run: Annotated[int, typer.Option(min=0, help="Which run of them.")] = 0,
    reason: Annotated[str, typer.Option(help="Why; it is kept in the result.")] = "",
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait until they have ended.")] = 10.0,
    url: Url = "",
    key: Key = "",
) -> None:
    """Stop requests: nothing more is drawn for them, and they end as cancelled.

    The end is a result like any other, and is called back. A request that has ended stays as it is. An order for one
    that was not asked yet is kept for an hour, and ends it when it comes. Over a gateway (--url) the newest run is
    stopped, and a request that is not there is a mistake.

    Exit codes: 0 every one has ended, as cancelled or before, 2 a mistake, or Kafka is away, 3 one has not
    ended in time.
    """
    wanted = list(dict.fromkeys(request_ids))
    until = time.monotonic() + timeout
    if url:
        if run or reason:
            raise typer.BadParameter("--run and --reason go over Kafka alone", param_hint="--url")
        ended = _gateway_ends(Remote(url, key), wanted, until)
    else:
        settings = connected_settings()
        codec = make_codec(settings, writes=(Control,))
        at = now_ms()
        orders = [Control(each, run, ControlAction.CANCEL, at, reason) for each in wanted]
        with err.status("waiting for their ends …"):
            found = _ends(settings, codec, orders, until)
        ended = {each: result.status for each, result in found.items()}
    for each in wanted:
        if each in ended:
            status = status_text(ended[each])
            out.print(Text.assemble(status, " " * (20 - len(status)), each), soft_wrap=True)
        else:
            err.print(_missing(each, timeout), style="yellow", markup=False, soft_wrap=True)
    raise typer.Exit(0 if len(ended) == len(wanted) else 3)


def _ends(settings: Settings, codec: Codec, orders: Sequence[Control], until: float) -> dict[str, Result]:
    """Send the orders, and find the final results of their requests, by id.

    Args:
        until: on the monotonic clock, in seconds.
    """
    runs = {order.request_id: order.run for order in orders}
    ended: dict[str, Result] = {}

    def note(event: Event) -> bool:
        if isinstance(event, Result) and event.status.terminal and runs.get(event.request_id) == event.run:
            ended[event.request_id] = event
        return len(ended) == len(runs)

    follower = TopicFollower(settings, codec, [RESULTS])
    try:
        send_control(settings, codec, orders)
        soon = min(until, time.monotonic() + _SOON)
        if not follower.until(lambda _, event: note(event), deadline=soon):
            for result in published_of(settings, codec, [each for each in runs if each not in ended]):
                note(result)
            if len(ended) < len(runs):
                follower.until(lambda _, event: note(event), deadline=until)
    finally:
        follower.close()
    return ended


def _gateway_ends(remote: Remote, request_ids: Sequence[str], until: float) -> dict[str, Status]:
    """Send the orders, and find how their tasks end, by id.

    Raises:
        GatewayDownError, RefusedError: an order was not taken.
    """
    with HttpClient(remote) as client:
        ended = {each: Status(client.cancel(each)["status"]) for each in request_ids}
        for each in [each for each, status in ended.items() if not status.terminal]:
            if follow(client, each, within=max(until - time.monotonic(), 0)):
                ended[each] = Status(ended_task(client, each)["status"])
    return {each: status for each, status in ended.items() if status.terminal}


def _missing(request_id: str, timeout: float) -> str:
    return (
        f"no end of {request_id} within {timeout:g} s: it was not asked yet, or the agents do not run; "
        "the order to cancel it stands"
    )
