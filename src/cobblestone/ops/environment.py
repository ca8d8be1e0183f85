"""The process environment, for those who start other programs."""

from __future__ import annotations

import os

_PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})


def environment_without_proxies() -> dict[str, str]:
    """Our environment for a program that must talk to loopback directly."""
    return {key: value for key, value in os.environ.items() if key.lower() not in _PROXY_VARIABLES}
