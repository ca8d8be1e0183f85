"""Texts by operators and members: Markdown without raw HTML, and feeds of news."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup
from starlette.responses import Response

from cobblestone.service.context import ProcessContext
from cobblestone.store.people.users import NewsItem
from cobblestone.wire.project.pages import RssChannel, RssItem, write_rss

#: A text's first heading becomes one of this level: above it stand the page's title and the text's own.
TOP_LEVEL = 3

# Pictures would be fetched from elsewhere, or tell others who reads; they are shown as links.
_PARSER = MarkdownIt("commonmark", {"html": False, "linkify": False, "breaks": True}).enable("table")


def markdown(text: str, *, top_level: int = TOP_LEVEL, base: str = "") -> Markup:
    """Return a text as HTML; tags in it are shown as text, and addresses with an unknown scheme are not linked.

    ``base`` goes before relative addresses, for readers outside of the pages (feeds).
    """
    tokens = _PARSER.parse(text)
    _adapt(tokens, top_level, base)
    rendered = str(_PARSER.renderer.render(tokens, _PARSER.options, {}))
    # Wide code is scrolled sideways, also by keyboard.
    return Markup(rendered.replace("<pre>", '<pre tabindex="0">'))  # noqa: S704  # the parser escapes what it does not make


def excerpt(text: str, length: int) -> str:
    """Return the start of a text as plain words, at most ``length`` characters."""
    words: list[str] = []
    for token in _PARSER.parse(text):
        words += [
            child.content if child.type in ("text", "code_inline") else " " for child in token.children or ()
        ]
        words.append(" ")
    plain = " ".join("".join(words).split())
    return plain if len(plain) <= length else plain[: length - 1].rsplit(" ", 1)[0] + "…"


def _adapt(tokens: Sequence[Token], top_level: int, base: str) -> None:
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + top_level - 1)}"
        elif token.type == "image":
            _as_text(token)
        elif token.type == "link_open":
            address = str(token.attrGet("href") or "")
            token.attrSet("rel", "nofollow noreferrer")
            if base and "://" not in address and not address.startswith(("mailto:", "#")):
                token.attrSet("href", base + address.lstrip("/"))
        if token.children:
            _adapt(token.children, top_level, base)


def _as_text(image: Token) -> None:
    """Replace a picture with its description."""
    image.type, image.tag, image.children = "text", "", None


def news_feed(ctx: ProcessContext, name: str, news: Iterable[NewsItem], *, page: str) -> Response:
    """Return the news of a service as a feed; ``page``: where an item is shown, up to its number."""
    items = [
        RssItem(
            title=item.title,
            guid=ctx.url(f"{page}{item.id}"),
            link=ctx.url(f"{page}{item.id}"),
            published=item.time,
            description=markdown(item.text, base=ctx.master_url),
        )
        for item in news
    ]
    return feed(ctx, name, f"News of {name}", items)


def feed(ctx: ProcessContext, name: str, description: str, items: Iterable[RssItem]) -> Response:
    """Return a feed of a service, as RSS."""
    channel = RssChannel(title=name, link=ctx.master_url, description=description, items=tuple(items))
    return Response(write_rss(channel, built=ctx.clock()), media_type="application/rss+xml")
