"""Computing preferences in a word, for people who do not want to set numbers."""

from __future__ import annotations

from collections.abc import Mapping

_ALWAYS: Mapping[str, float | bool] = {
    "work_buf_min_days": 0.1,
    "work_buf_additional_days": 0.5,
    "cpu_scheduling_period_minutes": 60.0,
    "ram_max_used_idle_pct": 90.0,
    "disk_max_used_pct": 90.0,
    "disk_min_free_gb": 1.0,
    "run_if_user_active": True,
}
PRESETS: Mapping[str, Mapping[str, float | bool]] = {
    "standard": {
        **_ALWAYS,
        "max_ncpus_pct": 50.0,
        "run_gpu_if_user_active": False,
        "suspend_cpu_usage": 25.0,
        "ram_max_used_busy_pct": 50.0,
    },
    "low_power": {
        **_ALWAYS,
        "max_ncpus_pct": 25.0,
        "run_gpu_if_user_active": False,
        "suspend_cpu_usage": 25.0,
        "suspend_if_no_recent_input": 10.0,
        "ram_max_used_busy_pct": 50.0,
    },
    "maximum": {
        **_ALWAYS,
        "max_ncpus_pct": 100.0,
        "run_gpu_if_user_active": True,
        "suspend_cpu_usage": 0.0,
        "ram_max_used_busy_pct": 70.0,
    },
}
"""Preferences by the name of the preset; the names and units of the family."""
