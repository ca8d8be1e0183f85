"""Pages about work: tasks and workunits, what computers found, tasks in the archive."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from starlette.responses import FileResponse, Response

from cobblestone.domain.hosts import Host
from cobblestone.domain.people import User
from cobblestone.domain.values import AppId, HostId, ResultId, UserId, WorkunitId
from cobblestone.domain.work import TaskState
from cobblestone.server.web.credit_pages import PAGES, credit_owner
from cobblestone.server.web.presentation.site import (
    ProjectSite,
    ProjectVisit,
    is_owner,
    private,
    sees_computer,
    sees_computers,
)
from cobblestone.server.web.presentation.wording import checks_are_secret
from cobblestone.service.languages import N_
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.pages import Pages, shows
from cobblestone.service.pages.site import not_found
from cobblestone.service.pages.static_files import SECURITY_HEADERS
from cobblestone.store.catalog import apps
from cobblestone.store.catalog.files import place_of
from cobblestone.store.credit import ledger
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import listings, page_queries
from cobblestone.store.operation.listings import ArchiveOwner, count_archived
from cobblestone.store.operation.page_queries import TaskOwner
from cobblestone.store.people import hosts, users
from cobblestone.store.work import rows as work
from cobblestone.store.work import uploads
from cobblestone.store.work.uploads import StoredOutput

TASK_STATES = {
    None: N_("All"),
    TaskState.IN_PROGRESS: N_("In progress"),
    TaskState.WAITING: N_("Waiting for validation"),
    TaskState.VALID: N_("Valid"),
    TaskState.INVALID: N_("Invalid"),
    TaskState.ERROR: N_("Error"),
}


class WorkPages(Pages[ProjectSite]):
    """Tasks and workunits."""

    @shows("/results.php")
    async def tasks(self, visit: ProjectVisit) -> Response:
        """Show tasks of a user or a computer, filtered by state and app."""
        host_id, user_id = visit.number("hostid"), visit.number("userid")
        if host_id is None and user_id is None:
            if visit.viewer is None:
                return visit.user_to_log_in()
            user_id = int(visit.viewer.id)
        state = _state(visit.fields.get("state", ""))
        app_id, before = visit.number("appid"), visit.number("before")

        def whose(db: Database) -> tuple[Host | None, User | None]:
            host = None if host_id is None else hosts.host_by_id(db, HostId(host_id))
            if host_id is not None and host is None:
                return None, None
            owner_id = host.user_id if host else UserId(user_id or 0)
            return host, users.user_by_id(db, owner_id)

        host, user = await visit.read(whose)
        if user is None:
            raise not_found(_("computer") if host_id is not None else _("volunteer"))
        if not (sees_computer(visit.viewer, user, host) if host else sees_computers(visit.viewer, user)):
            raise private()
        owner = TaskOwner(
            host_id=host.id if host else None,
            user_id=None if host else user.id,
            app_id=None if app_id is None else AppId(app_id),
        )
        own = is_owner(visit.viewer, user)

        found = await visit.read(
            lambda db: _list_of_tasks(db, owner, user, host, state=state, before=before, own=own)
        )
        archived = await asyncio.to_thread(
            count_archived,
            visit.ctx.archive.path,
            ArchiveOwner(user_id=user.id, host_ids=found.pop("records")),
        )
        who = f"hostid={host.id}" if host else f"userid={user.id}"
        return visit.show(
            "tasks.html",
            user=user,
            host=host,
            state=state,
            states=TASK_STATES,
            app_id=app_id,
            before=before,
            newest=page_queries.NEWEST_TASKS,
            who=who + (f"&appid={app_id}" if app_id else ""),
            own=own,
            archived=archived,
            **found,
        )

    @shows("/result.php")
    async def task(self, visit: ProjectVisit) -> Response:
        """Show one task: what happened, why, and the credit it earned."""
        result_id = visit.needed_number("resultid")

        def read(db: Database) -> dict[str, Any]:
            row = page_queries.task(db, result_id)
            if row is None:
                raise not_found(_("task %(id)d") % {"id": result_id})
            result = row.result
            host = None if result.host_id is None else hosts.host_by_id(db, result.host_id)
            workunit = work.workunits(db, [result.workunit_id])[result.workunit_id]
            app = apps.app_by_id(db, workunit.app_id)
            return {
                "secret": checks_are_secret(workunit, app),
                "row": row,
                "result": result,
                "host": host,
                "workunit": workunit,
                "user": None if result.user_id is None else users.user_by_id(db, result.user_id),
                "text": work.result_text(db, result.id),
                "ledger": ledger.entries_of_result(db, result.id),
                "version": None
                if result.app_version_id is None
                else apps.version_by_id(db, result.app_version_id),
                "outputs": uploads.outputs_of_results(db, [result.id], with_data=False)[result.id],
            }

        found = await visit.read(read)
        host: Host | None = found["host"]
        return visit.show(
            "task.html",
            open=host is not None and sees_computer(visit.viewer, found["user"], host),
            own=is_owner(visit.viewer, found["user"]),
            **found,
        )

    @shows("/workunit.php")
    async def workunit(self, visit: ProjectVisit) -> Response:
        """Show a workunit and its tasks on different computers."""
        workunit_id = WorkunitId(visit.needed_number("wuid"))

        def read(db: Database) -> dict[str, Any]:
            workunit = work.workunits(db, [workunit_id]).get(workunit_id)
            if workunit is None:
                raise not_found(_("workunit %(id)d") % {"id": workunit_id})
            app = apps.app_by_id(db, workunit.app_id)
            return {
                "workunit": workunit,
                "app": app,
                "secret": checks_are_secret(workunit, app),
                "tasks": page_queries.tasks_of_workunit(db, workunit_id),
            }

        return visit.show("workunit.html", **await visit.read(read))


def _list_of_tasks(
    db: Database,
    owner: TaskOwner,
    user: User,
    host: Host | None,
    *,
    state: TaskState | None,
    before: int | None,
    own: bool,
) -> dict[str, Any]:
    """Return a page of tasks, and what the lists above it offer."""
    rows = page_queries.list_tasks(db, owner, state=state, before=before)
    own_hosts = hosts.hosts_of_user(db, user.id, limit=200)
    return {
        "tasks": rows[: page_queries.PAGE_SIZE],
        "older_id": rows[page_queries.PAGE_SIZE - 1].result.id
        if len(rows) > page_queries.PAGE_SIZE
        else None,
        "counts": page_queries.count_tasks(db, owner),
        "apps": apps.apps_in_use(db),
        "records": page_queries.records_of_computer(db, host.id) if host else (),
        "hosts": own_hosts if own else [item for item in own_hosts if not item.hidden],
    }


def _state(text: str) -> TaskState | None:
    if not text:
        return None
    try:
        return TaskState(text)
    except ValueError:
        raise not_found(_("kind of task %(kind)s") % {"kind": repr(text[:40])}) from None


class FoundPages(Pages[ProjectSite]):
    """Answers found by the user's own computers, and the archive."""

    @shows("/found.php", own=True)
    async def found(self, visit: ProjectVisit, user: User) -> Response:
        """List results of the user's computers that became answers; where the app allows it, with their files."""
        before = visit.number("before")
        path = visit.ctx.archive.path

        def read(db: Database) -> dict[str, Any]:
            rows = page_queries.list_tasks(db, TaskOwner(user_id=user.id), canonical=True, before=before)
            shown = rows[: page_queries.PAGE_SIZE]
            open_apps = {app.id for app in apps.list_apps(db) if app.show_outputs}
            ids = [row.result.id for row in shown if row.result.app_id in open_apps]
            return {
                "rows": shown,
                "older_id": shown[-1].result.id if len(rows) > len(shown) else None,
                "outputs": uploads.outputs_of_results(db, ids, with_data=False),
                "open_apps": open_apps,
            }

        found = await visit.read(read)
        old = await asyncio.to_thread(listings.count_archived, path, ArchiveOwner(user_id=user.id))
        return visit.show("found.html", user=user, before=before, in_archive=sum(old.values()), **found)

    @shows("/found_file.php", own=True)
    async def file(self, visit: ProjectVisit, user: User) -> Response:
        """Return an output of a canonical result of the user, where the app allows it."""
        result_id, index = ResultId(visit.needed_number("resultid")), visit.number("file") or 1

        def read(db: Database) -> tuple[str, StoredOutput] | None:
            row = page_queries.task(db, result_id)
            if row is None or row.result.user_id != user.id or not row.is_canonical:
                return None
            if not apps.app_by_id(db, row.result.app_id).show_outputs:
                return None
            outputs = uploads.outputs_of_results(db, [result_id])[result_id]
            return next(((row.result.name, each) for each in outputs if each.index == index - 1), None)

        found = await visit.read(read)
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

    @shows("/archived_tasks.php")
    async def archived(self, visit: ProjectVisit) -> Response:
        """List tasks of a volunteer or a computer whose jobs are in the archive."""
        owner, found = await credit_owner(visit)
        if owner.kind == "team":
            raise not_found(_("such list"))
        before = visit.number("before")

        def read(db: Database) -> tuple[User | None, list[int], dict[int, str]]:
            user = users.user_by_id(db, found.user_id if isinstance(found, Host) else UserId(owner.id))
            host_ids = page_queries.records_of_computer(db, owner.id) if owner.kind == "host" else []
            return user, host_ids, {app.id: app.title for app in apps.list_apps(db)}

        user, host_ids, titles = await visit.read(read)
        if not sees_computers(visit.viewer, user):
            raise private()
        whose = ArchiveOwner(user_id=0 if host_ids else owner.id, host_ids=host_ids)
        path = visit.ctx.archive.path
        counts = await asyncio.to_thread(listings.count_archived, path, whose)
        rows = await asyncio.to_thread(
            partial(listings.list_archived, path, whose, before=before, canonical="canonical" in visit.fields)
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
