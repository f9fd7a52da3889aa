"""Ids made here: time, node and sequence, so that they sort by when they were made."""

from __future__ import annotations

import itertools
import os
import socket
import zlib

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_sequence = itertools.count()


def new_request_id(now: int) -> str:
    """A task id: 9 digits of time in ms, 4 of the node and process, 4 of the sequence, base 32.

    Args:
        now: ms since 1970-01-01 UTC.
    """
    node = zlib.crc32(f"{socket.gethostname()}:{os.getpid()}".encode())
    return f"{_base32(now, 9)}-{_base32(node, 4)}-{_base32(next(_sequence), 4)}"


def _base32(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, 32)
        digits = _ALPHABET[digit] + digits
    return digits
