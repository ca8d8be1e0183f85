"""Pages about work: tasks and workunits."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import AppId, HostId, UserId, WorkunitId
from cobblestone.domain.people import User
from cobblestone.domain.states import TaskState
from cobblestone.server.web.site import Site, Visit, private
from cobblestone.server.web.visibility import is_owner, sees_computer, sees_computers
from cobblestone.service.languages import N_
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.site import not_found
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import page_queries
from cobblestone.store.operation.archived_tasks import ArchiveOwner, count_archived
from cobblestone.store.operation.page_queries import TaskOwner
from cobblestone.store.people import hosts, users
from cobblestone.store.work import rows as work
from cobblestone.store.work import uploads

TASK_STATES = {
    None: N_("All"),
    TaskState.IN_PROGRESS: N_("In progress"),
    TaskState.WAITING: N_("Waiting for validation"),
    TaskState.VALID: N_("Valid"),
    TaskState.INVALID: N_("Invalid"),
    TaskState.ERROR: N_("Error"),
}


class WorkPages:
    """Tasks and workunits."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        page = self._site.page
        return [
            Route("/results.php", page(self.tasks)),
            Route("/result.php", page(self.task)),
            Route("/workunit.php", page(self.workunit)),
        ]

    async def tasks(self, visit: Visit) -> Response:
        """Tasks of a user or a computer, filtered by state and app."""
        host_id, user_id = visit.number("hostid"), visit.number("userid")
        if host_id is None and user_id is None:
            if visit.viewer is None:
                return visit.user_to_log_in()
            user_id = int(visit.viewer.id)
        state, app_id, before = (
            _state(visit.fields.get("state", "")),
            visit.number("appid"),
            visit.number("before"),
        )

        def whose(db: Database) -> tuple[Host | None, User | None]:
            host = None if host_id is None else hosts.host_by_id(db, HostId(host_id))
            if host_id is not None and host is None:
                return None, None
            owner_id = host.user_id if host else UserId(user_id or 0)
            return host, users.user_by_id(db, owner_id)

        host, user = await visit.ctx.store.aread(whose)
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

        def read(db: Database) -> dict[str, Any]:
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

        found = await visit.ctx.store.aread(read)
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

    async def task(self, visit: Visit) -> Response:
        """One task: what happened, why, and what it earned."""
        result_id = visit.needed_number("resultid")

        def read(db: Database) -> dict[str, Any] | None:
            row = page_queries.task(db, result_id)
            if row is None:
                return None
            result = row.result
            host = None if result.host_id is None else hosts.host_by_id(db, result.host_id)
            workunit = work.workunits(db, [result.workunit_id])[result.workunit_id]
            return {
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

        found = await visit.ctx.store.aread(read)
        if found is None:
            raise not_found(_("task %(id)d") % {"id": result_id})
        host: Host | None = found["host"]
        return visit.show(
            "task.html",
            open=host is not None and sees_computer(visit.viewer, found["user"], host),
            own=is_owner(visit.viewer, found["user"]),
            **found,
        )

    async def workunit(self, visit: Visit) -> Response:
        """Show a workunit and its tasks on different computers."""
        workunit_id = WorkunitId(visit.needed_number("wuid"))

        def read(db: Database) -> dict[str, Any] | None:
            workunit = work.workunits(db, [workunit_id]).get(workunit_id)
            if workunit is None:
                return None
            return {
                "workunit": workunit,
                "app": apps.app_by_id(db, workunit.app_id),
                "tasks": page_queries.tasks_of_workunit(db, workunit_id),
            }

        found = await visit.ctx.store.aread(read)
        if found is None:
            raise not_found(_("workunit %(id)d") % {"id": workunit_id})
        return visit.show("workunit.html", **found)


def _state(text: str) -> TaskState | None:
    if not text:
        return None
    try:
        return TaskState(text)
    except ValueError:
        raise not_found(_("kind of task %(kind)s") % {"kind": repr(text[:40])}) from None
