"""The page that computes in the visitor's browser, and its version for a frame on other sites."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain import pyodide
from cobblestone.domain.apps import BROWSER_PLATFORM, App
from cobblestone.server.accounts.service import account_ticket
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.pages import Pages, shows
from cobblestone.service.pages.site import not_found
from cobblestone.service.pages.static_files import SECURITY_HEADERS
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database

#: How often a program without an instruction count is asked for a checkpoint.
CHECKPOINT_SECONDS = 20

_KINDS = {
    ".json": "application/json",
    ".mjs": "text/javascript",
    ".wasm": "application/wasm",
    ".zip": "application/zip",
}
_PYODIDE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": SECURITY_HEADERS["Content-Security-Policy"],
    "Cache-Control": "public, max-age=31536000, immutable",
}


class ComputePages(Pages[ProjectSite]):
    """The page with the start button."""

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [*super().routes(), Route("/pyodide/{version}/{name}", self.pyodide)]

    @shows("/compute")
    async def compute(self, visit: ProjectVisit) -> Response:
        """Show the button.

        The page is cut off from all other sites, so that it may share memory with its threads: tasks stand still at once.
        """
        response = await self._show(visit, framed=False)
        response.headers["Cross-Origin-Embedder-Policy"] = "require-corp"
        return response

    @shows("/compute_frame")
    async def frame(self, visit: ProjectVisit) -> Response:
        """Show only the button, for sites that the operator allows."""
        origins = visit.ctx.settings.browsers.origins
        if not origins:
            raise not_found(_("page"))
        response = await self._show(visit, framed=True)
        policy = SECURITY_HEADERS["Content-Security-Policy"]
        allowed = f"frame-ancestors {' '.join(origins)}"
        response.headers["Content-Security-Policy"] = policy.replace("frame-ancestors 'none'", allowed)
        del response.headers["X-Frame-Options"]  # which knows no list
        return response

    async def pyodide(self, request: Request) -> Response:
        """Serve a file of Pyodide, of a version that the operator has installed."""
        version, name = request.path_params["version"], request.path_params["name"]
        path = self._site.ctx.folder.pyodide / pyodide.VERSION / name
        if version != pyodide.VERSION or name not in pyodide.SHA256 or not path.is_file():
            raise HTTPException(404)
        return FileResponse(path, media_type=_KINDS[path.suffix], headers=_PYODIDE_HEADERS)

    async def _show(self, visit: ProjectVisit, *, framed: bool) -> Response:
        viewer = visit.viewer
        return visit.show(
            "compute.html",
            apps=await visit.read(apps_of_browsers),
            visitors=visit.ctx.settings.browsers.visitors,
            framed=framed,
            ticket="" if viewer is None else account_ticket(visit.ctx, viewer),
            owner="" if viewer is None else viewer.id,
            checkpoint_seconds=CHECKPOINT_SECONDS,
        )


def apps_of_browsers(db: Database) -> list[App]:
    """Return the apps that browsers compute."""
    found = {each.app_id for each in apps.list_versions(db, platform=BROWSER_PLATFORM) if each.signed}
    return [app for app in apps.apps_in_use(db) if app.id in found]
