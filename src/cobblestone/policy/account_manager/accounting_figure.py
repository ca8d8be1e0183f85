"""The figure that a person sees: what projects confirmed, and a bounded part of what they have not confirmed yet.

    allowance   = max(starter, KAPPA x final)
    provisional = allowance x pending / (pending + allowance)
    target      = final + provisional

``final`` is what projects granted; ``pending`` what clients claim beyond it.  The provisional part grows with every claim,
ever more slowly, and never beyond the allowance; so whatever clients claim, however many accounts they have,

    sum of shown <= (1 + HOLD) x ((1 + KAPPA) x sum of final + starters)

and the starters of all accounts that came from one address block add up to `STARTER_POOL` at most.  The figure follows its
target within hours, so that an answer of a project is no jump.  A target that falls is not followed down: growth is withheld
until it has caught up; only what is more than `HOLD` above it is taken back, which for a fall of the provisional part alone is at
most 1 - (1 + HOLD) / (1 + KAPPA), or 2.9 %.

All functions are pure; times are Unix seconds, credit in Cobblestones.  See docs/accounting.md for the proofs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, exp2

DAY = 86400.0
KAPPA = 0.05
"""The provisional part is at most this part of what was confirmed."""
HOLD = 0.02
"""The figure stays at most this much above its target."""
STARTER_POOL = 20.0
"""What accounts of one address block are shown together before anything is confirmed: what a GFLOPS does in 2.4 hours."""
RISE_SECONDS = DAY / 2
"""Time in which the figure closes all but 1/e of the gap to a target above it."""
SINK_SECONDS = 30 * DAY
"""Half-life of what is held above the target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What somebody was shown, and when."""

    shown: float = 0.0
    time: float = 0.0
    starter: float = 0.0  #: the allowance before anything is confirmed, given once, see `starter_of_new`


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the figure goes."""

    final: float
    provisional: float
    waiting: float  #: claimed, and beyond the allowance: shown beside the figure, not in it

    @property
    def whole(self) -> float:
        """The figure when it has arrived."""
        return self.final + self.provisional


def target_of(final: float, pending: float, *, starter: float) -> Target:
    """Return the target for what was confirmed and what is pending; neither may be negative."""
    allowance = max(starter, KAPPA * final)
    provisional = allowance * (pending / (pending + allowance)) if pending > 0 and allowance > 0 else 0.0
    return Target(final=final, provisional=provisional, waiting=max(0.0, pending - provisional))


def shown_at(figure: Figure, target: Target, now: float) -> float:
    """Return what is shown now; a clock that went back shows what was shown last."""
    elapsed = max(0.0, now - figure.time)
    gap = target.whole - figure.shown
    if gap >= 0:
        return figure.shown + gap * (1.0 - exp(-elapsed / RISE_SECONDS))
    held = min(-gap, HOLD * target.whole)
    return target.whole + held * exp2(-elapsed / SINK_SECONDS)


def follow(figure: Figure, before: Target, after: Target, now: float) -> Figure:
    """Return the figure now that its target has changed: it followed the one before until this moment.

    What it is more than `HOLD` above the new one is taken back at once.
    """
    shown = min(shown_at(figure, before, now), (1.0 + HOLD) * max(after.whole, 0.0))
    return Figure(shown=shown, time=max(now, figure.time), starter=figure.starter)


def starter_of_new(outstanding: float) -> float:
    """Return the starter of a new account, from the starters that accounts of its address block have: half of what is left."""
    return max(0.0, STARTER_POOL - outstanding) / 2
