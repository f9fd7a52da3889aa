"""Whether a gateway can be started here, found out before its process would only say it in a log."""

from __future__ import annotations

import socket

from pipeline.errors import ConfigError
from pipeline.gateway.access import check_binding
from pipeline.gateway.key_file import keys_path, read_keys
from pipeline.settings import Settings


def check_gateway(settings: Settings) -> None:
    """Refuse what would keep it from serving.

    Raises:
        ConfigError: it would be open to a network without keys, or its address is taken.
    """
    check_binding(settings, keys=bool(read_keys(keys_path(settings))))
    host, port = settings.gateway.host, settings.gateway.port
    try:
        with socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET):
            pass
    except OSError as error:
        raise ConfigError(
            f"the gateway can not listen on {host}:{port}: {error.strerror}; "
            "set TALLYSTREAM_GATEWAY__PORT to another one, or to 0 for a free one"
        ) from error


def page_line(settings: Settings) -> str:
    """Where the page is, as people are told."""
    host, port = settings.gateway.host, settings.gateway.port
    return f"the page: http://{host}:{port}/" if port else "the page: the gateway's log has its address"
