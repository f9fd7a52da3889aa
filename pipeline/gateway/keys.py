"""API keys: what one is, who it is for, and what its owner may do. Pure.

A key is ``tsk_<id>_<secret>``. Only the secret's SHA-256 is kept. A slow hash would protect secrets that can be
guessed; these are 256 random bits, which can not, and a slow hash in front of every call would be the cheapest way
to stop the gateway.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.events import PRIORITIES

_PREFIX = "tsk"
_SECRET_BYTES = 32
_ID_ALPHABET, _ID_LENGTH = "0123456789abcdefghjkmnpqrstvwxyz", 8
_NOBODY = "0" * 64
"""What a key with an unknown id is compared with, so that it takes as long as one with a known id."""
LOCAL_TENANT = "default"


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """What a key may do; ``None`` is no limit of its own.

    Attributes:
        rate: calls in a second, on average.
        waiting: tasks of its tenant that have not ended.
        largest_n: of ``sampling.n``.
        priorities: that it may ask for.
    """

    rate: float | None = None
    waiting: int | None = None
    largest_n: int | None = None
    priorities: tuple[int, ...] = tuple(range(PRIORITIES))


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as it is kept.

    Attributes:
        digest: SHA-256 of the secret, hexadecimal.
        created_at: ms.
    """

    id: str
    digest: str
    tenant: str
    created_at: int
    admin: bool = False
    limits: KeyLimits = KeyLimits()


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks.

    Attributes:
        key_id: empty when no key was needed.
        admin: sees every tenant's tasks, and what no tenant owns.
    """

    key_id: str
    tenant: str
    admin: bool = False
    limits: KeyLimits = KeyLimits()


LOCAL = Principal("", LOCAL_TENANT, admin=True)
"""Whoever asks a gateway that needs no key: it is bound to loopback."""


def new_key(
    tenant: str, now: int, *, admin: bool = False, limits: KeyLimits = KeyLimits()
) -> tuple[StoredKey, str]:
    """A fresh key, and the text that its owner gets, which can not be shown again.

    Args:
        now: ms.
    """
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_LENGTH))
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    stored = StoredKey(key_id, _digest(secret), tenant, now, admin, limits)
    return stored, f"{_PREFIX}_{key_id}_{secret}"


def principal_of_key(text: str, keys: Mapping[str, StoredKey]) -> Principal | None:
    """Whose key this text is, if anybody's; takes as long whether its id is known or not."""
    prefix, _, rest = text.partition("_")
    key_id, _, secret = rest.partition("_")
    key = keys.get(key_id)
    right = hmac.compare_digest(_digest(secret), key.digest if key else _NOBODY)
    if not right or key is None or prefix != _PREFIX:
        return None
    return Principal(key.id, key.tenant, key.admin, key.limits)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
