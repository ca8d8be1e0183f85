"""``<proxy_info>``: the proxies that a volunteer sets, in ``cc_config.xml`` or with a manager.

Source: BOINC's ``lib/proxy_info.cpp`` (names: facts).  An HTTP proxy goes before a SOCKS proxy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from cobblestone.domain.computing import Proxy

Settings = Mapping[str, str | int]
"""The elements of ``<proxy_info>`` as a client keeps them."""

NUMBERS = ("socks_server_port", "socks5_remote_dns", "http_server_port", "no_autodetect")
FLAGS = ("use_http_proxy", "use_socks_proxy", "use_http_auth")
TEXTS = (
    "socks_server_name", "http_server_name", "socks5_user_name", "socks5_user_passwd", "http_user_name", "http_user_passwd",
    "no_proxy",
)  # fmt: skip
MAX_DIRECT = 100
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")


def read_proxy(settings: Settings) -> tuple[Proxy | None, str]:
    """Return the proxy that is to be used, if any, and a sentence about what is wrong with it."""
    for kind, prefix, login in (("http", "http", "http"), ("socks5", "socks", "socks5")):
        if not settings.get(f"use_{prefix}_proxy"):
            continue
        host, port = (
            str(settings.get(f"{prefix}_server_name", "")).strip(),
            settings.get(f"{prefix}_server_port"),
        )
        if not _HOST.fullmatch(host):
            return None, f"<{prefix}_server_name> is {host[:60]!r}, which is no name or address of a computer"
        if not isinstance(port, int) or not 0 < port < 65536:
            return None, f"<{prefix}_server_port> is {port!r}; it must be a number from 1 to 65535"
        names = str(settings.get("no_proxy", "")).split(",")[:MAX_DIRECT]
        user = str(settings.get(f"{login}_user_name", ""))
        wanted = kind == "socks5" or settings.get("use_http_auth")
        return Proxy(
            kind=kind,
            host=host,
            port=port,
            user=user if wanted else "",
            password=str(settings.get(f"{login}_user_passwd", "")) if wanted else "",
            direct=tuple(name.strip() for name in names if _HOST.fullmatch(name.strip().lstrip("."))),
        ), ""
    return None, ""
