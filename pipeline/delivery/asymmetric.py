"""Ed25519 keys of callbacks (Standard Webhooks' ``v1a``): receivers hold a key that can verify and not sign."""

from __future__ import annotations

import base64
import binascii

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from pipeline.errors import ConfigError

PRIVATE_PREFIX, PUBLIC_PREFIX = "whsk_", "whpk_"
_BYTES = 32


def decode_private(text: str) -> Ed25519PrivateKey:
    """The key of ``whsk_`` and base64 of its seed, 32 bytes, or of seed and public key, 64 bytes.

    Raises:
        ConfigError: it is neither, or the halves do not belong together; the message never holds the key.
    """
    raw = _decode(text, PRIVATE_PREFIX)
    if len(raw) not in (_BYTES, 2 * _BYTES):
        raise ConfigError(f"a key {PRIVATE_PREFIX} has {_BYTES} or {2 * _BYTES} bytes")
    key = Ed25519PrivateKey.from_private_bytes(raw[:_BYTES])
    if raw[_BYTES:] not in (b"", key.public_key().public_bytes_raw()):
        raise ConfigError(f"a key {PRIVATE_PREFIX} of {2 * _BYTES} bytes ends with its own public key")
    return key


def decode_public(text: str) -> Ed25519PublicKey:
    """The key of ``whpk_`` and base64 of 32 bytes.

    Raises:
        ConfigError: it is none.
    """
    raw = _decode(text, PUBLIC_PREFIX)
    if len(raw) != _BYTES:
        raise ConfigError(f"a key {PUBLIC_PREFIX} has {_BYTES} bytes")
    return Ed25519PublicKey.from_public_bytes(raw)


def public_of(text: str) -> str:
    """The ``whpk_`` key for the receivers of a ``whsk_`` key.

    Raises:
        ConfigError: it is no ``whsk_`` key.
    """
    raw = decode_private(text).public_key().public_bytes_raw()
    return PUBLIC_PREFIX + base64.b64encode(raw).decode()


def fits(key: Ed25519PublicKey, signature: str, content: bytes) -> bool:
    """Whether a signature in base64 is this key's."""
    try:
        key.verify(base64.b64decode(signature, validate=True), content)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True


def _decode(text: str, prefix: str) -> bytes:
    try:
        if text.startswith(prefix):
            return base64.b64decode(text.removeprefix(prefix), validate=True)
    except (binascii.Error, ValueError):
        pass
    # Outside of the except: a cause would carry the key into a traceback.
    raise ConfigError(f"a key for v1a is {prefix} and base64")
