"""Pages of OpenAI's lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aiohttp import web

from pipeline.errors import InvalidRequestError


def page(request: web.Request, items: Sequence[tuple[str, dict[str, Any]]], most: int) -> dict[str, Any]:
    """The part of a list that ``after``, ``limit`` and ``order`` ask for.

    Args:
        items: ids and documents, newest first.
        most: the largest limit, and what holds without one.

    Raises:
        InvalidRequestError: names the parameter.
    """
    query = request.query
    if (order := query.get("order", "desc")) not in ("asc", "desc"):
        raise InvalidRequestError("order is asc or desc", field="order")
    text = query.get("limit", str(most))
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= most):
        raise InvalidRequestError(f"limit is 1 to {most}", field="limit")
    ordered = list(items if order == "desc" else reversed(items))
    if (after := query.get("after")) is not None:
        places = [place for place, (name, _) in enumerate(ordered) if name == after]
        if not places:
            raise InvalidRequestError("after is the id of an item of this list", field="after")
        ordered = ordered[places[0] + 1 :]
    shown = ordered[: int(text)]
    return {
        "object": "list",
        "data": [document for _, document in shown],
        "first_id": shown[0][0] if shown else None,
        "last_id": shown[-1][0] if shown else None,
        "has_more": len(ordered) > len(shown),
    }
