"""The policy of a revote: what the settings say about votes, and what a file says otherwise."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from pydantic import ConfigDict, Field, ValidationError

from pipeline.errors import ConfigError, InvalidRequestError
from pipeline.events import Kind, Mode
from pipeline.fusion import Rule, VoteOptions, VotePolicy
from pipeline.settings import Settings, VoteSettings
from pipeline.vote_options import vote_options


class PolicyFile(VoteSettings):
    """The fields of the settings' section ``vote``, and the weights of the vote itself.

    A weight that is not given is that of the request's mode.
    """

    model_config = ConfigDict(extra="forbid")

    rule: Rule | None = Field(None, description="majority, weighted or scored")
    share_weight: float | None = Field(None, ge=0, le=1, description="of the share of votes in the score")
    temperature: float | None = Field(None, gt=0, description="of the softmax over confidences")


_WEIGHTS = ("rule", "share_weight", "temperature")


@dataclass(frozen=True, slots=True)
class RevotePolicy:
    """How every vote is taken again; ``weights`` are fields of ``VotePolicy``."""

    options: VoteOptions
    weights: tuple[tuple[str, Any], ...] = ()

    def of(self, mode: Mode, kind: Kind) -> VotePolicy:
        """The policy of one request."""
        return replace(VotePolicy.for_mode(mode, kind, self.options), **dict(self.weights))


def revote_policy(settings: Settings, file: Path | None) -> RevotePolicy:
    """The policy of this process's settings, changed by a file of JSON.

    Raises:
        InvalidRequestError: the file is not as it must be; names the field.
        ConfigError: the calibration map of the settings can not be read.
    """
    if file is None:
        return RevotePolicy(vote_options(settings))
    own = settings.vote.model_dump()
    try:
        read: Any = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(read, dict):
            raise InvalidRequestError(f"{file}: not a JSON object", field="policy")
        found = PolicyFile.model_validate(own | cast("dict[str, Any]", read))
        options = vote_options(settings.model_copy(update={"vote": found}))
    except OSError as error:
        raise InvalidRequestError(f"{file}: {error.strerror}", field="policy") from error
    except ValidationError as error:
        raise InvalidRequestError(f"{file}: {_told(error)}", field="policy") from error
    except ValueError as error:
        raise InvalidRequestError(f"{file}: not JSON ({error})", field="policy") from error
    except ConfigError as error:
        raise InvalidRequestError(
            f"{file}: {error.message.replace('TALLYSTREAM_VOTE__CALIBRATION', 'calibration')}", field="policy"
        ) from error
    weights = tuple((name, value) for name in _WEIGHTS if (value := getattr(found, name)) is not None)
    return RevotePolicy(options, weights)


def _told(error: ValidationError) -> str:
    known = ", ".join(PolicyFile.model_fields)
    lines = [
        f"{'.'.join(map(str, item['loc']))}: "
        + (f"no such field; there are {known}" if item["type"] == "extra_forbidden" else item["msg"])
        for item in error.errors()
    ]
    return "; ".join(lines)
