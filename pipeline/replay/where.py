"""Which requests are meant: ``field=value`` as a person writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.errors import InvalidRequestError
from pipeline.events import PRIORITIES, InferenceRequest, Kind, Mode

_METADATA = "metadata."

_READ: Mapping[str, Callable[[InferenceRequest], str | None]] = {
    "id": lambda request: request.request_id,
    "tenant": lambda request: request.tenant,
    "priority": lambda request: str(request.priority),
    "mode": lambda request: request.mode.value,
    "kind": lambda request: request.kind.value,
    "user": lambda request: request.session.user if request.session else None,
    "session": lambda request: request.session.session if request.session else None,
    "run": lambda request: str(request.run),
}
_VALUES: Mapping[str, Sequence[str]] = {
    "priority": [str(priority) for priority in range(PRIORITIES)],
    "mode": list(Mode),
    "kind": list(Kind),
}

FIELDS = (*_READ, _METADATA + "NAME")
"""What can be asked for; after ``metadata.`` stands the name of an entry."""


@dataclass(frozen=True, slots=True)
class Where:
    """A condition on requests: of each field that is named, one of its values; without any, all are meant."""

    wanted: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])

    @classmethod
    def of(cls, texts: Sequence[str]) -> Where:
        """Read ``field=value`` texts; a field that is named twice has either value.

        Raises:
            InvalidRequestError: no such field, or a value that it can not have; says which there are.
        """
        wanted: dict[str, frozenset[str]] = {}
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals:
                raise InvalidRequestError(f"--where {text!r}: write FIELD=VALUE", field=name)
            if name not in _READ and (not name.startswith(_METADATA) or name == _METADATA):
                raise InvalidRequestError(
                    f"--where {text!r}: there is no field {name!r}; there are {', '.join(FIELDS)}", field=name
                )
            if name in _VALUES and value not in _VALUES[name]:
                raise InvalidRequestError(
                    f"--where {text!r}: {name} is one of {', '.join(_VALUES[name])}", field=name
                )
            wanted[name] = wanted.get(name, frozenset()) | {value}
        return cls(wanted)

    def takes(self, request: InferenceRequest) -> bool:
        return all(_value(request, name) in values for name, values in self.wanted.items())


def _value(request: InferenceRequest, name: str) -> str | None:
    if name in _READ:
        return _READ[name](request)
    return request.metadata.get(name.removeprefix(_METADATA))
