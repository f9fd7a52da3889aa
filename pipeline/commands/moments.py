"""Times as people write and read them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

import typer

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def when(text: str, now: float, option: str) -> int:
    """A time in ms: so long ago (2h, 7d), or an ISO time, which is UTC unless it says otherwise.

    Args:
        now: seconds since 1970-01-01 UTC.

    Raises:
        typer.BadParameter: it is neither.
    """
    if match := re.fullmatch(r"(\d{1,9})([smhd])", text):
        return max(round((now - int(match[1]) * _UNITS[match[2]]) * 1000), 1)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is no time; write 2h, 7d or 2026-05-01T12:00 (UTC)", param_hint=option
        ) from None
    return max(round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000), 1)


def period(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """What ``--since`` and ``--until`` say, in ms.

    Raises:
        typer.BadParameter: one of them is no time.
    """
    now = time.time()
    return (
        None if since is None else when(since, now, "--since"),
        None if until is None else when(until, now, "--until"),
    )


def moment(ms: int) -> str:
    """An ISO time as ``when`` reads it, to the millisecond, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def time_of(ms: int) -> str:
    """To the second, in UTC; a dash for no time."""
    if ms <= 0:
        return "—"
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
