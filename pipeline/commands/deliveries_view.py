"""How deliveries and endpoints look in a terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from pipeline.commands.moments import time_of
from pipeline.commands.show import cell, grid, one_line
from pipeline.delivery.history import Endpoint, Kept
from pipeline.delivery.resend import Planned
from pipeline.events import Delivery, DeliveryState

_COLOURS = {DeliveryState.PENDING: "yellow", DeliveryState.DELIVERED: "green", DeliveryState.FAILED: "red"}


def plan_table(items: Sequence[Planned]) -> Table:
    """What a resend takes, and why it leaves the rest."""
    table = _grid("id", "state", "error", "url", "")
    for item in items:
        delivery = item.kept.delivery
        table.add_row(
            cell(delivery.delivery_id),
            _state(delivery),
            cell(_error(delivery)),
            cell(one_line(delivery.url, 60)),
            cell(f"— {item.reason}" if item.reason else ""),
        )
    return table


def delivery_table(found: Sequence[Kept]) -> Table:
    """One delivery a row."""
    table = _grid("id", "request", "event", "state", "tries", "changed", "next", "error", "url")
    for kept in found:
        delivery = kept.delivery
        table.add_row(
            cell(delivery.delivery_id),
            cell(one_line(delivery.request_id, 40)),
            cell(delivery.event),
            _state(delivery),
            str(delivery.attempt),
            time_of(delivery.updated_at),
            time_of(delivery.next_due_at or 0),
            cell(_error(delivery)),
            cell(one_line(delivery.url, 60)),
        )
    return table


def record_view(records: Sequence[Delivery]) -> Group:
    """Where a delivery stands, and all its records that are left."""
    last = records[-1]
    facts = Table(box=None, pad_edge=False, show_header=False)
    for name, text in (
        ("id", last.delivery_id),
        ("request", f"{last.request_id}, run {last.run}, revision {last.revision}"),
        ("event", last.event),
        ("url", last.url),
        ("secret", last.secret_id),
        ("created", time_of(last.created_at)),
        ("next attempt", time_of(last.next_due_at or 0)),
        ("endpoint", "—" if last.failing_since is None else f"failing since {time_of(last.failing_since)}"),
    ):
        facts.add_row(name, cell(text))
    attempts = _grid("recorded", "state", "tries", "error")
    for record in records:
        message = record.error.message if record.error else ""
        error = f"{_error(record)} {one_line(message, 120)}".strip()
        attempts.add_row(time_of(record.updated_at), _state(record), str(record.attempt), cell(error))
    return Group(facts, "", attempts, "")


def body_text(body: bytes) -> str:
    """A body as it is read; JSON indented."""
    try:
        # Escaped, so that a terminal shows what others wrote and does not obey it.
        return json.dumps(json.loads(body), indent=2)
    except ValueError:
        return repr(body)


def endpoint_table(found: Sequence[Endpoint]) -> Table:
    """One endpoint a row."""
    table = _grid("endpoint", "pending", "delivered", "failed", "failing since", "last", "")
    for endpoint in found:
        last = endpoint.last
        table.add_row(
            cell(endpoint.name),
            *(str(endpoint.counts[state]) for state in DeliveryState),
            time_of(endpoint.failing_since or 0),
            cell(_error(last.delivery) or last.delivery.state if last else "—"),
            Text("disabled", style="red") if endpoint.disabled else Text(),
        )
    return table


def delivery_object(kept: Kept) -> dict[str, Any]:
    """The record without its body, for ``--json``."""
    fields = asdict(kept.delivery)
    del fields["body"]
    return {**fields, "endpoint": kept.endpoint, "bytes": kept.size}


def endpoint_object(endpoint: Endpoint) -> dict[str, Any]:
    """For ``--json``; times in ms."""
    last = endpoint.last.delivery if endpoint.last else None
    return {
        "endpoint": endpoint.name,
        **{state.value: endpoint.counts[state] for state in DeliveryState},
        "failing_since": endpoint.failing_since,
        "disabled": bool(endpoint.disabled),
        "disabled_shards": list(endpoint.disabled),
        "last_at": last.updated_at if last else None,
        "last_error": asdict(last.error) if last and last.error else None,
    }


def _grid(*names: str) -> Table:
    return grid(*names, right=("tries", "pending", "delivered", "failed"))


def _state(delivery: Delivery) -> Text:
    return Text(delivery.state.value, style=_COLOURS[delivery.state])


def _error(delivery: Delivery) -> str:
    code = delivery.error.code if delivery.error else ""
    return f"{code} {delivery.status_code}" if code and delivery.status_code else code
