from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pipeline.commands.gateway_address import check_gateway, page_line
from pipeline.errors import ConfigError
from pipeline.gateway.key_file import changed_keys, keys_path
from pipeline.gateway.keys import new_key
from pipeline.settings import Settings, load_settings


def settings(home: Path, **gateway: object) -> Settings:
    return load_settings(home=home, gateway={"port": 0, **gateway})


def test_a_port_that_is_taken_is_told_with_what_to_do(tmp_path: Path) -> None:
    check_gateway(settings(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port}: .*TALLYSTREAM_GATEWAY__PORT"):
            check_gateway(settings(tmp_path, port=port))


def test_a_network_needs_keys(tmp_path: Path) -> None:
    wide = settings(tmp_path, host="0.0.0.0")
    with pytest.raises(ConfigError, match="keys add"):
        check_gateway(wide)
    with changed_keys(keys_path(wide)) as keys:
        keys.append(new_key("a", 0)[0])
    check_gateway(wide)


def test_where_the_page_is(tmp_path: Path) -> None:
    assert page_line(load_settings(gateway={"port": 8123})).endswith("http://127.0.0.1:8123/")
    assert "log" in page_line(settings(tmp_path))
