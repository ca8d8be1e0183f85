"""Adaptive replication: quorum of one for hosts with a good record, with random spot checks.

A job that could do with one result is replicated with probability ``p = min(1, 10 / W)``, drawn per job,
where W is the number of valid jobs in a row that this host delivered with this app version; one invalid
result sets W to 0.

The bound.  A host that begins to cheat at W has, on average, ``(1 - p) / p = W / 10 - 1`` wrong answers
accepted before the first spot check ends it, and none while W <= 10.  To get there it delivered at least W
right answers, so at most 1/11 (9.1 %) of its answers are wrong, however it chooses the moment and however
often it repeats it.  If W counts only replicated jobs (as it should: nobody checked the others), one more
costs W / 10 jobs, and the share is largest for a host that cheats at W = 24: 4.1 %, less before and after.
Both hold as long as a wrong answer does not find a second one that agrees with it.

Source: the idea is BOINC's adaptive replication, which replicates with probability 1 / W from W = 10 on and
so lets through ``W - 1`` before the first check.
"""

from __future__ import annotations

import random

SPOT_CHECK_FACTOR = 10.0
"""Numerator of the spot-check probability: on average so many jobs of every W are replicated."""


def spot_check_probability(valid_jobs: int) -> float:
    """Probability that the next job of a host with W = ``valid_jobs`` is replicated: min(1, 10 / W)."""
    return 1.0 if valid_jobs <= SPOT_CHECK_FACTOR else SPOT_CHECK_FACTOR / valid_jobs


def must_replicate(valid_jobs: int, rng: random.Random) -> bool:
    """Draw whether the next job of a host with W = ``valid_jobs`` must be replicated."""
    return rng.random() < spot_check_probability(valid_jobs)
