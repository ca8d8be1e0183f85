"""Adaptive replication: quorum of one for hosts with a good record, with random spot checks.

A job that could do with one result is replicated with probability ``p = min(1, 10 / W)``, drawn per job,
where W is the number of valid jobs in a row that this host delivered with this app version *under
replication*; one invalid result sets W to 0.

The bound: a host that begins to cheat at W has, on average, ``(1 - p) / p = W / 10 - 1`` wrong answers
accepted before the first spot check ends it, and none while W <= 10.  To get to W it had to deliver about
``W**2 / 20`` right answers (growing W by one takes W / 10 jobs, since only replicated ones count).  The share
of wrong answers is therefore largest for a host that cheats at W = 24 again and again: 4.1 % of its answers,
less for any other W.  It goes to zero for hosts that wait longer.  It holds if a wrong answer never finds a
second one that agrees with it.

Source: the idea is BOINC's adaptive replication, which replicates with probability 1 / W from W = 10 on and
so lets through nine to ten times as many (``W - 1`` before the first check).
"""

from __future__ import annotations

import math
import random

SPOT_CHECK_FACTOR = 10.0
"""Numerator of the spot-check probability: on average so many jobs of every W are replicated."""


def spot_check_probability(valid_jobs: int) -> float:
    """Probability that a job of a host with ``valid_jobs`` valid jobs in a row is replicated: min(1, 10 / W)."""
    return 1.0 if valid_jobs <= SPOT_CHECK_FACTOR else SPOT_CHECK_FACTOR / valid_jobs


def must_replicate(valid_jobs: int, rng: random.Random) -> bool:
    """Draw whether a job of a host with ``valid_jobs`` valid jobs in a row must be replicated."""
    return rng.random() < spot_check_probability(valid_jobs)


def expected_wrong_accepted(valid_jobs: int) -> float:
    """Mean number of wrong answers accepted from a host that cheats from ``valid_jobs`` on until it is caught."""
    p = spot_check_probability(valid_jobs)
    return (1.0 - p) / p


def largest_wrong_share() -> float:
    """Upper bound of the share of wrong answers among all answers of a host, for the best moment to cheat.

    With x = W / 10, a cycle has 10 + 5 (x**2 - 1) right answers and x - 1 wrong ones; the share of wrong per
    right is largest at x = 1 + sqrt(2).
    """
    x = 1.0 + math.sqrt(2.0)
    wrong = x - 1.0
    right = SPOT_CHECK_FACTOR + SPOT_CHECK_FACTOR / 2 * (x * x - 1.0)
    return wrong / (right + wrong)
