"""Pages of teams: list and search, one team, joining and leaving, editing by founders, messages to members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from cobblestone.domain.errors import Conflict, NotAllowed, NotFound
from cobblestone.domain.people import Team, TeamType, User
from cobblestone.domain.values import TeamId, UserId
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.fields import name_problem, whole_number
from cobblestone.service.pages.pages import BOTH, POST, Pages, shows
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.service.pages.wording import TEAM_TYPES, moment
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.history import CreditOwner
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import page_queries, ranking
from cobblestone.store.operation.ranking import Order
from cobblestone.store.people import account_changes, teams, users
from cobblestone.wire.text.writer import one_line, printable

MAX_DESCRIPTION = 5000
MAX_NAME_HTML = 255  #: as in the family, whose readers take no longer texts
MAX_FORM_BYTES = 12 * MAX_DESCRIPTION + 2000  # a letter of four bytes takes twelve in a form
MAX_WORDS = 100


class TeamPages(Pages[ProjectSite]):
    """Teams."""

    @shows("/teams.php")
    async def search(self, visit: ProjectVisit) -> Response:
        """Show teams by name; without a search text, the best ones."""
        words = visit.fields.get("words", "").strip()[:MAX_WORDS]

        def read(db: Database) -> list[teams.TeamRow]:
            if words:
                return teams.find_teams(db, words)
            best = ranking.top(db, Owner.TEAM, Order.RECENT, page=0)
            return teams.rows_of(db, [item.id for item in best[: page_queries.PAGE_SIZE]])

        return visit.show("teams.html", words=words, teams=await visit.read(read))

    @shows("/team_display.php")
    async def team(self, visit: ProjectVisit) -> Response:
        """Show a team and its members."""
        team_id = TeamId(visit.needed_number("teamid"))
        page = visit.page_number()

        def read(db: Database) -> dict[str, Any]:
            team = users.team_by_id(db, team_id)
            if team is None:
                raise _no_team(team_id)
            members = page_queries.team_members(db, team_id, page=page)
            return {
                "team": team,
                "founder": users.user_by_id(db, team.founder_id),
                "n_members": teams.count_members(db, team_id),
                "members": members[: page_queries.PAGE_SIZE],
                "more": len(members) > page_queries.PAGE_SIZE,
            }

        found = await visit.read(read)
        standing = await self._site.standing(CreditOwner("team", team_id), created=found["team"].create_time)
        # A session is kept for the buttons: visitors without one see none.
        return visit.show(
            "team.html",
            page=page,
            first=page * page_queries.PAGE_SIZE,
            query=f"teamid={team_id}",
            standing=standing,
            **found,
        )

    @shows("/team_create.php", methods=BOTH, own=True)
    async def create(self, visit: ProjectVisit, user: User) -> Response:
        """Show the form for a new team."""
        visit.need_confirmed_address(user)
        if visit.request.method != "POST":
            return visit.show("team_create.html", typed={}, problems={}, team=None)
        form = await _form(visit, TeamType.CLUB)
        problems = _problems(form)
        if not problems:
            try:
                team = await visit.write(
                    lambda tx: teams.found_team(tx, user.id, _profile(form), now=visit.ctx.clock())
                )
                return visit.go(f"team_display.php?teamid={team.id}")
            except Conflict:
                problems = {"name": _("There is already a team of this name.")}
            except NotAllowed:
                problems = {"name": _("You founded a team less than a day ago. Wait until tomorrow.")}
        return visit.show("team_create.html", typed=form, problems=problems, team=None)

    @shows("/team_edit.php", methods=BOTH, own=True)
    async def edit(self, visit: ProjectVisit, user: User) -> Response:
        """Show the founder's form, also to operators: texts, whether the team is open, and the change of founder."""
        team = await self._own_team(visit, user)
        if visit.request.method != "POST":
            return visit.show("team_create.html", typed={}, problems={}, team=team)
        form = await _form(visit, team.type)

        def transact(tx: Transaction) -> None:
            teams.update_team(tx, team.id, _profile(form), joinable="joinable" in form)
            self._note(visit, tx, user, team, "change team")

        if form.get("action") == "hand_over":
            problems = await self._hand_over(visit, user, team, form)
        else:
            problems = _problems(form)
            if not problems:
                try:
                    await visit.write(transact)
                except Conflict:
                    problems = {"name": _("There is already a team of this name.")}
        if not problems:
            return visit.go(f"team_display.php?teamid={team.id}")
        return visit.show("team_create.html", typed=form, problems=problems, team=team)

    def _note(self, visit: ProjectVisit, tx: Transaction, user: User, team: Team, action: str) -> None:
        """Note what an operator did to somebody else's team."""
        if team.founder_id != user.id:
            shown = ("name", "name_html", "description", "url", "country", "joinable", "founder_id")
            visit.note(tx, action, f"team {team.id}", before={name: getattr(team, name) for name in shown})

    async def _hand_over(
        self, visit: ProjectVisit, user: User, team: Team, form: Mapping[str, str]
    ) -> dict[str, str]:
        heir = whole_number(form.get("heir", "").strip())

        def transact(tx: Transaction) -> None:
            teams.hand_over(tx, team.id, team.founder_id, UserId(heir))
            self._note(visit, tx, user, team, "hand over team")

        try:
            await visit.write(transact)
        except NotFound:
            return {
                "heir": _(
                    "There is no member of this number. The number is in the address of the member's page."
                )
            }
        except Conflict:
            raise _not_founder() from None
        return {}

    async def _own_team(self, visit: ProjectVisit, user: User) -> Team:
        team_id = TeamId(visit.needed_number("teamid"))
        team = await visit.read(lambda db: users.team_by_id(db, team_id))
        if team is None:
            raise _no_team(team_id)
        if team.founder_id != user.id and not user.is_operator:
            raise _not_founder()
        return team

    @shows("/team_join.php", methods=POST, own=True)
    async def join(self, visit: ProjectVisit, user: User) -> Response:
        """Join a team."""
        await visit.form()
        visit.need_confirmed_address(user)
        team_id = TeamId(visit.needed_number("teamid"))
        try:
            await visit.write(lambda tx: teams.join(tx, user.id, team_id))
        except NotFound:
            raise _no_team(team_id) from None
        except Conflict:
            raise PageError(409, _("Closed"), _("This team does not accept new members.")) from None
        return visit.go(f"team_display.php?teamid={team_id}")

    @shows("/team_leave.php", methods=POST, own=True)
    async def leave(self, visit: ProjectVisit, user: User) -> Response:
        """Leave the team."""
        await visit.form()
        team_id = user.team_id
        if team_id is None:
            return visit.go("home.php")
        await visit.write(lambda tx: account_changes.leave_team(tx, user.id, team_id))
        return visit.go(f"team_display.php?teamid={team_id}")


