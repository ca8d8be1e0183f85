"""Badges: who gets which, from total credit, recent average credit, and rank.

The family's default job gives badges to the best 1, 5 and 25 % by recent average, among those who have more than 1 credit a day;
many projects give them for totals.  Here both, and levels of the recent average, each in levels that a project sets.  Of a kind,
one has the highest level that one reaches, for as long as one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

RANKED_RECENT = 1.0
"""Who has less recent average credit than this (a day) is not counted for ranks."""


class BadgeKind(StrEnum):
    """What a badge is for."""

    TOTAL = "total"
    RECENT = "recent"
    RANK = "rank"


@dataclass(frozen=True, slots=True, order=True)
class Badge:
    """A badge: its level is an amount of credit, credit a day, or the best so many percent."""

    kind: BadgeKind
    level: float

    @property
    def name(self) -> str:
        """A name that stays, for addresses and exports."""
        return f"{self.kind}-{self.level:.15g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadgeRules:
    """The levels of a project."""

    total: tuple[float, ...] = ()
    recent: tuple[float, ...] = ()
    rank_percent: tuple[float, ...] = ()

    @property
    def badges(self) -> tuple[Badge, ...]:
        """All badges, each kind from the lowest to the highest."""
        return (
            *(Badge(BadgeKind.TOTAL, level) for level in sorted(set(self.total))),
            *(Badge(BadgeKind.RECENT, level) for level in sorted(set(self.recent))),
            *(Badge(BadgeKind.RANK, level) for level in sorted(set(self.rank_percent), reverse=True)),
        )


def earned(
    *, total: float, recent: float, rules: BadgeRules, rank_cutoffs: Mapping[float, float]
) -> frozenset[Badge]:
    """Return the badges of somebody: of each kind the highest that is reached.

    ``rank_cutoffs``: by percent, the recent average credit of the last one among the best so many percent.
    """
    highest: dict[BadgeKind, Badge] = {}
    for badge in rules.badges:
        has, needed = recent, badge.level
        if badge.kind is BadgeKind.TOTAL:
            has = total
        elif badge.kind is BadgeKind.RANK:
            needed = max(rank_cutoffs.get(badge.level, float("inf")), RANKED_RECENT)
        if has >= needed:
            highest[badge.kind] = badge
    return frozenset(highest.values())


def n_best(n_ranked: int, percent: float) -> int:
    """Return how many are among the best so many percent: at least one of them, if there is anybody."""
    return min(n_ranked, max(1, int(n_ranked * percent / 100)))
