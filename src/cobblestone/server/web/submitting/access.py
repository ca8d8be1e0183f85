"""Who sees the pages of submitters, and the calls of the API that these make for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from cobblestone.domain.errors import CobblestoneError, Conflict, JobError, NotAllowed, NotFound
from cobblestone.server.api.endpoints.routing import Call
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit
from cobblestone.service.http.api import ApiProblem
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.pages import Handler, Pages
from cobblestone.service.pages.site import PageError
from cobblestone.store.people.credentials import ApiToken
from cobblestone.store.work import submitters
from cobblestone.store.work.batches import BatchRow

REFUSALS = (NotFound, Conflict, NotAllowed, JobError, ApiProblem)
"""What the API refuses with an explanation."""


class ForSubmitters(Pages[ProjectSite]):
    """Pages that only accounts see that may submit jobs; their handlers get the token that the account submits with."""

    def endpoint(self, handler: Handler, *, own: bool) -> Callable[[Request], Awaitable[Response]]:
        """Return what answers a submitter, sends visitors to the log-in form, and refuses others."""

        async def guarded(visit: ProjectVisit) -> Response:
            viewer = visit.viewer
            if viewer is None:
                return visit.user_to_log_in()
            token = await visit.read(lambda db: submitters.submitter_of(db, viewer.id))
            if token is None:
                text = _("Your account may not submit jobs. The project's operators can allow it.")
                raise PageError(403, _("My work"), text)
            try:
                return await handler(visit, token)
            except REFUSALS as error:
                raise refused(error) from error

        return self._site.page(guarded)


def refused(error: CobblestoneError) -> PageError:
    """Return the error page for what the API refuses."""
    if isinstance(error, NotFound):
        return PageError(404, _("Not found"), str(error))
    status = error.status if isinstance(error, ApiProblem) else 409
    return PageError(status, _("Not possible now"), str(error))


def call_of(visit: ProjectVisit, token: ApiToken, *, request_key: str | None = None) -> Call:
    """Return a request to the API in the name of the account."""
    return Call(
        ctx=visit.ctx,
        request=visit.request,
        body=None,
        token=token,
        now=visit.ctx.clock(),
        request_key=request_key,
    )


async def batch_of(visit: ProjectVisit, token: ApiToken, batch_id: int) -> BatchRow:
    """Return a batch of the account.  Raises NotFound."""
    return await visit.read(lambda db: submitters.own_batch(db, token, batch_id))