def _problems(form: Mapping[str, str]) -> dict[str, str]:
    problems: dict[str, str] = {}
    if problem := name_problem(form.get("name", "").strip()):
        problems["name"] = problem
    url = form.get("url", "").strip()
    if url and not url.startswith(("https://", "http://")):
        problems["url"] = _("A web address must begin with https://")
    for name, most in _LONGEST.items():
        if len(form.get(name, "")) > most:
            problems[name] = _("This is too long.")
    if form["type"] not in map(str, TEAM_TYPES):
        problems["type"] = _("Choose one of the list.")
    return problems


_LONGEST = {"description": MAX_DESCRIPTION, "name_html": MAX_NAME_HTML, "url": 200, "country": 200}


async def _form(visit: ProjectVisit, kind: TeamType) -> dict[str, str]:
    """Return what was posted; a form without a type leaves it as it is."""
    return {"type": f"{kind:d}"} | await visit.form(max_bytes=MAX_FORM_BYTES, long_fields={"description"})


def _profile(form: Mapping[str, str]) -> teams.TeamProfile:
    texts = {name: printable(form.get(name, "")).strip() for name in _LONGEST}
    return teams.TeamProfile(name=form["name"].strip(), type=TeamType(int(form["type"])), **texts)


def _no_team(team_id: int) -> PageError:
    return not_found(_("team %(id)d") % {"id": team_id})


def _not_founder() -> PageError:
    return PageError(403, _("Not allowed"), _("Only the founder of a team can change it."))


