"""Feeds that clients and readers of news follow."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from cobblestone.service.context import ProcessContext
from cobblestone.wire.rss import RssChannel, RssItem, write_rss


def feed(ctx: ProcessContext, name: str, description: str, items: Iterable[RssItem]) -> Response:
    """Return a feed of a service, as RSS."""
    channel = RssChannel(title=name, link=ctx.master_url, description=description, items=tuple(items))
    return Response(write_rss(channel, built=ctx.clock()), media_type="application/rss+xml")
