"""The user's own account and computers: work done, choices, where computers are sent and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from starlette.responses import Response

from cobblestone.account_manager.core.members import Members
from cobblestone.account_manager.model import AccountChoices, ManagedHost, ManagerAccount, Preset
from cobblestone.account_manager.store import accounts, granted, hosts, ledger, projects
from cobblestone.account_manager.web.site import ManagerSite, ManagerVisit, day_bars
from cobblestone.policy.account_manager.accounting import total
from cobblestone.policy.account_manager.selection import PRESETS
from cobblestone.policy.credit.history import day_of
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.fields import parse_number, password_problem, too_many, wrong_password
from cobblestone.service.pages.pages import BOTH, POST, Pages, shows
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.service.rate_limits import TooManyAttempts
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.wire.project.account import WebRpcFailure
from cobblestone.wire.project.pages import WEAK_KEY
from cobblestone.wire.project.preferences import VENUES

DEVICES = {"CPU": "CPU", "NVIDIA": "NVIDIA", "ATI": "AMD", "intel_gpu": "Intel GPU", "apple_gpu": "Apple GPU"}
MAX_SHARE = 1e6
SHOWN_HOSTS = 50
MAX_TEAM_NAME = 254
MAX_FIELDS = 2000
MAX_BYTES = 100_000


class ChoicePages(Pages[ManagerSite]):
    """Pages of the user's own account."""

    def __init__(self, site: ManagerSite, members: Members) -> None:
        super().__init__(site)
        self._members = members

    @shows("/home.php", own=True)
    async def home(self, visit: ManagerVisit, account: ManagerAccount) -> Response:
        """Show what the user's computers did, and where they are sent."""
        today, page = day_of(visit.ctx.clock()), visit.page_number()
        asks = visit.ctx.settings.accounting.policy != "estimate"

        def read(db: Database) -> dict[str, Any]:
            days = ledger.days_of(db, "account", account.id, since_day=today - 29)
            found = hosts.hosts_of(db, account.id, limit=SHOWN_HOSTS + 1, offset=page * SHOWN_HOSTS)
            return {
                "page": page,
                "hosts": found[:SHOWN_HOSTS],
                "more": len(found) > SHOWN_HOSTS,
                "by_host": ledger.of_hosts(db, [each.id for each in found]),
                "at_projects": accounts.project_accounts(db, account.id),
                "counted": ledger.sum_of(db, "account", account.id),
                "standing": granted.standing(db, account.id, now=visit.ctx.clock()) if asks else None,
                "bars": day_bars(days, today=today),
            }

        found = await visit.read(read)
        return visit.show("home.html", account=account, projects=visit.ctx.projects.projects, **found)

    @shows("/choices.php", methods=BOTH, own=True)
    async def choices(self, visit: ManagerVisit, account: ManagerAccount) -> Response:
        """Show the form for choosing interests, or each project by hand."""
        keywords = await visit.read(projects.keywords)
        known = visit.ctx.projects.projects
        problems: dict[str, str] = {}
        if visit.request.method == "POST":
            form = await visit.form(max_fields=MAX_FIELDS, max_bytes=MAX_BYTES)
            choose = partial(
                _chosen,
                form=form,
                keywords=[each.id for each in keywords],
                known=[each.id for each in known],
                problems=problems,
                now=visit.ctx.clock(),
            )
            account = replace(account, choices=choose(account.choices))
            if not problems:
                await visit.write(lambda tx: accounts.change_choices(tx, account.id, choose))
                return visit.go("choices.php?done=1")
        return visit.show_form(
            "choices.html",
            account=account,
            choices=account.choices,
            keywords=keywords,
            projects=known,
            devices=DEVICES,
            presets=_preset_names(),
            venues=venue_names(),
            problems=problems,
        )

    @shows("/sharing.php", methods=BOTH, own=True)
    async def sharing(self, visit: ManagerVisit, account: ManagerAccount) -> Response:
        """Show what projects are told: the consent to statistics sites, and the team."""
        problem, now = "", visit.ctx.clock()
        if visit.request.method == "POST":
            form = await visit.form()
            team = form.get("team_name", "").strip()
            if len(team) > MAX_TEAM_NAME or not team.isprintable():
                problem = _("This is too long, or contains characters that cannot be shown.")
            else:
                said = partial(replace, statistics="statistics" in form, team_name=team)

                def keep(tx: Transaction) -> None:
                    accounts.change_choices(tx, account.id, said)
                    accounts.want_told(tx, account.id, now=now)

                await visit.write(keep)
                return visit.go("sharing.php?done=1")
        return visit.show_form(
            "sharing.html",
            choices=account.choices,
            problem=problem,
            projects=visit.ctx.projects.projects,
            at_projects=await visit.read(lambda db: accounts.project_accounts(db, account.id)),
        )

    @shows("/project_key.php", methods=POST, own=True)
    async def project_key(self, visit: ManagerVisit, account: ManagerAccount) -> Response:
        """Store the weak key of an account that the person made at a project."""
        form = await visit.form()
        number, key = form.get("project_id", ""), form.get("weak_key", "").strip()
        known = {str(each.id): each for each in visit.ctx.projects.projects}
        if number not in known or not WEAK_KEY.fullmatch(key):
            text = _(
                "It consists of a number, an underscore and 32 digits, as shown on your account page at the project."
            )
            raise PageError(422, _("This is not a weak key"), text)
        project, now = known[number], visit.ctx.clock()

        def keep(tx: Transaction) -> None:
            accounts.want_project_accounts(tx, account_id=account.id, now=now)
            accounts.set_own(tx, account.id, project.id, key)

        await visit.write(keep)
        return visit.go("home.php")

    @shows("/account.php", methods=BOTH, own=True)
    async def account(self, visit: ManagerVisit, account: ManagerAccount) -> Response:
        """Change the password, or delete the account."""
        problem = ""
        if visit.request.method == "POST":
            form = await visit.form()
            if form.get("what") == "confirm":
                try:
                    await self._members.ask_for_confirmation(account, address=visit.address)
                except TooManyAttempts as error:
                    raise PageError(429, _("Too many mails"), too_many(error)) from error
                return visit.go("account.php?done=confirm")
            try:
                await self._members.log_in(account.email_addr, form.get("passwd", ""), visit.address)
            except WebRpcFailure:
                problem = wrong_password()
            else:
                if form.get("what") == "erase":
                    await visit.write(lambda tx: accounts.erase_account(tx, account.id))
                    return visit.go("")
                new = form.get("new_passwd", "")
                problem = password_problem(new, visit.ctx.settings.accounts.min_password_length)
                if not problem:
                    await self._members.change_password(account, new)
                    return visit.go("login.php?done=password")
        return visit.show_form("account.html", account=account, problem=problem)


