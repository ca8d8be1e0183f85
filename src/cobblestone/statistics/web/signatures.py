"""Pictures of a user's figures, for signatures elsewhere: SVG, and PNG where that is not allowed."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape

from PIL import Image, ImageDraw, ImageFont
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.service.languages import gettext as _
from cobblestone.service.pages import wording
from cobblestone.service.pages.headers import SECURITY_HEADERS
from cobblestone.statistics.web.site import Site, Visit

WIDTH, HEIGHT = 420, 92
_BACK, _EDGE, _INK, _PALE = "#1f2a37", "#3f5068", "#ffffff", "#b8c4d4"
_LINES = ((16, 28, 18, _INK), (16, 52, 14, _PALE), (16, 76, 14, _PALE))
"""Where lines of text begin: from the left, the base line from above, size, colour."""
MOST_LETTERS = 42


class Signatures:
    """Answers with pictures."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/signature/{kind}/{key}.{ending}", self._site.page(self.picture))]

    async def picture(self, visit: Visit) -> Response:
        """Return the picture of one user, team or computer."""
        key, ending = visit.request.path_params["key"], visit.request.path_params["ending"]
        entity = await visit.read(lambda published: visit.entity(published, key))
        lines = [
            entity.name or _("Computer"),
            _("%(total)s credit in all, %(recent)s a day")
            % {"total": wording.credit(entity.total), "recent": wording.credit(entity.recent)},
            _("rank %(rank)s · %(site)s")
            % {"rank": wording.count(entity.rank_total), "site": visit.ctx.settings.site.name},
        ]
        lines = [line if len(line) <= MOST_LETTERS else line[: MOST_LETTERS - 1] + "…" for line in lines]
        headers = {
            **SECURITY_HEADERS,
            "Cache-Control": "public, max-age=3600",
            "Access-Control-Allow-Origin": "*",
        }
        if ending == "png":
            return Response(png(lines), media_type="image/png", headers=headers)
        return Response(svg(lines), media_type="image/svg+xml", headers=headers)


def svg(lines: Sequence[str]) -> str:
    """Draw lines of text on a card."""
    texts = "".join(
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}">{escape(line)}</text>'
        for line, (x, y, size, colour) in zip(lines, _LINES, strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' role="img" aria-label="{escape(", ".join(lines))}"><rect x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}"'
        f' rx="8" fill="{_BACK}" stroke="{_EDGE}"/><g font-family="system-ui,sans-serif">{texts}</g></svg>'
    )


def png(lines: Sequence[str]) -> bytes:
    """Draw the same as pixels; letters that the built-in font lacks become boxes."""
    image = Image.new("RGBA", (WIDTH, HEIGHT), (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    draw.rounded_rectangle((0, 0, WIDTH - 1, HEIGHT - 1), 8, fill=_BACK, outline=_EDGE)
    for line, (x, y, size, colour) in zip(lines, _LINES, strict=True):
        draw.text((x, y), line, fill=colour, font=ImageFont.load_default(size), anchor="ls")
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()
