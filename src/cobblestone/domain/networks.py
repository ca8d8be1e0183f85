"""Networks that addresses belong to: who shares one is perhaps one person."""

from __future__ import annotations

import ipaddress

IPV4_PREFIX = 24
IPV6_PREFIX = 48
"""What one customer of a provider gets, as a rule."""


def network_of(address: str) -> str:
    """Return the network of an address: ``192.0.2.0/24`` or ``2001:db8::/48``; of what is no address, itself."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    prefix = IPV4_PREFIX if parsed.version == 4 else IPV6_PREFIX
    return str(ipaddress.ip_network((parsed, prefix), strict=False))
