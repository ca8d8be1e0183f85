"""How an owner of credit stands: the drawing of a month, places in the top lists, badges."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.contributions import Contribution
from cobblestone.domain.statistics import CreditStatement
from cobblestone.policy.credit.badges import Badge, BadgeKind
from cobblestone.policy.credit.milestones import Reached
from cobblestone.server.web.credit_plot import CreditPlot
from cobblestone.service.languages import gettext as _
from cobblestone.service.languages import ngettext
from cobblestone.service.pages.wording import number
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.badges import OwnBadge, badges_of
from cobblestone.store.credit.contributions import contributions
from cobblestone.store.credit.credit_history import CreditOwner
from cobblestone.store.engine.database import Database
from cobblestone.store.operation.ranking import Order, Place, place


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the page of a volunteer, computer or team shows of its credit."""

    plot: CreditPlot | None  #: None: there is nothing to show
    recent: Place | None  #: None: without credit there is no place
    total: Place | None
    badges: list[OwnBadge]
    given: dict[Contribution, CreditStatement]  #: beside computing


def read_standing(db: Database, *, owner: CreditOwner, plot: CreditPlot | None) -> Standing:
    """Read places and badges."""
    kind = Owner(owner.kind)
    return Standing(
        plot=plot,
        recent=place(db, kind, Order.RECENT, owner.id),
        total=place(db, kind, Order.TOTAL, owner.id),
        badges=badges_of(db, kind, [owner.id]).get(owner.id, []),
        given=contributions(db, kind, owner.id),
    )


def badge_title(badge: Badge) -> str:
    """Say what a badge is for."""
    level = number(badge.level, 0 if badge.level == int(badge.level) else 1)
    match badge.kind:
        case BadgeKind.TOTAL:
            return _("%(amount)s credit in total") % {"amount": level}
        case BadgeKind.RECENT:
            return _("%(amount)s credit a day") % {"amount": level}
        case BadgeKind.RANK:
            return _("Among the best %(percent)s %%") % {"percent": level}


def milestone_title(reached: Reached) -> str:
    """Say what was reached."""
    if reached.years:
        return ngettext("%(count)d year", "%(count)d years", reached.years) % {"count": reached.years}
    if reached.credit:
        return _("%(amount)s credit") % {"amount": number(reached.credit)}
    return _("the first valid task")
