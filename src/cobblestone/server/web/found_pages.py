"""What somebody's computers found, and tasks of jobs that are in the archive."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import ResultId, UserId
from cobblestone.domain.people import User
from cobblestone.server.web.credit_pages import PAGES, credit_owner
from cobblestone.server.web.site import Site, Visit, private
from cobblestone.server.web.visibility import is_owner, sees_computers
from cobblestone.server.web.work import TASK_STATES
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.headers import SECURITY_HEADERS
from cobblestone.service.pages.site import not_found
from cobblestone.store.catalog import apps
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import archived_tasks, page_queries
from cobblestone.store.operation.archived_tasks import ArchiveOwner
from cobblestone.store.people import users
from cobblestone.store.work import uploads
from cobblestone.store.work.files import place_of
from cobblestone.store.work.uploads import StoredOutput


class FoundPages:
    """Answers of one's own computers, and the archive."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Where they are."""
        return [
            Route("/found.php", self._site.own_page(self.found)),
            Route("/found_file.php", self._site.own_page(self.file)),
            Route("/archived_tasks.php", self._site.page(self.archived)),
        ]

    async def found(self, visit: Visit, user: User) -> Response:
        """List the answers of one's computers that became those of their jobs; where the app allows, with their files."""
        before = visit.number("before")
        path = visit.ctx.archive.path

        def read(db: Database) -> dict[str, Any]:
            rows = page_queries.list_canonical(db, user.id, before=before)
            shown = rows[: page_queries.PAGE_SIZE]
            open_apps = {app.id for app in apps.list_apps(db) if app.show_outputs}
            ids = [row.result.id for row in shown if row.result.app_id in open_apps]
            return {
                "rows": shown,
                "older_id": shown[-1].result.id if len(rows) > len(shown) else None,
                "outputs": uploads.outputs_of_results(db, ids, with_data=False),
                "open_apps": open_apps,
            }

        found = await visit.ctx.store.aread(read)
        old = await asyncio.to_thread(archived_tasks.count_archived, path, ArchiveOwner(user_id=user.id))
        return visit.show("found.html", user=user, before=before, in_archive=sum(old.values()), **found)

    async def file(self, visit: Visit, user: User) -> Response:
        """Give an output of a canonical result of one's own, where the app allows that."""
        result_id, index = ResultId(visit.needed_number("resultid")), visit.number("file") or 1

        def read(db: Database) -> tuple[str, StoredOutput] | None:
            row = page_queries.task(db, result_id)
            if row is None or row.result.user_id != user.id or not page_queries.is_canonical(db, result_id):
                return None
            if not apps.app_by_id(db, row.result.app_id).show_outputs:
                return None
            outputs = uploads.outputs_of_results(db, [result_id])[result_id]
            return next(((row.result.name, each) for each in outputs if each.index == index - 1), None)

        found = await visit.ctx.store.aread(read)
        if found is None:
            raise not_found(_("output of yours that the project shows"))
        name, output = found
        headers = {
            "Content-Security-Policy": f"{SECURITY_HEADERS['Content-Security-Policy']}; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-store",
            "Content-Disposition": f'attachment; filename="{name}_{output.index}"',
        }
        if output.gzipped:
            headers["Content-Encoding"] = "gzip"  # the browser unpacks it
        media_type = "application/octet-stream"
        if output.data is not None:
            return Response(output.data, media_type=media_type, headers=headers)
        path = place_of(visit.ctx.folder.upload, output.name)
        await visit.ctx.storage.bring(path, nbytes=output.nbytes, md5=output.md5)
        if not await asyncio.to_thread(path.is_file):
            raise not_found(_("output of yours that the project shows"))
        return FileResponse(path, media_type=media_type, headers=headers)

    async def archived(self, visit: Visit) -> Response:
        """List tasks of a volunteer or a computer whose jobs are in the archive."""
        owner, found = await credit_owner(visit)
        if owner.kind == "team":
            raise not_found(_("list of that"))
        before = visit.number("before")

        def read(db: Database) -> tuple[User | None, list[int], dict[int, str]]:
            user = users.user_by_id(db, found.user_id if isinstance(found, Host) else UserId(owner.id))
            host_ids = page_queries.records_of_computer(db, owner.id) if owner.kind == "host" else []
            return user, host_ids, {app.id: app.title for app in apps.list_apps(db)}

        user, host_ids, titles = await visit.ctx.store.aread(read)
        if not sees_computers(visit.viewer, user):
            raise private()
        whose = ArchiveOwner(user_id=0 if host_ids else owner.id, host_ids=host_ids)
        path = visit.ctx.archive.path
        counts = await asyncio.to_thread(archived_tasks.count_archived, path, whose)
        rows = await asyncio.to_thread(
            partial(
                archived_tasks.list_archived,
                path,
                whose,
                before=before,
                canonical="canonical" in visit.fields,
            )
        )
        shown = rows[: page_queries.PAGE_SIZE]
        return visit.show(
            "archived_tasks.html",
            owner=owner,
            user=user,
            own=is_owner(visit.viewer, user),
            page=f"{PAGES[owner.kind]}{owner.id}",
            fields=f"{owner.kind}id={owner.id}" + ("&canonical=1" if "canonical" in visit.fields else ""),
            counts=counts,
            states=TASK_STATES,
            titles=titles,
            rows=shown,
            before=before,
            older_id=shown[-1].id if len(rows) > len(shown) else None,
        )
