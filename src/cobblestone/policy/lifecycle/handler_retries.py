"""When a project's own function (validator, assimilator) that failed on a job is called again.

Pauses double from a first to a longest one.  After ``max_attempts`` calls the job is parked: it waits until somebody has mended
the function and says so, and no other job waits behind it.
"""

from __future__ import annotations

PARKED_UNTIL = 1e12
"""Unix seconds that no clock reaches: a parked job."""


def next_attempt(
    n_failures: int, *, max_attempts: int, first_pause: float, longest_pause: float, now: float
) -> float:
    """Return when to call the function again (Unix seconds) after it failed ``n_failures`` times, at least once."""
    if n_failures >= max_attempts:
        return PARKED_UNTIL
    return now + min(first_pause * 2.0 ** min(n_failures - 1, 60), longest_pause)
