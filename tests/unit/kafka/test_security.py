"""What Kafka's clients are told of us, and what is said when that can not be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import ConfigError
from pipeline.kafka.clients import base_config
from pipeline.kafka.local_broker import choose_broker
from pipeline.kafka.security import tls_context
from pipeline.settings import load_settings


def config(**kafka: Any) -> dict[str, Any]:
    return base_config(load_settings(bootstrap="x:1", kafka=kafka))


def test_plaintext_needs_nothing() -> None:
    assert not any(name.startswith(("sasl", "ssl", "security")) for name in config())


def test_a_password_file_wins_and_its_last_line_break_is_none_of_it(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from the file\n")
    made = config(security="SASL_PLAINTEXT", username="u", password="other", password_file=file)
    assert (made["sasl.username"], made["sasl.password"]) == ("u", "from the file")
    assert made["sasl.mechanism"] == "SCRAM-SHA-512"
    assert "ssl.ca.location" not in made


def test_the_system_s_authorities_and_the_host_s_name_count_unless_told_otherwise(tmp_path: Path) -> None:
    made = config(security="SSL")
    assert (made["ssl.ca.location"], made["ssl.endpoint.identification.algorithm"]) == ("probe", "https")
    assert "sasl.username" not in made
    assert config(security="SSL", check_host_name=False)["ssl.endpoint.identification.algorithm"] == "none"


@pytest.mark.parametrize(
    ("kafka", "named"),
    [
        ({"security": "SASL_SSL", "password": "p"}, "TALLYSTREAM_KAFKA__USERNAME"),
        (
            {"security": "SASL_SSL", "username": "u"},
            "TALLYSTREAM_KAFKA__PASSWORD is not set, and SASL_SSL needs it",
        ),
        ({"security": "SSL", "ca_file": "/no/such"}, "TALLYSTREAM_KAFKA__CA_FILE: /no/such: No such file"),
        ({"security": "SSL", "certificate_file": "/no/such"}, "TALLYSTREAM_KAFKA__CERTIFICATE_FILE"),
        (
            {"security": "SASL_SSL", "username": "u", "password_file": "/no/such"},
            "TALLYSTREAM_KAFKA__PASSWORD_FILE",
        ),
        ({"security": "TLS"}, "TALLYSTREAM_KAFKA__SECURITY"),
    ],
)
def test_what_is_missing_is_named(kafka: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        config(**kafka)


@pytest.mark.parametrize("name", ["ca_file", "certificate_file"])
def test_a_file_that_is_no_certificate_is_named(tmp_path: Path, name: str) -> None:
    (file := tmp_path / "x.pem").write_text("nothing")
    settings = load_settings(kafka={"security": "SSL", name: file})
    with pytest.raises(ConfigError, match=f"TALLYSTREAM_KAFKA__{name.upper()}"):
        tls_context(settings.kafka)


def test_the_local_broker_asks_nobody() -> None:
    settings = load_settings(bootstrap="", kafka={"security": "SSL"})
    with pytest.raises(ConfigError, match="TALLYSTREAM_BOOTSTRAP"), choose_broker(settings, print):
        pass


def test_a_password_is_in_no_text_of_the_settings() -> None:
    settings = load_settings(kafka={"password": "canary"})
    assert "canary" not in repr(settings) + str(settings.model_dump())
