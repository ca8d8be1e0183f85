"""Addresses and ports that a new service may have."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from cobblestone.domain.errors import ConfigError

PORTS_TRIED = 200


def port_of(url: str) -> int | None:
    """Return the port in an address.  Raises ConfigError for one that cannot be read."""
    try:
        return urlsplit(url).port
    except ValueError as error:
        raise ConfigError(f"--url {url}: {error}.") from error


def address_to_show(host: str) -> str:
    """Return the host part of an address at which a service that listens on ``host`` can be reached from here."""
    if host in ("0.0.0.0", "::", ""):  # noqa: S104  # compared, not bound
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def free_port(host: str, *, first: int) -> int:
    """Return the first free port from ``first`` on.  Raises ConfigError: all of many are taken."""
    for port in range(first, first + PORTS_TRIED):
        if port_is_free(host, port):
            return port
    raise ConfigError(
        f"No port between {first} and {first + PORTS_TRIED - 1} is free on {host}. Give one: --port N"
    )


def port_is_free(host: str, port: int) -> bool:
    """Whether a server could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError:
            return False
    return True
