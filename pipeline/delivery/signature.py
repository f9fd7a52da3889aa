"""Signatures of callbacks, and the check for those who receive them.

Standard Webhooks, https://github.com/standard-webhooks/standard-webhooks: HMAC-SHA256 over
``id.timestamp.body``, base64, prefixed with ``v1,``; several signatures are separated by spaces, so a
receiver that knows only the old or only the new secret of a rotation accepts the message. An Ed25519 key
signs the same bytes, prefixed with ``v1a,``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pipeline.delivery.asymmetric import PRIVATE_PREFIX, PUBLIC_PREFIX, decode_private, decode_public, fits
from pipeline.errors import ConfigError, SignatureError

SigningKey = bytes | Ed25519PrivateKey

SECRET_PREFIX = "whsec_"
TOLERANCE_S = 300
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


def decode_secret(secret: str) -> bytes:
    """The key of a ``whsec_…`` secret.

    Raises:
        ConfigError: no such prefix, no base64, or nothing in it; the message never holds the secret.
    """
    if not secret.startswith(SECRET_PREFIX):
        raise ConfigError(f"a webhook secret starts with {SECRET_PREFIX}")
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        # "from None": the cause would carry the secret into a traceback.
        raise ConfigError(f"a webhook secret is {SECRET_PREFIX} and base64; this one is not base64") from None
    if not key:
        raise ConfigError("a webhook secret is empty")
    return key


def decode_key(secret: str) -> SigningKey:
    """What signs by a ``whsec_…`` secret (v1) or a ``whsk_…`` key (v1a).

    Raises:
        ConfigError: as `decode_secret` and `decode_private`.
    """
    return decode_private(secret) if secret.startswith(PRIVATE_PREFIX) else decode_secret(secret)


def _content(message_id: str, timestamp: str, body: bytes) -> bytes:
    return f"{message_id}.{timestamp}.".encode() + body


def _signature(key: SigningKey, content: bytes) -> str:
    if isinstance(key, Ed25519PrivateKey):
        return "v1a," + base64.b64encode(key.sign(content)).decode()
    return "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()


def sign(keys: Sequence[SigningKey], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The three headers of one attempt.

    Args:
        keys: from `decode_key`, the current one first.
        timestamp: seconds since 1970-01-01 UTC, of this attempt and not of the first.
    """
    content = _content(message_id, str(timestamp), body)
    signatures = [_signature(key, content) for key in keys]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signatures),
    }


def verify(
    body: bytes,
    headers: Mapping[str, str],
    secrets: Sequence[str],
    now: float,
    tolerance: float = TOLERANCE_S,
) -> str:
    """Check a received callback; returns its ``webhook-id``, by which a receiver drops repeats.

    Args:
        body: the bytes as they came, before any JSON parser.
        headers: of the request, in any case.
        secrets: the ``whsec_…`` secrets and ``whpk_…`` keys that the receiver accepts.
        now: the receiver's clock, seconds since 1970-01-01 UTC.
        tolerance: seconds that the timestamp may lie behind or ahead of ``now``.

    Raises:
        SignatureError: a header is missing, the time is off, or no signature fits.
        ConfigError: one of the receiver's own secrets is malformed.
    """
    found = {name.lower(): value for name, value in headers.items()}
    try:
        message_id = found["webhook-id"]
        timestamp = found["webhook-timestamp"]
        signatures = found["webhook-signature"].split(" ")
    except KeyError as error:
        raise SignatureError(f"the header {error} is missing") from None
    if not _TIMESTAMP.fullmatch(timestamp):
        raise SignatureError("webhook-timestamp is not a number of seconds")
    if abs(now - int(timestamp)) > tolerance:
        raise SignatureError(f"webhook-timestamp is more than {tolerance:g} s away from this clock")
    content, matched = _content(message_id, timestamp, body), False
    for secret in secrets:
        # No early exit: the time taken says nothing about which one fitted.
        if secret.startswith(PUBLIC_PREFIX):
            public = decode_public(secret)
            for candidate in signatures:
                scheme, _, text = candidate.partition(",")
                matched |= scheme == "v1a" and fits(public, text, content)
            continue
        expected = _signature(decode_secret(secret), content).encode()
        for candidate in signatures:
            matched |= hmac.compare_digest(expected, candidate.encode())
    if not matched:
        raise SignatureError("no signature fits this body")
    return message_id
