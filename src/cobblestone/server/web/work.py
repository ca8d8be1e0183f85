"""Pages about work and computers: tasks, workunits, hosts."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import HostId, UserId, WorkunitId
from cobblestone.domain.people import User
from cobblestone.server.web.languages import N_
from cobblestone.server.web.languages import gettext as _
from cobblestone.server.web.site import Site, Visit, not_found, private
from cobblestone.server.web.visibility import is_owner, sees_computers
from cobblestone.store import apps, credit, hosts, pages, people, uploads, work
from cobblestone.store.credit_history import CreditOwner
from cobblestone.store.database import Database
from cobblestone.store.pages import TaskOwner, TaskState

TASK_STATES = {
    None: N_("All"),
    TaskState.IN_PROGRESS: N_("In progress"),
    TaskState.WAITING: N_("Waiting for validation"),
    TaskState.VALID: N_("Valid"),
    TaskState.INVALID: N_("Invalid"),
    TaskState.ERROR: N_("Error"),
}


class WorkPages:
    """Tasks, workunits and computers."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Where they are."""
        page = self._site.page
        return [
            Route("/results.php", page(self.tasks)),
            Route("/result.php", page(self.task)),
            Route("/workunit.php", page(self.workunit)),
            Route("/hosts_user.php", page(self.computers)),
            Route("/show_host_detail.php", page(self.computer)),
        ]

    async def tasks(self, visit: Visit) -> Response:
        """Tasks of a user or a computer, filtered by state."""
        host_id, user_id = visit.number("hostid"), visit.number("userid")
        if host_id is None and user_id is None:
            if visit.viewer is None:
                return visit.user_to_log_in()
            user_id = int(visit.viewer.id)
        state = _state(visit.fields.get("state", ""))
        page = visit.page_number()

        def read(db: Database) -> tuple[Host | None, User | None]:
            host = None if host_id is None else hosts.host_by_id(db, HostId(host_id))
            if host_id is not None and host is None:
                return None, None
            owner_id = host.user_id if host else UserId(user_id or 0)
            return host, people.user_by_id(db, owner_id)

        host, user = await visit.ctx.store.aread(read)
        if user is None:
            raise not_found(_("computer") if host_id is not None else _("volunteer"))
        if not sees_computers(visit.viewer, user):
            raise private()
        owner = TaskOwner(host_id=host.id) if host else TaskOwner(user_id=user.id)
        rows, counts = await visit.ctx.store.aread(
            lambda db: (
                pages.list_tasks(db, owner, state=state, page=page),
                pages.count_tasks(db, owner),
            )
        )
        who = f"hostid={host.id}" if host else f"userid={user.id}"
        return visit.show(
            "tasks.html",
            user=user,
            host=host,
            tasks=rows[: pages.PAGE_SIZE],
            more=len(rows) > pages.PAGE_SIZE,
            page=page,
            state=state,
            states=TASK_STATES,
            counts=counts,
            newest=pages.NEWEST_TASKS,
            query=f"{who}&state={state}" if state else who,
            who=who,
            own=is_owner(visit.viewer, user),
        )

    async def task(self, visit: Visit) -> Response:
        """One task: what happened, why, and what it earned."""
        result_id = visit.needed_number("resultid")

        def read(db: Database) -> dict[str, Any] | None:
            row = pages.task(db, result_id)
            if row is None:
                return None
            result = row.result
            workunit = work.workunits(db, [result.workunit_id])[result.workunit_id]
            return {
                "row": row,
                "result": result,
                "workunit": workunit,
                "user": None if result.user_id is None else people.user_by_id(db, result.user_id),
                "text": work.result_text(db, result.id),
                "ledger": credit.entries_of_result(db, result.id),
                "version": None
                if result.app_version_id is None
                else apps.version_by_id(db, result.app_version_id),
                "outputs": uploads.outputs_of_results(db, [result.id], with_data=False)[result.id],
            }

        found = await visit.ctx.store.aread(read)
        if found is None:
            raise not_found(_("task %(id)d") % {"id": result_id})
        return visit.show(
            "task.html",
            open=sees_computers(visit.viewer, found["user"]),
            own=is_owner(visit.viewer, found["user"]),
            **found,
        )

    async def workunit(self, visit: Visit) -> Response:
        """A workunit and its tasks on different computers."""
        workunit_id = WorkunitId(visit.needed_number("wuid"))

        def read(db: Database) -> dict[str, Any] | None:
            workunit = work.workunits(db, [workunit_id]).get(workunit_id)
            if workunit is None:
                return None
            return {
                "workunit": workunit,
                "app": apps.app_by_id(db, workunit.app_id),
                "tasks": pages.tasks_of_workunit(db, workunit_id),
            }

        found = await visit.ctx.store.aread(read)
        if found is None:
            raise not_found(_("workunit %(id)d") % {"id": workunit_id})
        return visit.show("workunit.html", **found)

    async def computers(self, visit: Visit) -> Response:
        """A user's computers."""
        user_id = visit.number("userid")
        if user_id is None:
            if visit.viewer is None:
                return visit.user_to_log_in()
            user_id = int(visit.viewer.id)
        page = visit.page_number()
        user = await visit.ctx.store.aread(lambda db: people.user_by_id(db, UserId(user_id)))
        if user is None:
            raise not_found(_("volunteer %(id)d") % {"id": user_id})
        if not sees_computers(visit.viewer, user):
            raise private()
        start = page * pages.PAGE_SIZE
        found = await visit.ctx.store.aread(
            lambda db: hosts.hosts_of_user(db, user.id, limit=start + pages.PAGE_SIZE + 1)
        )
        return visit.show(
            "computers.html",
            user=user,
            hosts=found[start : start + pages.PAGE_SIZE],
            more=len(found) > start + pages.PAGE_SIZE,
            page=page,
            query=f"userid={user.id}",
            own=is_owner(visit.viewer, user),
        )

    async def computer(self, visit: Visit) -> Response:
        """One computer: hardware, credit, record of each app version."""
        host_id = HostId(visit.needed_number("hostid"))

        def read(db: Database) -> dict[str, Any] | None:
            host = hosts.host_by_id(db, host_id)
            if host is None:
                return None
            owner = TaskOwner(host_id=host.id)
            return {
                "host": host,
                "user": people.user_by_id(db, host.user_id),
                "address": pages.external_address(db, host.id),
                "versions": pages.version_records(db, host.id),
                "counts": pages.count_tasks(db, owner),
            }

        found = await visit.ctx.store.aread(read)
        if found is None:
            raise not_found(_("computer %(id)d") % {"id": host_id})
        user = found["user"]
        if not sees_computers(visit.viewer, user):
            raise private()
        records = [item.record for item in found["versions"]]
        samples = sum(record.turnaround_n for record in records)
        turnaround = sum(record.turnaround_avg * record.turnaround_n for record in records) / max(samples, 1)
        return visit.show(
            "computer.html",
            turnaround=turnaround,
            plot=await self._site.credit_plot(
                CreditOwner("host", host_id), created=found["host"].create_time
            ),
            own=is_owner(visit.viewer, user),
            states=TASK_STATES,
            **found,
        )


def _state(text: str) -> TaskState | None:
    if not text:
        return None
    try:
        return TaskState(text)
    except ValueError:
        raise not_found(_("kind of task %(kind)s") % {"kind": repr(text[:40])}) from None
