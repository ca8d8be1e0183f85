"""Messages of a team's founder to its members: written, read, withdrawn, and not wanted."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.ids import TeamId
from cobblestone.domain.people import Team, User
from cobblestone.server.web.site import Site, Visit
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.service.pages.wording import moment
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation import audit
from cobblestone.store.operation.audit import Actor
from cobblestone.store.people import team_messages, users
from cobblestone.wire.xml_writer import one_line, printable

MAX_TITLE = 100
MAX_TEXT = 3000
MAX_FORM_BYTES = 12 * (MAX_TITLE + MAX_TEXT) + 2000  # a letter of four bytes takes twelve in a form
SHOWN = 20


class TeamMessagePages:
    """Messages to members."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Where they are."""
        return [Route("/team_messages.php", self._site.own_page(self.messages), methods=["GET", "POST"])]

    async def messages(self, visit: Visit, user: User) -> Response:
        """Show the messages of one's team; its founder writes, operators may withdraw."""
        team_id = TeamId(visit.needed_number("teamid"))
        team = await visit.ctx.store.aread(lambda db: users.team_by_id(db, team_id))
        if team is None:
            raise not_found(_("team %(id)d") % {"id": team_id})
        if user.team_id != team.id and team.founder_id != user.id and not user.is_operator:
            raise PageError(403, _("Private"), _("The messages of a team are for its members."))
        if visit.request.method != "POST":
            return await self._show(visit, user, team)
        form = await visit.form(max_bytes=MAX_FORM_BYTES, long_fields={"text"})
        match form.get("action"):
            case "send":
                return await self._send(visit, user, team, form)
            case "withdraw":
                return await self._withdraw(visit, user, team, form.get("id", ""))
            case "wish":
                await visit.ctx.store.awrite(
                    lambda tx: team_messages.set_wants_messages(tx, user.id, "team_messages" in form)
                )
            case _:
                raise PageError(
                    400, _("That cannot be read"), _("The form names nothing that can be done here.")
                )
        return visit.go(f"team_messages.php?teamid={team.id}")

    async def _show(
        self,
        visit: Visit,
        user: User,
        team: Team,
        *,
        typed: dict[str, str] | None = None,
        problems: dict[str, str] | None = None,
    ) -> Response:
        found, next_time, wanted = await visit.ctx.store.aread(
            lambda db: (
                team_messages.messages_of(db, team.id, limit=SHOWN),
                team_messages.next_time(db, team.id),
                team_messages.wants_messages(db, user.id),
            )
        )
        return visit.show(
            "team_messages.html",
            http_status=422 if problems else 200,
            team=team,
            messages=found,
            next_time=next_time,
            wanted=wanted,
            founder=team.founder_id == user.id,
            typed=typed or {},
            problems=problems or {},
        )

    async def _send(self, visit: Visit, user: User, team: Team, form: dict[str, str]) -> Response:
        title = one_line(printable(form.get("title", ""))).strip()
        text = printable(form.get("text", "")).strip()
        problems: dict[str, str] = {}
        if not 0 < len(title) <= MAX_TITLE:
            problems["title"] = _("A title has 1 to %(most)d characters.") % {"most": MAX_TITLE}
        if not 0 < len(text) <= MAX_TEXT:
            problems["text"] = _("A message has 1 to %(most)d characters.") % {"most": MAX_TEXT}
        if not problems:
            now = visit.ctx.clock()
            try:
                sent = await visit.ctx.store.awrite(
                    lambda tx: team_messages.send(tx, team.id, user.id, title=title, text=text, now=now)
                )
            except Conflict:
                raise PageError(403, _("Not yours"), _("Only the founder of a team writes to it.")) from None
            if sent:
                return visit.go(f"team_messages.php?teamid={team.id}")
            next_time = await visit.ctx.store.aread(lambda db: team_messages.next_time(db, team.id))
            problems["text"] = _("A team gets one message a day; the next from %(when)s on.") % {
                "when": moment(next_time)
            }
        return await self._show(visit, user, team, typed=form, problems=problems)

    async def _withdraw(self, visit: Visit, user: User, team: Team, number: str) -> Response:
        if team.founder_id != user.id and not user.is_operator:
            raise PageError(403, _("Not yours"), _("Only the founder of a team writes to it."))
        message_id = int(number) if number.isascii() and number.isdecimal() and len(number) < 16 else 0
        actor = Actor(name=f"user:{user.id} {user.name}", origin=f"web {visit.address}")

        def transact(tx: Transaction) -> None:
            before = team_messages.withdraw(tx, team.id, message_id)
            if team.founder_id != user.id:
                audit.record(
                    tx,
                    actor,
                    "withdraw team message",
                    f"team {team.id}",
                    before={"title": before.title, "text": before.text},
                    after=None,
                    now=visit.ctx.clock(),
                )

        try:
            await visit.ctx.store.awrite(transact)
        except NotFound:
            raise not_found(_("message %(id)s") % {"id": message_id}) from None
        return visit.go(f"team_messages.php?teamid={team.id}")