def _chosen(
    before: AccountChoices,
    *,
    form: Mapping[str, str],
    keywords: list[int],
    known: list[int],
    problems: dict[str, str],
    now: float,
) -> AccountChoices:
    """Return the choices in a form; ``problems`` gets the errors."""
    preset, mode = form.get("preset", ""), form.get("mode", "")
    shares: dict[int, float] = {}
    for id_ in known:
        typed = form.get(f"share_{id_}", "").strip()
        value = parse_number(typed) if typed else 0.0
        if value is None or not 0 <= value <= MAX_SHARE:
            problems[f"share_{id_}"] = _("This is not a number.")
        elif value:
            shares[id_] = value
    return replace(
        before,
        mode="classic" if mode == "classic" else "science",
        preset=cast("Preset", preset if preset in PRESETS else "standard"),
        venue_presets={
            venue: cast("Preset", own)
            for venue in VENUES
            if (own := form.get(f"preset_{venue}", "")) in PRESETS
        },
        yes=tuple(id_ for id_ in keywords if form.get(f"keyword_{id_}") == "yes"),
        no=tuple(id_ for id_ in keywords if form.get(f"keyword_{id_}") == "no"),
        kept_out=tuple(id_ for id_ in known if f"out_{id_}" in form),
        kept_out_devices=tuple(
            (id_, device) for id_ in known for device in DEVICES if f"out_{id_}_{device}" in form
        ),
        suspended=tuple(id_ for id_ in known if f"suspend_{id_}" in form),
        shares=shares,
        changed=now,
    )


def venue_names() -> dict[str, str]:
    """Return the displayed names of venues."""
    return {"home": _("At home"), "work": _("At work"), "school": _("At school")}


def _preset_names() -> dict[str, str]:
    return {
        "standard": _("Standard: half of the processors, only while the computer is not in use"),
        "low_power": _("Low power: a quarter of the processors, and only while the computer is not in use"),
        "maximum": _("As much as possible"),
    }


class ComputerPages(Pages[ManagerSite]):
    """Pages of computers, for their owner only."""

    @shows("/computer.php", methods=BOTH, own=True)
    async def computer(self, visit: ManagerVisit, account: ManagerAccount) -> Response:
        """Show one computer, with a form to set its venue or hide it from lists."""
        host_id = visit.needed_number("id")
        host = await visit.read(lambda db: hosts.host_by_id(db, host_id))
        if host is None or host.account_id != account.id:
            raise not_found(_("computer"))
        if visit.request.method == "POST":
            return await self._change(visit, host)

        def read(db: Database) -> dict[str, Any]:
            reports = hosts.host_projects(db, host.id)
            return {
                "reports": reports,
                "held": total(each.record.held for each in reports.values()),
                "disputed": total(each.record.disputed for each in reports.values()),
                "counted": ledger.of_hosts(db, [host.id]).get(host.id),
            }

        found = await visit.read(read)
        names = {project.id: project for project in visit.ctx.projects.projects}
        return visit.show_form("computer.html", host=host, projects=names, venues=venue_names(), **found)

    async def _change(self, visit: ManagerVisit, host: ManagedHost) -> Response:
        form = await visit.form()
        venue = form.get("venue", "")
        if form.get("what") == "hide":
            await visit.write(lambda tx: hosts.set_hidden(tx, host.id, host.account_id))
            return visit.go("home.php")
        if venue in ("", *VENUES):
            await visit.write(lambda tx: hosts.set_venue(tx, host.id, host.account_id, venue))
        return visit.go(f"computer.php?id={host.id}")
