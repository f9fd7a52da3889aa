"""What a request asks, as a digest: the same id asked again is the same request only if that is the same."""

from __future__ import annotations

from dataclasses import MISSING, fields
from hashlib import blake2b
from typing import Any

import msgspec

from pipeline.events import InferenceRequest

_NOT_ASKED = frozenset({"request_id", "run", "created_at", "replay_id"})
"""Who asks again, because no acknowledgement came, may stamp the time anew."""
_BYTES = 12


def content_of(request: InferenceRequest) -> str:
    """A short name of what is asked, 24 hexadecimal digits.

    Only what differs from its default counts, so that a field that a later version adds changes nothing.
    """
    asked = {
        each.name: value
        for each in fields(request)
        if each.name not in _NOT_ASKED and (value := getattr(request, each.name)) != _default(each)
    }
    return blake2b(msgspec.json.encode(asked, order="deterministic"), digest_size=_BYTES).hexdigest()


def _default(field: Any) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()
