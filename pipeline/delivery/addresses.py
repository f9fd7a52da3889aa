"""Which IP addresses a callback may be sent to.

Ranges from the IANA special-purpose address registries (RFC 6890 and its updates). Own lists, because
`ipaddress.is_global` differs between Python's patch releases and calls multicast global.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from pipeline.errors import ForbiddenUrlError

_PRIVATE = tuple(
    map(
        ip_network,
        ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7"),
    )
)
_NEVER = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "100.64.0.0/10",  # carrier NAT, and a cloud's metadata at 100.100.100.200
            "168.63.129.16/32",  # a cloud's host agent on a public address
            "169.254.0.0/16",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",  # multicast, reserved and broadcast
            "fd00:ec2::/32",  # a cloud's metadata inside the private range
            "2001::/23",  # Teredo, ORCHID, benchmarking
            "2001:db8::/32",
            "2002::/16",  # 6to4 wraps an IPv4 address
            "3fff::/20",
        ),
    )
)
# Global unicast. Outside lie ::, IPv4-mapped, NAT64, link-local, site-local and multicast.
_IPV6_UNICAST = ip_network("2000::/3")


def check_address(text: str, *, allow_private: bool) -> None:
    """Refuse an address that is not public unicast.

    Args:
        allow_private: let loopback, RFC 1918 and unique local addresses pass as well; link-local,
            metadata, multicast and IPv4 wrapped in IPv6 stay refused.

    Raises:
        ForbiddenUrlError: the address may not be dialled.
    """
    try:
        address = ip_address(text)
    except ValueError:
        raise ForbiddenUrlError(f"{text} is no IP address", field="callback.url") from None
    if not _allowed(address, allow_private):
        raise ForbiddenUrlError(f"callbacks to {address} are not allowed", field="callback.url")


def _allowed(address: IPv4Address | IPv6Address, allow_private: bool) -> bool:
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        return False
    if any(address in network for network in _NEVER):
        return False
    if any(address in network for network in _PRIVATE):
        return allow_private
    return address.version == 4 or address in _IPV6_UNICAST
