"""Connections through the volunteer's proxy; requests that follow redirects, and answers of bounded size and time."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import TYPE_CHECKING

from cobblestone.client.records.identity import user_agent
from cobblestone.domain.computing import Proxy
from cobblestone.domain.errors import ConfigError, RemoteProtocolError

if TYPE_CHECKING:
    import httpx


CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 300.0
MAX_REDIRECTS = 5
SLOW_AFTER_SECONDS = 30.0
LEAST_BYTES_PER_SECOND = 100
OLD_SECONDS = 120.0


class Connections:
    """The connections of one client.  Requests in progress when the proxy changes may end as they began."""

    def __init__(self) -> None:
        #: made when first wanted: to load what it takes costs 10 MB
        self._http: httpx.AsyncClient | None = None
        self._proxy: Proxy | None = None
        self._silence = SILENCE_SECONDS
        self._old: list[tuple[float, httpx.AsyncClient]] = []  #: with the moment since when they are not used

    @property
    def http(self) -> httpx.AsyncClient:
        """Return the connections to use now."""
        if self._http is None:
            self._http = make_http(self._proxy)
            self._be_patient()
        return self._http

    def use(self, proxy: Proxy | None, silence: float) -> bool:
        """Use this proxy and this timeout in seconds; return whether the connections have changed.

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
        """Close connections not used for new requests for this many seconds."""
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
        event_hooks={"response": [_keep_method]},
        proxy=via,
        mounts={_pattern(name): None for name in proxy.direct} if proxy else None,
        trust_env=proxy is None,
    )


async def _keep_method(answer: httpx.Response) -> None:
    """Treat 301 and 302 as 308, so that a POST stays a POST: httpx makes it a GET, as browsers do (RFC 9110, 15.4)."""
    if answer.has_redirect_location and answer.status_code in (301, 302):
        answer.status_code = 308


async def send(http: httpx.AsyncClient, request: httpx.Request, *, public: bool = False) -> httpx.Response:
    """Send a request and follow redirects; return the answer, whose body is not read yet.

    Only a ``public`` request, on which no key depends, follows a redirect from https to http.  Raises httpx.HTTPError.
    """
    import httpx

    for _ in range(MAX_REDIRECTS + 1):
        if (request.url.port or 0) > 65535:  # the system's error would be no httpx.HTTPError
            raise httpx.UnsupportedProtocol("the port in its address is larger than 65535")
        answer = await http.send(request, stream=True)
        if (moved := answer.next_request) is None:
            return answer
        await answer.aclose()
        if request.url.scheme == "https" and moved.url.scheme != "https" and not public:
            raise httpx.RemoteProtocolError(
                f"it redirects to {moved.url.copy_with(query=None)!s:.200}, where an account key could be read on the way"
            )
        request = moved
    raise httpx.TooManyRedirects(f"it redirects more than {MAX_REDIRECTS} times")


def _pattern(name: str) -> str:
    """Return a pattern for a host, or for a domain with all its hosts."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return f"all://*{name.lstrip('.')}"
    return f"all://{name}"


def _name(proxy: Proxy | None) -> str:
    return f"{proxy.kind}://{proxy.host}:{proxy.port}" if proxy else "of the environment"


async def read_body(answer: httpx.Response, limit: int) -> bytes:
    """Return the body of an answer.  Raises RemoteProtocolError if it has more than ``limit`` bytes or hardly comes."""
    body = bytearray()
    loop = asyncio.get_running_loop()
    begin = loop.time()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > limit:
            raise RemoteProtocolError(f"answered with more than {limit} bytes")
        seconds = loop.time() - begin
        if seconds > SLOW_AFTER_SECONDS and len(body) < LEAST_BYTES_PER_SECOND * seconds:
            raise RemoteProtocolError(f"sent only {len(body)} bytes in {seconds:.0f} s")
    return bytes(body)
