"""RSS 2.0 feeds, from which clients make notices.

Client 7.20.5 wants title, guid, pubDate and description of each item, and ignores items older than 30 days.  A feed may come from
anybody: what is read is bounded in size, number and length, and takes linear time.  A client keeps
titles without escapes, and after a ``<`` in one it forgets all notices of the feed at its next start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime

from cobblestone.wire.lenience import Lenience
from cobblestone.wire.tag_tree import Node, read_tree
from cobblestone.wire.xml_reader import decode, unescape
from cobblestone.wire.xml_writer import html, printable, scalar, title

MAX_FEED_BYTES = 1024 * 1024
MAX_ITEMS = 100
MAX_TITLE = 255
MAX_DESCRIPTION = 8192
MAX_LINK = 1024
MAX_DATE = 64
_VERBATIM = ("title", "description", "link", "guid", "pubDate")


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
        f"{title('title', item.title)}"
        f"{scalar('link', item.link) if item.link else ''}"
        f'<guid isPermaLink="false">{scalar("guid", item.guid)[6:]}'
        f"{scalar('pubDate', rfc822_date(item.published))}"
        f"<description>{html(item.description)}</description>\n"
        "</item>\n"
        for item in items
    )


def read_rss(body: bytes) -> tuple[RssItem, ...]:
    """Read the items of a feed, those without title and text left out; an item without a date has the time 0.

    Raises RemoteProtocolError for what is no feed, or is too large to be one.
    """
    root = read_tree(body, "channel", _VERBATIM, max_bytes=MAX_FEED_BYTES)
    notes: list[Lenience] = []
    items = (_item(node, notes) for node in list(root.all("item"))[:MAX_ITEMS])
    return tuple(item for item in items if item.title or item.description)


def _item(node: Node, notes: list[Lenience]) -> RssItem:
    link = _text(node, "link", MAX_LINK, notes)
    return RssItem(
        title=_text(node, "title", MAX_TITLE, notes),
        guid=_text(node, "guid", MAX_LINK, notes),
        published=_date(_text(node, "pubDate", MAX_DATE, notes)),
        description=_text(node, "description", MAX_DESCRIPTION, notes),
        link=link if link.startswith(("http://", "https://")) else "",
    )


def _text(node: Node, tag: str, limit: int, notes: list[Lenience]) -> str:
    found = node.find(tag)
    if found is None:
        return ""
    text = unescape(decode(found.text[: 8 * limit], tag, notes))
    return printable(text).strip()[:limit]


def _date(text: str) -> float:
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp())
    except (ValueError, TypeError, OverflowError, OSError):
        return 0.0
