"""Credit of a volunteer, computer or team: history, chart of a month, ranks in the top lists, badges."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cobblestone.domain.hosts import Host
from cobblestone.domain.people import Team, User
from cobblestone.domain.statistics import Contribution, CreditStatement
from cobblestone.domain.values import DAY
from cobblestone.policy.credit import history
from cobblestone.server.core.context import ServerContext
from cobblestone.server.web.presentation.plots import CreditPlot
from cobblestone.service.languages import gettext as _
from cobblestone.service.languages import ngettext
from cobblestone.service.pages.wording import number
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.contributions import contributions
from cobblestone.store.credit.history import CreditOwner, credit_periods, ledger_marks, milestones_of
from cobblestone.store.credit.ledger_state import provisional_credit
from cobblestone.store.engine.database import Database
from cobblestone.store.operation.ranking import Order, OwnBadge, RankPlace, badges_of, place

MAX_DAYS = 366


async def days_until_today(
    ctx: ServerContext, owner: CreditOwner, *, created: float, n_days: int
) -> list[history.CreditDay]:
    """Return the last ``n_days`` days, with today, of an owner that exists since ``created`` (Unix seconds)."""
    now = ctx.clock()
    first_day = history.day_of(now) - n_days + 1

    def read(db: Database) -> list[history.CreditDay]:
        marks = ledger_marks(db, owner, since=(first_day - history.WARM_UP_DAYS) * DAY)
        if marks is None:
            return history.last_days(credit_periods(db, owner), first_day=first_day, now=now)
        return history.credit_history(marks, created=created, first_day=first_day, now=now)

    return await ctx.store.aread(read)


def write_csv(days: Sequence[history.CreditDay]) -> bytes:
    """Return a line per day: date (UTC), credit, tasks, recent average at its end."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(("day", "credit", "tasks", "recent_average"))
    for item in days:
        lines.writerow((date_of(item.day), f"{item.granted:.6f}", item.n_results, f"{item.average:.6f}"))
    return text.getvalue().encode()


def date_of(day: int) -> str:
    """Return a day (days since 1970, UTC) as 2026-11-22."""
    return datetime.fromtimestamp(day * DAY, UTC).strftime("%Y-%m-%d")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditStanding:
    """The credit shown on the page of a volunteer, computer or team."""

    plot: CreditPlot | None  #: None: there is nothing to show
    recent: RankPlace | None  #: None: without credit there is no place
    total: RankPlace | None
    badges: list[OwnBadge]
    given: dict[Contribution, CreditStatement]  #: beside computing
    provisional: float = 0.0  #: of the total: not final before the computers pass a check
    left_out: float = 0.0  #: of the total: what is not shown


def read_standing(
    db: Database, *, ctx: ServerContext, owner: CreditOwner, plot: CreditPlot | None
) -> CreditStanding:
    """Read ranks and badges."""
    kind = Owner(owner.kind)
    found = {} if kind is Owner.TEAM else provisional_credit(db, owner.kind, [owner.id])
    provisional = found.get(owner.id, 0.0)
    return CreditStanding(
        plot=plot,
        recent=place(db, kind, Order.RECENT, owner.id, ctx.costly.get),
        total=place(db, kind, Order.TOTAL, owner.id, ctx.costly.get),
        badges=badges_of(db, kind, [owner.id]).get(owner.id, []),
        given=contributions(db, kind, owner.id),
        provisional=provisional,
        left_out=0.0 if ctx.settings.credit.show_provisional else provisional,
    )


def milestones(db: Database, kind: Owner, owner: User | Host | Team, *, now: float) -> list[history.Reached]:
    """Return what an owner of credit has reached, newest first."""
    reached = milestones_of(db, kind, owner.id)
    return history.shown(reached, total=owner.credit.total, created=owner.create_time, now=now)


def badge_title(badge: history.Badge) -> str:
    """Return what a badge is for."""
    level = number(badge.level, 0 if badge.level == int(badge.level) else 1)
    match badge.kind:
        case history.BadgeKind.TOTAL:
            return _("%(amount)s credit in total") % {"amount": level}
        case history.BadgeKind.RECENT:
            return _("%(amount)s credit per day") % {"amount": level}
        case history.BadgeKind.RANK:
            return _("Among the best %(percent)s %%") % {"percent": level}


def milestone_title(reached: history.Reached) -> str:
    """Return what was reached."""
    if reached.years:
        return ngettext("%(count)d year", "%(count)d years", reached.years) % {"count": reached.years}
    if reached.credit:
        return _("%(amount)s credit") % {"amount": number(reached.credit)}
    return _("the first valid task")
