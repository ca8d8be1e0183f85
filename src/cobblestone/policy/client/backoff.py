"""Waiting after failures, so that a project in trouble is left in peace.

Source: BOINC's client, ``scheduler_op``, ``work_fetch`` and ``sim_util``.
"""

from __future__ import annotations

import math
import random

RPC_BACKOFF_MIN = 60.0
RPC_BACKOFF_MAX = 4 * 3600.0
FAILING_JOBS = 10
FAILING_MIN = 30.0
FAILING_MAX = 3600.0
TYPE_BACKOFF_MIN = 600.0
TYPE_BACKOFF_MAX = 86400.0


def rpc_backoff_2007(failures: int, *, rng: random.Random) -> float:
    """Return seconds to wait after ``failures`` contacts in a row without success (published family)."""
    top = min(RPC_BACKOFF_MAX, math.exp(min(failures, 20)))
    if top <= RPC_BACKOFF_MIN:
        return RPC_BACKOFF_MIN
    return rng.random() * (top - RPC_BACKOFF_MIN) + RPC_BACKOFF_MIN


def rpc_backoff(failures: int, *, rng: random.Random) -> float:
    """Return seconds to wait after ``failures`` (from 0) failed contacts in a row (today's clients)."""
    top = min(RPC_BACKOFF_MIN * 2.0 ** min(failures, 10), RPC_BACKOFF_MAX)
    return top * (0.5 + 0.5 * rng.random())


def failing_jobs_wait(failed: int) -> float:
    """Return seconds to leave a project alone after ``failed`` of its jobs have failed in a row: a minute after the eleventh,
    doubling to an hour.
    """
    return (
        min(FAILING_MAX, FAILING_MIN * 2.0 ** min(failed - FAILING_JOBS, 10))
        if failed > FAILING_JOBS
        else 0.0
    )


def next_type_backoff(interval: float) -> float:
    """Return the next backoff interval of a resource type that was asked for and not supplied."""
    return TYPE_BACKOFF_MIN if interval <= 0 else min(TYPE_BACKOFF_MAX, 2.0 * interval)


def type_backoff_delay(interval: float, *, rng: random.Random) -> float:
    """Return the seconds to wait for one backoff interval: uniform between half of it and one and a half."""
    return interval * (0.5 + rng.random())
