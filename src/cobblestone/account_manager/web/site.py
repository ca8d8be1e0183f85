"""Common parts of all pages of an account manager, with bar charts of daily sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request

from cobblestone.account_manager.core.context import ManagerContext
from cobblestone.account_manager.model import ManagerAccount
from cobblestone.account_manager.store import accounts
from cobblestone.account_manager.store.ledger import DayOf
from cobblestone.domain.values import DAY
from cobblestone.service.pages import site as pages
from cobblestone.service.pages.wording import day


class ManagerSite(pages.Site[ManagerAccount, "ManagerVisit"]):
    """Renders the pages of one account manager."""

    max_page = 20_000  # of computers, of which an account may have a million

    def __init__(self, ctx: ManagerContext) -> None:
        self.ctx = ctx
        super().__init__(
            ctx,
            package="cobblestone.account_manager.web",
            find_account=lambda id_, key: ctx.store.aread(
                lambda db: accounts.account_of_session(db, id_, key)
            ),
            values={
                "site_name": ctx.settings.manager.name,
                "manager": ctx.settings.manager,
                "accounts": ctx.settings.accounts,
            },
        )

    def visit(self, request: Request) -> ManagerVisit:
        """Start a visit."""
        return ManagerVisit(self, request)


class ManagerVisit(pages.VisitOfRows[ManagerAccount, ManagerSite]):
    """One request for a page of an account manager."""

    @property
    def ctx(self) -> ManagerContext:
        """Return the account manager."""
        return self.site.ctx


DAYS = 30
WIDTH, HEIGHT, TOP, BOTTOM = 420.0, 150.0, 8.0, 132.0


@dataclass(frozen=True, slots=True)
class DayBar:
    """What was counted on a day, drawn in ``WIDTH`` x ``HEIGHT`` units."""

    date: str
    credit: float
    jobs: float
    x: float
    y: float
    width: float
    height: float


def day_bars(days: Sequence[DayOf], *, today: int) -> tuple[DayBar, ...]:
    """Draw the last month, ending today; nothing if nothing was counted."""
    by_day = {each.day: each.amounts for each in days}
    most = max((each.amounts.credit for each in days), default=0.0)
    if most <= 0:
        return ()
    step = WIDTH / DAYS
    bars: list[DayBar] = []
    for place, number in enumerate(range(today - DAYS + 1, today + 1)):
        amounts = by_day.get(number)
        credit = amounts.credit if amounts else 0.0
        height = (BOTTOM - TOP) * credit / most
        bars.append(
            DayBar(
                date=day(number * DAY),
                credit=credit,
                jobs=amounts.njobs_success + amounts.njobs_error if amounts else 0.0,
                x=round(place * step + step * 0.15, 1),
                y=round(BOTTOM - height, 1),
                width=round(step * 0.7, 1),
                height=round(height, 1),
            )
        )
    return tuple(bars)
