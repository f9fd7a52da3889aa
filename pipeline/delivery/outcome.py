"""What became of one attempt at a callback."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class OutcomeCode(StrEnum):
    """Stable names of what an attempt can end in; they travel in ``Delivery.error.code``."""

    DELIVERED = "delivered"
    HTTP_ERROR = "http_error"
    GONE = "gone"
    REDIRECT = "redirect"
    TIMEOUT = "timeout"
    TLS = "tls"
    CONNECT_ERROR = "connect_error"
    PROTOCOL_ERROR = "protocol_error"
    FORBIDDEN_URL = "forbidden_url"
    UNKNOWN_SECRET = "unknown_secret"
    CIRCUIT_OPEN = "circuit_open"
    ENDPOINT_DISABLED = "endpoint_disabled"


_NOT_SENT = frozenset(
    (
        OutcomeCode.FORBIDDEN_URL,
        OutcomeCode.UNKNOWN_SECRET,
        OutcomeCode.CIRCUIT_OPEN,
        OutcomeCode.ENDPOINT_DISABLED,
    )
)
_ANSWERED = frozenset((OutcomeCode.DELIVERED, OutcomeCode.GONE, OutcomeCode.REDIRECT))


@dataclass(frozen=True, slots=True)
class Outcome:
    """One attempt's end.

    Attributes:
        status_code: of the HTTP answer; None when none came.
        message: a sentence for people; empty when delivered.
        retry_after_s: seconds that the endpoint asked to be left alone.
        final: no further attempt can help.
    """

    status_code: int | None
    code: OutcomeCode
    message: str = ""
    retry_after_s: float | None = None
    final: bool = False

    @property
    def sent(self) -> bool:
        """Whether the endpoint was asked at all."""
        return self.code not in _NOT_SENT

    @property
    def up(self) -> bool | None:
        """Whether the endpoint is up; None when it was not asked.

        A 4xx is about one URL or body: a server that says so is up, and others' callbacks to it may go.
        429 asks for less.
        """
        if not self.sent:
            return None
        if self.code is OutcomeCode.HTTP_ERROR:
            return self.status_code is not None and self.status_code < 500 and self.status_code != 429
        return self.code in _ANSWERED


def outcome_of_status(status: int, message: str, retry_after_s: float | None) -> Outcome:
    """Judge an HTTP answer by its status alone.

    As Standard Webhooks and Svix do it: 2xx is success, 410 means "stop sending", everything else is a
    failure. Other 4xx are retried as well: at a receiver they mostly mean a bad deploy or a route that is
    not there yet, and a lost callback costs more than nine cheap requests over four days. A redirect is
    final here: it is never followed, and the place that it names was not what the caller gave.
    """
    if 200 <= status < 300:
        return Outcome(status, OutcomeCode.DELIVERED, final=True)
    if 300 <= status < 400:
        return Outcome(status, OutcomeCode.REDIRECT, f"{status}: redirects are not followed", final=True)
    if status == 410:
        return Outcome(status, OutcomeCode.GONE, "410: the endpoint wants no more callbacks", final=True)
    return Outcome(status, OutcomeCode.HTTP_ERROR, message, retry_after_s)
