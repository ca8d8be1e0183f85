"""HTTP connections to everybody, through the proxy that the volunteer wants; it may change at any time."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING

from cobblestone.client.identity import user_agent
from cobblestone.domain.computing import Proxy
from cobblestone.domain.errors import ConfigError

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 300.0
MAX_REDIRECTS = 5
OLD_SECONDS = 120.0


class Connections:
    """The connections of one client.  What is under way when the proxy changes may end as it began."""

    def __init__(self) -> None:
        self._http: httpx.AsyncClient | None = (
            None  #: made when first wanted: to load what it takes costs 10 MB
        )
        self._proxy: Proxy | None = None
        self._silence = SILENCE_SECONDS
        self._old: list[tuple[float, httpx.AsyncClient]] = []  #: with the moment since when they are not used

    @property
    def http(self) -> httpx.AsyncClient:
        """The connections as they are to be made now."""
        if self._http is None:
            self._http = make_http(self._proxy)
            self._be_patient()
        return self._http

    def use(self, proxy: Proxy | None, silence: float) -> bool:
        """Use this proxy, and give up after so many seconds of silence; whether the connections are other ones now.

        Raises:
            ConfigError: the proxy cannot be used; the one before stays.
        """
        changed = proxy != self._proxy
        if changed:
            fresh = _checked(proxy)
            if self._http is not None:
                self._old.append((asyncio.get_running_loop().time(), self._http))
            self._proxy, self._http = proxy, fresh
        self._silence = silence
        self._be_patient()
        return changed

    def _be_patient(self) -> None:
        if self._http is not None:
            import httpx

            self._http.timeout = httpx.Timeout(self._silence, connect=CONNECT_SECONDS)

    async def close_old(self, age: float = OLD_SECONDS) -> None:
        """Close connections that have not been used for new requests for so many seconds."""
        before = asyncio.get_running_loop().time() - age
        gone = [each for each in self._old if each[0] <= before]
        for each in gone:
            self._old.remove(each)
            await each[1].aclose()

    async def close(self) -> None:
        """Close everything."""
        await self.close_old(0.0)
        if self._http is not None:
            await self._http.aclose()


def _checked(proxy: Proxy | None) -> httpx.AsyncClient:
    import httpx

    try:
        return make_http(proxy)
    except (ValueError, ImportError, httpx.InvalidURL) as error:
        raise ConfigError(f"The proxy {_name(proxy)} cannot be used: {error}.") from error


def make_http(proxy: Proxy | None) -> httpx.AsyncClient:
    """Return connections through a proxy; without one, as the environment says."""
    import httpx

    via = None
    if proxy is not None:
        login = (proxy.user, proxy.password) if proxy.user else None
        via = httpx.Proxy(f"{proxy.kind}://{proxy.host}:{proxy.port}", auth=login)
    return httpx.AsyncClient(
        headers={"User-Agent": user_agent(), "Accept": "*/*"},
        timeout=httpx.Timeout(SILENCE_SECONDS, connect=CONNECT_SECONDS),
        limits=httpx.Limits(max_connections=40, max_keepalive_connections=8, keepalive_expiry=30.0),
        follow_redirects=True,
        max_redirects=MAX_REDIRECTS,
        proxy=via,
        mounts={_pattern(name): None for name in proxy.direct} if proxy else None,
        trust_env=proxy is None,
    )


def _pattern(name: str) -> str:
    """Return what matches a host, or a domain with all hosts in it."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return f"all://*{name.lstrip('.')}"
    return f"all://{name}"


def _name(proxy: Proxy | None) -> str:
    return f"{proxy.kind}://{proxy.host}:{proxy.port}" if proxy else "of the environment"
