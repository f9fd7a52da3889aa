"""Requests that are wrong, from a seed: what a client may send by mistake or on purpose."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

Bad = tuple[str, str, dict[str, str], bytes]
"""Method, path, headers and body."""

_JSON = {"Content-Type": "application/json"}
_VALUES: tuple[Any, ...] = (
    None, True, -1, 2.5, 2**31, 2**63, 10**30, 1e308, "", "x", "\x00", "\r\nX: 1", "é" * 200, [], [[]], {}, {"a": {}},
)  # fmt: skip
_FIELDS = (
    "prompt", "messages", "mode", "priority", "kind", "sampling", "deadline_ms", "callback", "session", "tests",
    "images", "metadata", "cache", "id", "__proto__",
)  # fmt: skip
_SAMPLING = ("n", "temperature", "top_p", "max_new_tokens", "seed", "stop", "top_k", "min_p", "top_logprobs")
_PATHS = (
    "/v1/tasks/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/v1/tasks/..%5c..%5cx", "/v1/tasks/%00", "/v1/tasks/%ff%fe",
    "/v1/tasks/" + "a" * 7_000, "/v1/tasks?cursor=zzz", "/v1/tasks?limit=-1", "/v1/tasks?since=%00",
    "/v1/tasks?status=over", "/v1/tasks/x?include=%f0", "/v1/tasks/x/events", "/v1/tasks/x/ws", "/v1/", "//", "/%",
    "/v1/tasks/a%0d%0aSet-Cookie:%20x=1", "/docs/../etc", "/v1/tasks/x/events?last_event_id=%00",
)  # fmt: skip
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "PROPFIND")


def bad_request(random: random.Random) -> Bad:
    """One of them; every draw is different, and the same seed gives the same."""
    match random.randrange(6):
        case 0:
            headers = {"X-Request-Id": random.choice(("a%0d%0ab", "x" * 500, "é".encode().decode("latin-1")))}
            return random.choice(_METHODS), random.choice(_PATHS), headers, b""
        case 1:
            return "POST", "/v1/tasks", _JSON, random.randbytes(random.randrange(2_000))
        case 2:
            body = json.dumps(_wrong(random)).encode()
            return "POST", "/v1/tasks", _JSON, body[: random.randrange(len(body))]
        case 3:
            packed = gzip.compress(json.dumps(_wrong(random)).encode())
            headers = {**_JSON, "Content-Encoding": random.choice(("gzip", "deflate", "br", "\x7f"))}
            cut = random.choice((packed, packed[:-5], packed + b"x", b"x" + packed))
            return "POST", "/v1/tasks", headers, cut
        case 4:
            headers = {
                "Content-Type": random.choice(("text/plain", "application/json; charset=x", "é/x", ""))
            }
            return "POST", "/v1/tasks", headers, b"{}"
        case _:
            return "POST", "/v1/tasks", _JSON, json.dumps(_wrong(random)).encode()


def _wrong(random: random.Random) -> dict[str, Any]:
    body: dict[str, Any] = {"prompt": "x", "priority": 9}
    for name in random.sample(_FIELDS, random.randrange(1, 5)):
        body[name] = random.choice(_VALUES)
    if random.random() < 0.3:
        body["sampling"] = {random.choice(_SAMPLING): random.choice(_VALUES)}
    if random.random() < 0.2:
        body["callback"] = {
            "url": random.choice(("", "http://[::1", "ftp://x", "http://169.254.169.254/", "\x00"))
        }
    return body
