"""Bounds that docstrings of the policy state, as functions that tests measure the code by."""

from __future__ import annotations

from cobblestone.policy.credit.steady import CLIP, PRIOR_VOTES, STEADY_RULE
from cobblestone.policy.dispatch.limits import halvings


def largest_step(votes: int) -> float:
    """The share by which the next vote can move the mean of a version that holds ``votes``, beginning included."""
    n = max(votes, PRIOR_VOTES) + 1
    return CLIP * (1.0 / n if n < STEADY_RULE.threshold else STEADY_RULE.weight)


def wasted_at_most(*, initial: int, processors: int, daily_quota: int, days: int) -> int:
    """Jobs of one app version that a host can waste in so many days that never returns a good one.

    What a new host may hold; as many more as bring the quota down; and the single jobs after pauses of 1, 2, 4 and
    every 8 days.  (A host's day may begin just after its first request: one more.)
    """
    singles = sum(1 for day in range(1, days + 1) if day in (1, 3, 7) or (day > 7 and (day - 7) % 8 == 0))
    return max(initial, 1) * max(processors, 1) + halvings(daily_quota) + singles + 1
