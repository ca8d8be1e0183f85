"""RSS 2.0 feeds, from which clients make notices.

Client 7.20.5 wants title, guid, pubDate and description of each item, and ignores items older than 30 days.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import formatdate

from cobblestone.wire.xml_writer import html, scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class RssItem:
    """One notice."""

    title: str
    guid: str  #: the same item keeps it for ever; clients show each once
    published: float  #: Unix seconds
    description: str  #: may hold HTML
    link: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RssChannel:
    """A feed."""

    title: str
    link: str
    description: str
    items: tuple[RssItem, ...] = ()


def rfc822_date(seconds: float) -> str:
    """Return a date as feeds want it, e.g. ``Fri, 20 Nov 2026 00:00:00 GMT``; ``seconds`` of Unix time."""
    return formatdate(seconds, usegmt=True)


def write_rss(channel: RssChannel, *, built: float) -> bytes:
    """Write a feed; ``built`` is the Unix time of its making."""
    return (
        '<?xml version="1.0" encoding="UTF-8" ?>\n<rss version="2.0">\n<channel>\n'
        f"{scalar('title', channel.title)}{scalar('link', channel.link)}"
        f"{scalar('description', channel.description)}"
        f"{scalar('lastBuildDate', rfc822_date(built))}"
        f"{_items(channel.items)}</channel>\n</rss>\n"
    ).encode()


def _items(items: Iterable[RssItem]) -> str:
    return "".join(
        "<item>\n"
        f"{scalar('title', item.title)}"
        f"{scalar('link', item.link) if item.link else ''}"
        f'<guid isPermaLink="false">{scalar("guid", item.guid)[6:]}'
        f"{scalar('pubDate', rfc822_date(item.published))}"
        f"<description>{html(item.description)}</description>\n"
        "</item>\n"
        for item in items
    )
