"""Pages of the texts that the project writes itself: about it, its science, its terms of use."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.server.core.project_texts import NAMES
from cobblestone.server.web.site import Site, Visit
from cobblestone.service.languages import N_, current
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.site import not_found

TITLES: Mapping[str, str] = {
    "about": N_("About the project"),
    "science": N_("The science"),
    "terms": N_("Terms of use"),
}


class ProjectTextPages:
    """A page for each text that there is."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route(f"/{name}.php", self._site.page(self.show)) for name in NAMES]

    async def show(self, visit: Visit) -> Response:
        """Show one of the texts."""
        name = visit.request.url.path.rpartition("/")[2].removesuffix(".php")
        text = visit.ctx.texts.text(name, current().code)
        if text is None:
            raise not_found(_(TITLES[name]))
        return visit.show("project_text.html", title=_(TITLES[name]), text=text)
