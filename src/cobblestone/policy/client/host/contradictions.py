"""Preferences that together leave no moment for computing or transfers, whatever the computer does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cobblestone.domain.computing import ComputingPreferences, Hours
from cobblestone.domain.reasons import Reason, reason
from cobblestone.policy.client.host.preferences import GIGABYTE, WEEK_DAYS, day_window, is_within


def contradictions(preferences: ComputingPreferences, *, disk_bytes: float, gpus: bool) -> Iterator[Reason]:
    """Yield what never happens with these preferences, and which of them cause it; ``disk_bytes``: size of the whole disk."""
    begins, ends = preferences.idle_time_to_run, preferences.suspend_if_no_recent_input
    if 0 < ends <= begins:
        switch, what = "", ""
        if not preferences.run_if_user_active:
            switch, what = "run_if_user_active", "Nothing"
        elif not preferences.run_gpu_if_user_active and gpus:
            switch, what = "run_gpu_if_user_active", "No GPU task"
        if switch:
            yield reason(
                "never_idle",
                "{what} is ever computed: with <{switch}> 0 it begins {begins} minutes after the last input (<idle_time_to_run>) "
                "and ends {ends} {ends:minute|minutes} after it (<suspend_if_no_recent_input>). Make the second longer, or 0.",
                what=what,
                switch=switch,
                begins=begins,
                ends=ends,
            )
    if _never(preferences.hours, preferences.day_hours):
        yield reason(
            "never_hours", "Nothing is ever computed: <start_hour> and <end_hour> leave no time on any day."
        )
    if _never(preferences.network_hours, preferences.day_network_hours):
        yield reason(
            "never_network",
            "Nothing is ever transferred: <net_start_hour> and <net_end_hour> leave no time on any day.",
        )
    if 0 < disk_bytes <= GIGABYTE * preferences.disk_min_free_gb:
        yield reason(
            "never_disk",
            "No task can be fetched: <disk_min_free_gb> is {free} GB, but the whole disk has {disk} GB.",
            free=preferences.disk_min_free_gb,
            disk=round(disk_bytes / GIGABYTE, 1),
        )


def _never(general: Hours, days: Mapping[int, Hours]) -> bool:
    windows = [day_window(general, days, weekday) for weekday in range(WEEK_DAYS)]
    return not any(is_within(each, at % 24.0) for each in windows for at in (0.0, each.start))
