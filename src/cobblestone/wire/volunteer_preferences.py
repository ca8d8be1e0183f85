"""Preferences that volunteers choose on a project's pages, in the family's elements, with venues.

Both kinds are a set for everywhere and, for some venues, a set of their own in ``<venue name="home">``.  A client that is told a
venue takes that venue's set whole, and the one for everywhere only when there is none.  Elements that we do not know are kept
as they are: another program may have put them there.

Source: BOINC's ``lib/prefs.cpp`` and the project preferences that its scheduler reads (names, units and defaults: facts).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from cobblestone.wire.xml_reader import unescape
from cobblestone.wire.xml_writer import escape, scalar

VENUES = ("home", "work", "school")
MAX_APPS = 200
MAX_KEPT = 40

Number = float | bool
T = TypeVar("T")

_VENUE = re.compile(r'<venue\s+name="([a-z]{1,20})"\s*>(.*?)</venue>', re.DOTALL)
_LEAF = re.compile(r"<([a-z_][a-z0-9_]{0,63})>([^<>]*)</\1>|<([a-z_][a-z0-9_]{0,63})\s*/>")


@dataclass(frozen=True, slots=True)
class Field:
    """One number or switch of the computing preferences."""

    name: str
    default: Number
    low: float = 0.0
    high: float = 1.0

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return isinstance(self.default, bool)


COMPUTING_FIELDS: tuple[Field, ...] = (
    Field("run_on_batteries", False),
    Field("run_if_user_active", True),
    Field("run_gpu_if_user_active", False),
    Field("idle_time_to_run", 3.0, 0.0, 10_000.0),  # minutes
    Field("suspend_if_no_recent_input", 0.0, 0.0, 10_000.0),  # minutes; 0: never
    Field("suspend_cpu_usage", 25.0, 0.0, 100.0),  # per cent; 0: never
    Field("start_hour", 0.0, 0.0, 24.0),  # equal to end_hour: always
    Field("end_hour", 0.0, 0.0, 24.0),
    Field("max_ncpus_pct", 100.0, 1.0, 100.0),
    Field("cpu_usage_limit", 100.0, 1.0, 100.0),
    Field("cpu_scheduling_period_minutes", 60.0, 1.0, 10_000.0),
    Field("disk_interval", 60.0, 0.0, 100_000.0),  # seconds between checkpoints
    Field("leave_apps_in_memory", False),
    Field("work_buf_min_days", 0.1, 0.0, 10.0),
    Field("work_buf_additional_days", 0.5, 0.0, 10.0),
    Field("disk_max_used_gb", 0.0, 0.0, 1e6),  # 0: no limit
    Field("disk_min_free_gb", 1.0, 0.0, 1e6),
    Field("disk_max_used_pct", 90.0, 0.0, 100.0),
    Field("ram_max_used_busy_pct", 50.0, 1.0, 100.0),
    Field("ram_max_used_idle_pct", 90.0, 1.0, 100.0),
    Field("vm_max_used_pct", 75.0, 1.0, 100.0),
    Field("max_bytes_sec_up", 0.0, 0.0, 1e12),  # 0: no limit
    Field("max_bytes_sec_down", 0.0, 0.0, 1e12),
    Field("daily_xfer_limit_mb", 0.0, 0.0, 1e9),
    Field("daily_xfer_period_days", 0.0, 0.0, 10_000.0),
    Field("net_start_hour", 0.0, 0.0, 24.0),
    Field("net_end_hour", 0.0, 0.0, 24.0),
    Field("network_wifi_only", False),
)
_BY_NAME = {item.name: item for item in COMPUTING_FIELDS}
_NOT_KEPT = frozenset(
    ("mod_time", "source_project", "source_scheduler", "modified", "global_prefs_source_email_hash")
)


@dataclass(frozen=True, slots=True)
class ComputingSet:
    """Computing preferences of one place."""

    values: Mapping[str, Number]
    kept: Mapping[str, str] = field(default_factory=dict[str, str])  #: elements that we do not know


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSet:
    """Project preferences of one place."""

    resource_share: float = 100.0
    app_ids: frozenset[int] = frozenset()  #: empty: all
    allow_non_preferred_apps: bool = True
    allow_beta_work: bool = False
    no_cpu: bool = False
    no_cuda: bool = False
    no_ati: bool = False
    no_intel_gpu: bool = False
    max_jobs: int = 0  #: 0: no limit
    max_cpus: int = 0
    kept: Mapping[str, str] = field(default_factory=dict[str, str])


DEFAULT_COMPUTING = ComputingSet({item.name: item.default for item in COMPUTING_FIELDS})
MAX_SHARE = 1e6
MAX_LIMIT = 1_000_000


# -- reading --------------------------------------------------------------------------------------------


def read_computing(text: str) -> dict[str, ComputingSet]:
    """Return sets by venue; the empty name is the one for everywhere.  What is no number counts as not given."""
    return _by_venue(text, _computing_set)


def read_project(text: str) -> dict[str, ProjectSet]:
    """As `read_computing`, of a ``<project_preferences>`` element."""
    return _by_venue(text, _project_set)


def _by_venue(text: str, read: Callable[[str], T]) -> dict[str, T]:
    found = {"": read(_VENUE.sub("", text))}
    for name, content in _VENUE.findall(text):
        if name in VENUES and name not in found:
            found[name] = read(content)
    return found


def _leaves(content: str) -> list[tuple[str, str]]:
    return [(name or flag, unescape(value) if name else "1") for name, value, flag in _LEAF.findall(content)]


def _computing_set(content: str) -> ComputingSet:
    values = dict(DEFAULT_COMPUTING.values)
    kept: dict[str, str] = {}
    for name, text in _leaves(content):
        known = _BY_NAME.get(name)
        if known is not None:
            value = _number(text, known.low, known.high)
            if value is not None:
                values[name] = value != 0 if known.is_switch else value
        elif name not in _NOT_KEPT and len(kept) < MAX_KEPT:
            kept[name] = text
    return ComputingSet(values, kept)


def _project_set(content: str) -> ProjectSet:
    app_ids: set[int] = set()
    numbers: dict[str, float] = {}
    kept: dict[str, str] = {}
    for name, text in _leaves(content):
        if name == "app_id":
            value = _number(text, 1, 2**53)
            if value is not None and len(app_ids) < MAX_APPS:
                app_ids.add(int(value))
        elif name in _PROJECT_LIMITS:
            value = _number(text, 0, _PROJECT_LIMITS[name])
            if value is not None:
                numbers[name] = value
        elif name not in _NOT_KEPT and name != "no_rsc" and len(kept) < MAX_KEPT:
            kept[name] = text
    return ProjectSet(
        resource_share=numbers.get("resource_share", 100.0),
        app_ids=frozenset(app_ids),
        allow_non_preferred_apps=numbers.get("allow_non_preferred_apps", 1) != 0,
        allow_beta_work=numbers.get("allow_beta_work", 0) != 0,
        no_cpu=numbers.get("no_cpu", 0) != 0,
        no_cuda=numbers.get("no_cuda", 0) != 0,
        no_ati=numbers.get("no_ati", 0) != 0,
        no_intel_gpu=numbers.get("no_intel_gpu", 0) != 0,
        max_jobs=int(numbers.get("max_jobs", 0)),
        max_cpus=int(numbers.get("max_cpus", 0)),
        kept=kept,
    )


_PROJECT_LIMITS: Mapping[str, float] = {
    "resource_share": MAX_SHARE,
    "allow_non_preferred_apps": 1e9,
    "allow_beta_work": 1e9,
    "no_cpu": 1e9,
    "no_cuda": 1e9,
    "no_ati": 1e9,
    "no_intel_gpu": 1e9,
    "max_jobs": MAX_LIMIT,
    "max_cpus": MAX_LIMIT,
}


def _number(text: str, low: float, high: float) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return min(max(value, low), high) if math.isfinite(value) else None


# -- writing --------------------------------------------------------------------------------------------


def write_computing(sets: Mapping[str, ComputingSet], *, source_project: str, mod_time: float) -> str:
    """Return a ``<global_preferences>`` element; ``mod_time`` (Unix seconds) decides which of two projects' is newer."""
    head = scalar("source_project", source_project) + f"<mod_time>{mod_time:.6f}</mod_time>\n"
    return f"<global_preferences>\n{head}{_write_sets(sets, _computing_text)}</global_preferences>"