MAX_MESSAGE_TITLE = 100
MAX_MESSAGE_TEXT = 3000
# a letter of four bytes takes twelve in a form
MAX_MESSAGE_FORM_BYTES = 12 * (MAX_MESSAGE_TITLE + MAX_MESSAGE_TEXT) + 2000
MESSAGES_SHOWN = 20


class TeamMessagePages(Pages[ProjectSite]):
    """Messages to members."""

    @shows("/team_messages.php", methods=BOTH, own=True)
    async def messages(self, visit: ProjectVisit, user: User) -> Response:
        """Show the messages of the user's team; its founder writes, operators may withdraw."""
        team_id = TeamId(visit.needed_number("teamid"))
        team = await visit.read(lambda db: users.team_by_id(db, team_id))
        if team is None:
            raise _no_team(team_id)
        if user.team_id != team.id and team.founder_id != user.id and not user.is_operator:
            raise PageError(403, _("Private"), _("Only members can read the messages of a team."))
        if visit.request.method != "POST":
            return await self._show(visit, user, team)
        form = await visit.form(max_bytes=MAX_MESSAGE_FORM_BYTES, long_fields={"text"})
        match form.get("action"):
            case "send":
                return await self._send(visit, user, team, form)
            case "withdraw":
                return await self._withdraw(visit, user, team, form.get("id", ""))
            case "wish":
                await visit.write(lambda tx: teams.set_wants_messages(tx, user.id, "team_messages" in form))
            case _:
                raise PageError(400, _("Invalid request"), _("The form asks for an unknown action."))
        return visit.go(f"team_messages.php?teamid={team.id}")

    async def _show(
        self,
        visit: ProjectVisit,
        user: User,
        team: Team,
        *,
        typed: dict[str, str] | None = None,
        problems: dict[str, str] | None = None,
    ) -> Response:
        found, next_time, wanted = await visit.read(
            lambda db: (
                teams.messages_of(db, team.id, limit=MESSAGES_SHOWN),
                teams.next_message_time(db, team.id),
                teams.wants_messages(db, user.id),
            )
        )
        return visit.show(
            "team_messages.html",
            team=team,
            messages=found,
            next_time=next_time,
            wanted=wanted,
            founder=team.founder_id == user.id,
            typed=typed or {},
            problems=problems or {},
        )

    async def _send(self, visit: ProjectVisit, user: User, team: Team, form: dict[str, str]) -> Response:
        title = one_line(printable(form.get("title", ""))).strip()
        text = printable(form.get("text", "")).strip()
        problems: dict[str, str] = {}
        if not 0 < len(title) <= MAX_MESSAGE_TITLE:
            problems["title"] = _("A title must have 1 to %(most)d characters.") % {"most": MAX_MESSAGE_TITLE}
        if not 0 < len(text) <= MAX_MESSAGE_TEXT:
            problems["text"] = _("A message must have 1 to %(most)d characters.") % {"most": MAX_MESSAGE_TEXT}
        if not problems:
            now = visit.ctx.clock()
            try:
                sent = await visit.write(
                    lambda tx: teams.send_message(tx, team.id, user.id, title=title, text=text, now=now)
                )
            except Conflict:
                raise PageError(
                    403, _("Not allowed"), _("Only the founder of a team can write to it.")
                ) from None
            if sent:
                return visit.go(f"team_messages.php?teamid={team.id}")
            next_time = await visit.read(lambda db: teams.next_message_time(db, team.id))
            problems["text"] = _(
                "A team may send one message a day; the next one is possible from %(when)s."
            ) % {"when": moment(next_time)}
        return await self._show(visit, user, team, typed=form, problems=problems)

    async def _withdraw(self, visit: ProjectVisit, user: User, team: Team, number: str) -> Response:
        if team.founder_id != user.id and not user.is_operator:
            raise PageError(403, _("Not allowed"), _("Only the founder of a team can write to it."))
        message_id = whole_number(number)

        def transact(tx: Transaction) -> None:
            before = teams.withdraw_message(tx, team.id, message_id)
            if team.founder_id != user.id:
                text = {"title": before.title, "text": before.text}
                visit.note(tx, "withdraw team message", f"team {team.id}", before=text)

        try:
            await visit.write(transact)
        except NotFound:
            raise not_found(_("message %(id)s") % {"id": message_id}) from None
        return visit.go(f"team_messages.php?teamid={team.id}")
