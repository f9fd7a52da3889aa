"""Webhook secrets by id: from a file or the environment, never in a record, a log or a repr."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pipeline.delivery.signature import SigningKey, decode_key
from pipeline.errors import ConfigError, UnknownSecretError

ENVIRONMENT_VARIABLE = "TALLYSTREAM_WEBHOOK_SECRET"
DEFAULT_ID = "default"
_MIN_BYTES, _MAX_BYTES = 24, 64  # Standard Webhooks, "Secret": between 192 and 512 bits
_FILE = TypeAdapter(dict[str, str | list[str]])


class SecretStore:
    """The signing keys of every secret id; the first key of an id is the current one."""

    def __init__(self, secrets: Mapping[str, tuple[str, ...]]) -> None:
        """Take ``whsec_…`` secrets and ``whsk_…`` keys by id.

        Raises:
            ConfigError: names the id of a malformed secret, never the secret.
        """
        self._keys = {secret_id: _decode(secret_id, texts) for secret_id, texts in secrets.items()}

    @classmethod
    def load(cls, secrets_file: Path | None, environment: Mapping[str, str]) -> SecretStore:
        """Read the file (JSON: id → secret or list of secrets), then the environment's "default".

        During a rotation the environment variable may hold several secrets, separated by spaces. It wins
        over the file.

        Raises:
            ConfigError: the file can not be read or a secret is malformed.
        """
        secrets = _read(secrets_file) if secrets_file else {}
        if texts := tuple(environment.get(ENVIRONMENT_VARIABLE, "").split()):
            secrets[DEFAULT_ID] = texts
        return cls(secrets)

    def keys(self, secret_id: str) -> tuple[SigningKey, ...]:
        """The keys to sign with.

        Raises:
            UnknownSecretError: there is no such id.
        """
        try:
            return self._keys[secret_id]
        except KeyError:
            raise UnknownSecretError(f"there is no webhook secret {secret_id!r}", field="secret_id") from None

    def __repr__(self) -> str:
        return f"SecretStore(ids={sorted(self._keys)})"


def _decode(secret_id: str, texts: tuple[str, ...]) -> tuple[SigningKey, ...]:
    if not texts:
        raise ConfigError(f"webhook secret {secret_id!r}: the list is empty")
    try:
        keys = tuple(decode_key(text) for text in texts)
    except ConfigError as error:
        raise ConfigError(f"webhook secret {secret_id!r}: {error.message}") from None
    if any(isinstance(key, bytes) and not _MIN_BYTES <= len(key) <= _MAX_BYTES for key in keys):
        raise ConfigError(f"webhook secret {secret_id!r}: a key has {_MIN_BYTES} to {_MAX_BYTES} bytes")
    return keys


def _read(path: Path) -> dict[str, tuple[str, ...]]:
    # Every "from None" here: the causes quote their input, which holds secrets.
    try:
        entries = _FILE.validate_python(json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise ConfigError(f"webhook secrets file {path}: {error.strerror}", field="secrets_file") from None
    except (ValidationError, ValueError):
        raise ConfigError(
            f"webhook secrets file {path}: not a JSON object of id to secret or list of secrets",
            field="secrets_file",
        ) from None
    return {key: (value,) if isinstance(value, str) else tuple(value) for key, value in entries.items()}
