"""Pictures of badges: a paving stone with what it is for, the more precious the higher the level."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from cobblestone.policy.credit.badges import Badge, BadgeKind, BadgeRules
from cobblestone.server.core.context import ServerContext
from cobblestone.service.pages.headers import SECURITY_HEADERS

_METALS = (  # stone, edge
    ("#a0714a", "#6f4a2c"),  # copper
    ("#8b8f96", "#5d6168"),  # silver
    ("#c69a1e", "#8a6a0b"),  # gold
    ("#0f8a7e", "#07534b"),  # malachite
    ("#4463b5", "#2a4180"),  # sapphire
    ("#a63d52", "#6f2032"),  # ruby
)
_SIGNS = {
    BadgeKind.TOTAL: '<rect x="20" y="24" width="11" height="7" rx="3"/><rect x="33" y="24" width="11" height="7" rx="3"/>'
    '<rect x="26.5" y="15" width="11" height="7" rx="3"/>',
    BadgeKind.RECENT: '<path d="M18 26h7l3-9 6 13 4-8 2 4h6" fill="none" stroke="#fff" stroke-width="3"'
    ' stroke-linejoin="round" stroke-linecap="round"/>',
    BadgeKind.RANK: '<path d="M32 12l3.4 7 7.6 1-5.6 5.3 1.4 7.7-6.8-3.7-6.8 3.7 1.4-7.7-5.6-5.3 7.6-1z"/>',
}
_UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


class BadgePictures:
    """Answers with pictures of the badges that the project gives."""

    def __init__(self, ctx: ServerContext) -> None:
        section = ctx.settings.badges
        rules = BadgeRules(total=section.total, recent=section.recent, rank_percent=section.rank_percent)
        self._pictures = {badge.name: picture(badge, rules.badges) for badge in rules.badges}

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/badge/{name}.svg", self._answer)]

    async def _answer(self, request: Request) -> Response:
        found = self._pictures.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("Not Found", 404)
        headers = {**SECURITY_HEADERS, "Cache-Control": "public, max-age=86400"}
        return Response(found, media_type="image/svg+xml", headers=headers)


def picture(badge: Badge, given: Sequence[Badge]) -> str:
    """Draw a badge; its colour tells its place among those of its kind, from the lowest to the highest."""
    levels = [item.level for item in given if item.kind is badge.kind]
    place = levels.index(badge.level) * (len(_METALS) - 1) / max(1, len(levels) - 1)
    stone, edge = _METALS[round(place) if len(levels) > 3 else levels.index(badge.level)]
    text = f"{badge.level:g} %" if badge.kind is BadgeKind.RANK else _short(badge.level)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">'
        '<path d="M32 4l22 10c3 1.5 4 3 4 6v24c0 3-1 4.5-4 6L32 60 10 50c-3-1.5-4-3-4-6V20c0-3 1-4.5 4-6z"'
        f' fill="{stone}" stroke="{edge}" stroke-width="3" stroke-linejoin="round"/>'
        f'<g fill="#fff">{_SIGNS[badge.kind]}'
        '<text x="32" y="47" text-anchor="middle" font-family="system-ui, sans-serif" font-size="13"'
        f' font-weight="700">{text}</text></g></svg>'
    )


def _short(amount: float) -> str:
    for limit, unit in _UNITS:
        if amount >= limit:
            return f"{amount / limit:.3g} {unit}"
    return f"{amount:.3g}"
