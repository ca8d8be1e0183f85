"""CPU throttle: computing only a part of the time, second by second.

Source: BOINC's ``cpu_usage_limit``: a level rises by the limit each second; at 100 % the jobs run for that
second and the level falls by 100 %, below it they stop.
"""

from __future__ import annotations

FULL = 100.0


def throttle_second(level: float, *, limit_percent: float) -> tuple[bool, float]:
    """Return whether jobs run during the next second, and the level after it.

    ``limit_percent`` is the wanted part of the time, 0 to 100; start with a level of 0.  Over ``n`` seconds the
    jobs run for ``n * limit_percent / 100``, rounded down.
    """
    limit = min(FULL, max(0.0, limit_percent))
    level += limit
    if level >= FULL:
        return True, level - FULL
    return False, level