def write_project(sets: Mapping[str, ProjectSet]) -> str:
    """Return a ``<project_preferences>`` element."""
    return f"<project_preferences>\n{_write_sets(sets, _project_text)}</project_preferences>"


def _write_sets(sets: Mapping[str, T], write: Callable[[T], str]) -> str:
    venues = "".join(
        f'<venue name="{name}">\n{write(sets[name])}</venue>\n' for name in VENUES if name in sets
    )
    return (write(sets[""]) if "" in sets else "") + venues


def _computing_text(item: ComputingSet) -> str:
    values = "".join(scalar(known.name, item.values[known.name]) for known in COMPUTING_FIELDS)
    return values + _kept_text(item.kept)


def _project_text(item: ProjectSet) -> str:
    types = ("no_cpu", "no_cuda", "no_ati", "no_intel_gpu")
    refused = "".join(scalar(name, True) for name in types if getattr(item, name))
    if item.no_intel_gpu:
        refused += scalar(
            "no_rsc", "intel_gpu"
        )  # how clients are told of types that have no element of their own
    specific = "".join(scalar("app_id", app_id) for app_id in sorted(item.app_ids))
    specific += scalar("allow_non_preferred_apps", item.allow_non_preferred_apps)
    specific += scalar("max_jobs", item.max_jobs) if item.max_jobs else ""
    specific += scalar("max_cpus", item.max_cpus) if item.max_cpus else ""
    return (
        f"{scalar('resource_share', item.resource_share)}{refused}{scalar('allow_beta_work', item.allow_beta_work)}"
        f"<project_specific>\n{specific}{_kept_text(item.kept)}</project_specific>\n"
    )


def _kept_text(kept: Mapping[str, str]) -> str:
    return "".join(f"<{name}>{escape(text)}</{name}>\n" for name, text in kept.items())
