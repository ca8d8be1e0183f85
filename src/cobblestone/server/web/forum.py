"""The project's forum, wherever it is: a link, or inside of a page of ours where the project wants that."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.server.web.site import Site, Visit
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.headers import SECURITY_HEADERS
from cobblestone.service.pages.site import not_found


class ForumPages:
    """The page that holds a forum of another server."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Where they are."""
        return [Route("/forum.php", self._site.page(self.forum))]

    async def forum(self, visit: Visit) -> Response:
        """Show the forum in a frame: this page alone may hold one, of that server alone."""
        project = visit.ctx.settings.project
        if not (project.forum_url and project.forum_embedded):
            raise not_found(_("forum"))
        response = visit.show("forum.html")
        place = urlsplit(project.forum_url)
        policy = SECURITY_HEADERS["Content-Security-Policy"]
        response.headers["Content-Security-Policy"] = f"{policy}; frame-src {place.scheme}://{place.netloc}"
        return response
