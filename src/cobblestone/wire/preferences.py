"""Global and project preferences: the few numbers that a server decides by, and the text that it hands on.

The verbatim text is kept because other projects and newer clients put elements in it that we do not know.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalPreferences:
    """A ``<global_preferences>`` element; absent numbers are 0, which means "no limit" to the family."""

    text: str = ""  #: the whole element, verbatim
    mod_time: float = 0.0  #: Unix seconds
    work_buf_min_days: float = 0.0
    work_buf_additional_days: float = 0.0
    max_ncpus_pct: float = 0.0
    disk_max_used_gb: float = 0.0
    disk_max_used_pct: float = 0.0
    disk_min_free_gb: float = 0.0
    ram_max_used_busy_pct: float = 0.0
    ram_max_used_idle_pct: float = 0.0
    global_prefs_source_email_hash: str = ""
