"""Parts of the day in which something is allowed, for each day of the week."""

from __future__ import annotations

from collections.abc import Mapping

from cobblestone.domain.computing import Hours

DAY_HOURS = 24.0
WEEK_DAYS = 7


def day_window(general: Hours, days: Mapping[int, Hours], weekday: int) -> Hours:
    """Return the hours of one day."""
    return days.get(weekday % WEEK_DAYS, general)


def is_within(hours: Hours, hour: float) -> bool:
    """Whether a time of day is in them."""
    start, end = hours
    if start == end:
        return True
    return start <= hour < end if start < end else hour >= start or hour < end


def next_change(general: Hours, days: Mapping[int, Hours], weekday: int, hour: float) -> float | None:
    """In how many hours the answer changes; None: never."""
    now = is_within(day_window(general, days, weekday), hour)
    for day in range(WEEK_DAYS + 2):
        window = day_window(general, days, weekday + day)
        for at in sorted({0.0, *(each % DAY_HOURS for each in window)}):
            ahead = day * DAY_HOURS + at - hour
            if ahead > 0 and is_within(window, at) != now:
                return ahead
    return None


def clock_time(hour: float) -> str:
    """Return a time of day as people write it."""
    minutes = round(hour * 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
