"""The service's pages: ``scales.json`` and ``scales.xml`` for projects, ``/`` for people, ``sources.json`` for details."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from html import escape

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.environment import Clock, system_clock
from cobblestone.policy.credit.cross_project import CLIP, MAX_SHARE
from cobblestone.scales.collector import ListedProject, ScalesCollector
from cobblestone.service.http.requests import OPEN_HEADERS
from cobblestone.wire.project.scales import write_published_scales_json, write_published_scales_xml

_PAGE_HEADERS = {**OPEN_HEADERS, "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Scales</title>
<style>:root {{ color-scheme: light dark; }} body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem;
 margin: 2rem auto; padding: 0 1rem; }} div {{ overflow-x: auto; }} td, th {{ padding: .2rem 1rem .2rem 0;
 text-align: left; }} td + td {{ font-variant-numeric: tabular-nums; }}</style></head><body>
<h1>Credit scales of GPU versions</h1>
<p>Average over {n_used} of {n_projects} projects, by plan class, weighted by recent average credit. No project has more than
{share:.0%} of the weight, and none counts as further than a factor of {clip:g} from the median.</p>
<div><table><thead><tr><th>Plan class</th><th>Scale</th><th>Projects</th><th>Their scales</th></tr></thead><tbody>
{rows}</tbody></table></div>
<p>For programs: <a href="scales.json">scales.json</a>, <a href="scales.xml">scales.xml</a>,
<a href="sources.json">sources.json</a>. {withheld}</p>
</body></html>
"""


def _moment(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ScalesService:
    """Answers from a collector's state."""

    def __init__(self, collector: ScalesCollector, *, clock: Clock = system_clock) -> None:
        self._collector = collector
        self._clock = clock

    def app(self) -> Starlette:
        """Return the application."""
        return Starlette(
            routes=[
                Route("/", self.page),
                Route("/scales.json", self._published(write_published_scales_json, "application/json")),
                Route("/scales.xml", self._published(write_published_scales_xml, "text/xml")),
                Route("/sources.json", self.sources),
                Route("/healthz", _health),
            ]
        )

    def _published(
        self, write: Callable[..., bytes], media_type: str
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that answers with the published scales."""

        async def endpoint(request: Request) -> Response:
            body = write(self._collector.publication().scales, time=self._clock())
            return Response(body, media_type=media_type, headers=OPEN_HEADERS)

        return endpoint

    async def sources(self, request: Request) -> Response:
        """Return the status of each project."""
        body = msgspec.json.encode({"sources": [self._state(source) for source in self._collector.sources]})
        return Response(body, media_type="application/json", headers=OPEN_HEADERS)

    def _state(self, source: ListedProject) -> dict[str, object]:
        last = source.last
        return {
            "url": source.url,
            "name": "" if last is None else last.scales.name,
            "problem": source.problem,  # of the last attempt; empty: it went well
            "tried": _moment(source.tried) if source.tried else None,
            "read": None if last is None else _moment(last.time),  # its last good export
            "in_use": self._collector.in_use(source),
            "versions": 0 if last is None else len(last.scales.versions),
            "versions_refused": source.n_refused,
        }

    async def page(self, request: Request) -> Response:
        """Return the published scales for people."""
        publication = self._collector.publication()
        sources = self._collector.sources
        rows = "".join(
            f"<tr><td>{escape(item.plan_class)}</td><td>{item.scale:.4g}</td><td>{item.n_projects}</td>"
            f"<td>{item.lowest:.4g} … {item.highest:.4g}</td></tr>\n"
            for item in publication.scales
        )
        n_withheld = len(publication.withheld)
        page = _PAGE.format(
            n_used=sum(self._collector.in_use(source) for source in sources),
            n_projects=len(sources),
            share=MAX_SHARE,
            clip=CLIP,
            rows=rows or '<tr><td colspan="4">Nothing yet.</td></tr>\n',
            withheld=f"Plan classes with too few projects, which are not published: {n_withheld}."
            if n_withheld
            else "",
        )
        return HTMLResponse(page, headers=_PAGE_HEADERS)


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


def bind(host: str, port: int) -> socket.socket:
    """Open the listening socket.  Raises ConfigError if the address is in use or not ours."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another --port."
        ) from error


def serve(
    collector: ScalesCollector,
    listener: socket.socket,
    *,
    every_seconds: float,
    ready: Callable[[], None] | None = None,
) -> None:
    """Collect and answer until told to stop (SIGINT, SIGTERM)."""

    async def run() -> None:
        config = uvicorn.Config(
            ScalesService(collector).app(),
            log_level="warning",
            access_log=False,
            server_header=False,
            lifespan="off",
        )
        collecting = asyncio.create_task(collector.run(every_seconds), name="collector")
        if ready is not None:
            ready()
        try:
            await uvicorn.Server(config).serve(sockets=[listener])
        finally:
            collecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await collecting

    asyncio.run(run())
