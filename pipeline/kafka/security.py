"""What the settings say about who we are and whom we trust, as Kafka's clients take it."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from pipeline.errors import ConfigError
from pipeline.settings import KafkaSettings, Security


def librdkafka_security(kafka: KafkaSettings) -> dict[str, Any]:
    """For confluent-kafka; empty for plaintext.

    Raises:
        ConfigError: a file can not be read, or what the protocol needs is not set; names the setting.
    """
    if kafka.security is Security.PLAINTEXT:
        return {}
    config: dict[str, Any] = {"security.protocol": kafka.security.value}
    if uses_tls(kafka):
        # OpenSSL's default folder is not where every system keeps its certificates.
        config["ssl.ca.location"] = _file(kafka.ca_file, "CA_FILE") or "probe"
        config["ssl.endpoint.identification.algorithm"] = "https" if kafka.check_host_name else "none"
        if kafka.certificate_file is not None:
            config["ssl.certificate.location"] = _file(kafka.certificate_file, "CERTIFICATE_FILE")
            config["ssl.key.location"] = _file(kafka.key_file or kafka.certificate_file, "KEY_FILE")
    if uses_login(kafka):
        config["sasl.mechanism"] = kafka.sasl_mechanism.value
        config["sasl.username"], config["sasl.password"] = login(kafka)
    return config


def uses_tls(kafka: KafkaSettings) -> bool:
    return kafka.security in (Security.SSL, Security.SASL_SSL)


def uses_login(kafka: KafkaSettings) -> bool:
    return kafka.security in (Security.SASL_PLAINTEXT, Security.SASL_SSL)


def tls_context(kafka: KafkaSettings) -> ssl.SSLContext:
    """For clients in Python.

    Raises:
        ConfigError: a file can not be read, or holds no certificate; names the setting.
    """
    authority = _file(kafka.ca_file, "CA_FILE")
    try:
        context = ssl.create_default_context(cafile=authority)
    except ssl.SSLError as error:
        raise ConfigError(f"TALLYSTREAM_KAFKA__CA_FILE: {authority}: no certificates in it") from error
    context.check_hostname = kafka.check_host_name
    if kafka.certificate_file is not None:
        certificate = _file(kafka.certificate_file, "CERTIFICATE_FILE")
        assert certificate is not None
        try:
            context.load_cert_chain(certificate, _file(kafka.key_file, "KEY_FILE"))
        except ssl.SSLError as error:
            raise ConfigError(
                f"TALLYSTREAM_KAFKA__CERTIFICATE_FILE: {certificate}: {error.reason}"
            ) from error
    return context


def login(kafka: KafkaSettings) -> tuple[str, str]:
    """Name and password.

    Raises:
        ConfigError: one of them is not set, or the file can not be read.
    """
    password = kafka.password.get_secret_value()
    if (path := _file(kafka.password_file, "PASSWORD_FILE")) is not None:
        password = Path(path).read_text("utf-8").strip()
    for name, value in (("USERNAME", kafka.username), ("PASSWORD", password)):
        if not value:
            raise ConfigError(f"TALLYSTREAM_KAFKA__{name} is not set, and {kafka.security.value} needs it")
    return kafka.username, password


def _file(path: Path | None, name: str) -> str | None:
    if path is None:
        return None
    try:
        with path.open("rb"):
            return str(path)
    except OSError as error:
        raise ConfigError(f"TALLYSTREAM_KAFKA__{name}: {path}: {error.strerror}") from error
