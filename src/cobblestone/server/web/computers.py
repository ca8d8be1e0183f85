"""Pages of computers: the list, one computer, and its owner's actions."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.hosts import Host
from cobblestone.domain.people import User
from cobblestone.domain.values import HostId, UserId
from cobblestone.server.operation.explain import HostExplanation, explain_host
from cobblestone.server.web.preferences import VENUE_NAMES
from cobblestone.server.web.presentation.site import (
    ProjectSite,
    ProjectVisit,
    is_owner,
    private,
    sees_computer,
    sees_computers,
)
from cobblestone.server.web.public import public_host, xml
from cobblestone.server.web.work import TASK_STATES
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.fields import whole_number
from cobblestone.service.pages.pages import BOTH, Pages, shows
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.store.credit.app_credit import Owner, credit_by_app
from cobblestone.store.credit.history import CreditOwner
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import page_queries
from cobblestone.store.operation.interventions import merge_computers
from cobblestone.store.operation.page_queries import TaskOwner
from cobblestone.store.people import hosts, users
from cobblestone.wire.project.account import write_hosts_xml
from cobblestone.wire.text.writer import one_line, printable

MAX_LABEL = 60
MAX_SIMILAR = 50


class HostPages(Pages[ProjectSite]):
    """Pages of computers."""

    @shows("/hosts_user.php")
    async def computers(self, visit: ProjectVisit) -> Response:
        """Show a user's computers."""
        user_id = visit.number("userid")
        if user_id is None:
            if visit.viewer is None:
                return visit.user_to_log_in()
            user_id = int(visit.viewer.id)
        page = visit.page_number()
        user = await visit.read(lambda db: users.user_by_id(db, UserId(user_id)))
        if user is None:
            raise not_found(_("volunteer %(id)d") % {"id": user_id})
        if not sees_computers(visit.viewer, user):
            raise private()
        own = is_owner(visit.viewer, user)
        start = page * page_queries.PAGE_SIZE
        found = await visit.read(
            lambda db: hosts.hosts_of_user(db, user.id, limit=page_queries.PAGE_SIZE + 1, offset=start)
        )
        shown = [host for host in found[: page_queries.PAGE_SIZE] if own or not host.hidden]
        if visit.fields.get("format") == "xml":
            return xml(write_hosts_xml(public_host(host, own=own) for host in shown))
        return visit.show(
            "computers.html",
            user=user,
            hosts=shown,
            more=len(found) > page_queries.PAGE_SIZE,
            page=page,
            query=f"userid={user.id}",
            own=own,
        )

    @shows("/show_host_detail.php")
    async def computer(self, visit: ProjectVisit) -> Response:
        """Show one computer: hardware, credit, record of each app version."""
        host_id = HostId(visit.needed_number("hostid"))

        def read(db: Database) -> dict[str, Any]:
            host = hosts.host_by_id(db, host_id)
            if host is None:
                raise not_found(_("computer %(id)d") % {"id": host_id})
            return {
                "host": host,
                "user": users.user_by_id(db, host.user_id),
                "address": page_queries.external_address(db, host.id),
                "versions": page_queries.version_records(db, host.id),
                "counts": page_queries.count_tasks(db, TaskOwner(host_id=host.id)),
                "by_app": credit_by_app(db, Owner.HOST, host.id),
            }

        found = await visit.read(read)
        host: Host = found["host"]
        user: User | None = found["user"]
        if not sees_computer(visit.viewer, user, host):
            raise private()
        taken = [item.record.statistics.turnaround for item in found["versions"]]
        samples = sum(each.n for each in taken)
        turnaround = sum(each.mean * each.n for each in taken) / max(samples, 1)
        own = is_owner(visit.viewer, user)
        return visit.show(
            "computer.html",
            turnaround=turnaround,
            explanation=await self._explanation(visit, host) if own else None,
            standing=await self._site.standing(CreditOwner("host", host.id), created=host.create_time),
            own=own,
            states=TASK_STATES,
            venues=VENUE_NAMES,
            **found,
        )

    async def _explanation(self, visit: ProjectVisit, host: Host) -> HostExplanation:
        """Return what the computer would get if it asked for work now."""
        ctx = visit.ctx
        offer = await ctx.store.awrite(ctx.offers.get)
        return await ctx.store.aread(lambda db: explain_host(db, offer, host.id, now=ctx.clock()))

    # -- what its owner may do ----------------------------------------------------------------------

    @shows("/host_edit.php", methods=BOTH, own=True)
    async def edit(self, visit: ProjectVisit, user: User) -> Response:
        """Show the form for name, venue and visibility; merge with a newer record; remove."""
        host_id = HostId(visit.needed_number("hostid"))
        host = await visit.read(lambda db: hosts.host_by_id(db, host_id))
        if host is None or host.user_id != user.id:
            raise not_found(_("computer %(id)d of yours") % {"id": host_id})
        if visit.request.method != "POST":
            return await self._form(visit, user, host)
        form = await visit.form()
        try:
            match form.get("action"):
                case "merge":
                    new = HostId(whole_number(form.get("into", "")))
                    await visit.write(
                        lambda tx: merge_computers(tx, user.id, host.id, new, now=visit.ctx.clock())
                    )
                    return visit.go(f"show_host_detail.php?hostid={new}&done=saved")
                case "remove":
                    await visit.write(lambda tx: hosts.remove_computer(tx, host.id, now=visit.ctx.clock()))
                    return visit.go("hosts_user.php?done=saved")
                case _:
                    return await self._save(visit, user, host, form)
        except NotFound:
            problem = _("Choose one of the computers in the list.")
        except Conflict:
            problem = _("The computer still has tasks. Wait until they are reported or past their deadline.")
        return await self._form(visit, user, host, problem=problem)

    async def _save(self, visit: ProjectVisit, user: User, host: Host, form: dict[str, str]) -> Response:
        label = one_line(printable(form.get("label", ""))).strip()
        venue = form.get("venue", "")
        if len(label) > MAX_LABEL or venue not in VENUE_NAMES:
            problem = _("The name may have at most %(most)d characters.") % {"most": MAX_LABEL}
            return await self._form(visit, user, host, problem=problem)
        await visit.write(
            lambda tx: hosts.set_computer(tx, host.id, label=label, venue=venue, hidden="hidden" in form)
        )
        return visit.go(f"show_host_detail.php?hostid={host.id}&done=saved")

    async def _form(self, visit: ProjectVisit, user: User, host: Host, *, problem: str = "") -> Response:
        others = await visit.read(lambda db: hosts.hosts_of_user(db, user.id, limit=MAX_SIMILAR))
        busy = await visit.read(lambda db: hosts.has_work(db, host.id))
        if host.id not in {item.id for item in others} and len(others) < MAX_SIMILAR:
            raise PageError(
                404, _("Not found"), _("This computer was removed. It comes back at its next contact.")
            )
        return visit.show(
            "host_edit.html",
            host=host,
            others=[item for item in others if item.id != host.id],
            busy=busy,
            problem=problem,
            venues=VENUE_NAMES,
        )
