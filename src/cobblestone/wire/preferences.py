"""Global and project preferences: the few numbers that a server decides by, and the text that it hands on.

The verbatim text is kept because other projects and newer clients put elements in it that we do not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.domain.ids import AppId
from cobblestone.domain.people import ProjectPreferences
from cobblestone.domain.values import value
from cobblestone.wire.free_text import read_verbatim
from cobblestone.wire.lenience import Lenience
from cobblestone.wire.xml_reader import FieldReader
from cobblestone.wire.xml_writer import scalar


@value(kw_only=True)
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


_NUMBERS = {
    "mod_time": 1e11,
    "work_buf_min_days": 1000.0,
    "work_buf_additional_days": 1000.0,
    "max_ncpus_pct": 100.0,
    "disk_max_used_gb": 1e9,
    "disk_max_used_pct": 100.0,
    "disk_min_free_gb": 1e9,
    "ram_max_used_busy_pct": 100.0,
    "ram_max_used_idle_pct": 100.0,
}
MAX_CACHED = 4096
VENUES = ("home", "work", "school")
_WANTED = re.compile(rf"<({'|'.join((*_NUMBERS, 'global_prefs_source_email_hash'))})>([^<]*)</")


def read_global_preferences(content: str, notes: list[Lenience]) -> GlobalPreferences:
    """Read the content of a ``<working_global_preferences>`` or ``<global_preferences>`` element.

    Sections for single venues are kept in the text, but the numbers are those outside of them.
    """
    read = _read_cached if len(content) <= MAX_CACHED else _read
    preferences, found = read(content)
    notes += found
    return preferences


def _read(content: str) -> tuple[GlobalPreferences, tuple[Lenience, ...]]:
    notes: list[Lenience] = []
    text = read_verbatim(content, "global_preferences", notes)
    if not text.startswith("<global_preferences>"):
        text = f"<global_preferences>\n{text}\n</global_preferences>"
    venues, end_of_venues = text.find("<venue"), text.rfind("</venue>")
    main = text[:venues] + text[end_of_venues:] if 0 <= venues < end_of_venues else text
    reader = FieldReader(dict(_WANTED.findall(main)), "global_preferences", notes)
    preferences = GlobalPreferences(
        text=text,
        global_prefs_source_email_hash=reader.text("global_prefs_source_email_hash", 64),
        **{name: reader.number(name, high=high) for name, high in _NUMBERS.items()},
    )
    return preferences, tuple(notes)


# A client sends the same preferences in every request, and most volunteers keep those that they found.
_read_cached = lru_cache(maxsize=1024)(_read)


GPU_FLAGS = {"no_cuda": "NVIDIA", "no_ati": "ATI", "no_intel_gpu": "intel_gpu", "no_apple_gpu": "apple_gpu"}
"""Elements of project preferences that exclude a type of GPU."""

_PROJECT_TAG = re.compile(
    rf"<(app_id|allow_non_preferred_apps|allow_beta_work|no_cpu|no_gpus|max_jobs|max_cpus|resource_share|"
    rf"{'|'.join(GPU_FLAGS)})(?:/>|>\s*([^<]*?)\s*</\1>)"
)
_VENUE = re.compile(r'<venue\s+name="([^"]*)"\s*>(.*?)</venue>', re.DOTALL)
MAX_SELECTED_APPS = 1000
MAX_JOBS = 1_000_000


def read_project_preferences(text: str, venue: str = "") -> ProjectPreferences:
    """Read ``<project_preferences>`` for one venue (``home``, ``work``, ``school``, or empty: the general ones).

    A venue without a section of its own has the general ones.  Values that cannot be read count as absent, so that
    preferences are never a reason to refuse a request.
    """
    return _read_project_cached(text, venue) if text else _NO_PREFERENCES


def _read_project(text: str, venue: str) -> ProjectPreferences:
    sections = dict(_VENUE.findall(text))
    chosen = sections.get(venue) if venue else None
    found = _PROJECT_TAG.findall(_VENUE.sub("", text) if chosen is None else chosen)
    values = dict(found)
    no_gpu_types = {gpu for flag, gpu in GPU_FLAGS.items() if _is_set(values.get(flag, "0"))}
    if _is_set(values.get("no_gpus", "0")):
        no_gpu_types |= set(GPU_FLAGS.values())
    apps = {_whole(value, 2**31) for name, value in found[:MAX_SELECTED_APPS] if name == "app_id"}
    return ProjectPreferences(
        selected_apps=frozenset(AppId(number) for number in apps if number),
        allow_non_preferred=_is_set(values.get("allow_non_preferred_apps", "0")),
        allow_beta=_is_set(values.get("allow_beta_work", "0")),
        no_cpu=_is_set(values.get("no_cpu", "0")),
        no_gpu_types=frozenset(no_gpu_types),
        max_jobs=_whole(values.get("max_jobs", ""), MAX_JOBS),
        max_cpus=_whole(values.get("max_cpus", ""), MAX_JOBS),
        resource_share=_share(values.get("resource_share", "100")),
    )


_read_project_cached = lru_cache(maxsize=4096)(_read_project)
_NO_PREFERENCES = ProjectPreferences()


def _is_set(value: str) -> bool:
    """Return whether a flag is set: by an empty element, and by any number but 0."""
    return value == "" or _share(value, 0.0) != 0


def _whole(value: str, most: int) -> int:
    return min(int(value), most) if value.isascii() and value.isdecimal() and len(value) <= 18 else 0


def _share(value: str, default: float = 100.0) -> float:
    try:
        number = float(value)
    except ValueError:
        return default
    return number if 0 <= number <= 1e9 else default


def parse_global_preferences(text: str) -> GlobalPreferences:
    """Read preferences that were stored earlier."""
    return read_global_preferences(text.encode().decode("latin-1"), [])


def write_global_preferences(
    values: Mapping[str, float | bool | str],
    *,
    venues: Mapping[str, Mapping[str, float | bool | str]] | None = None,
) -> str:
    """Write a ``<global_preferences>`` element from names and values, in their order, and a section for each venue of ``venues``.

    Raises:
        LocalProtocolError: a venue is not one of the client's, or a name cannot be an element.
    """
    inner = _elements(values)
    for venue, own in (venues or {}).items():
        _check_venue(venue)
        inner += f'<venue name="{venue}">\n{_elements(own)}</venue>\n'
    return f"<global_preferences>\n{inner}</global_preferences>"


def write_project_preferences(
    general: ProjectPreferences | None = None,
    *,
    venues: Mapping[str, ProjectPreferences] | None = None,
    project_specific: Mapping[str, float | bool | str] | None = None,
) -> str:
    """Write ``<project_preferences>``, with a section for each venue that has its own.

    ``project_specific`` is copied into the program's init data.

    Raises:
        LocalProtocolError: a venue is not one of the client's, or a name cannot be an element.
    """
    specific = dict(project_specific or {})
    _check_names(specific)
    sections = ""
    for venue, preferences in (venues or {}).items():
        _check_venue(venue)
        sections += f'<venue name="{venue}">\n{_project_elements(preferences, specific)}</venue>\n'
    own = _project_elements(general or ProjectPreferences(), specific)
    return f"<project_preferences>\n{own}{sections}</project_preferences>"


def _project_elements(preferences: ProjectPreferences, specific: Mapping[str, float | bool | str]) -> str:
    flags = {
        "no_cpu": preferences.no_cpu,
        **{flag: gpu in preferences.no_gpu_types for flag, gpu in GPU_FLAGS.items()},
        "allow_beta_work": preferences.allow_beta,
        "allow_non_preferred_apps": preferences.allow_non_preferred,
    }
    inner = "".join(scalar("app_id", number) for number in sorted(preferences.selected_apps))
    inner += "".join(
        scalar(name, number)
        for name, number in (("max_jobs", preferences.max_jobs), ("max_cpus", preferences.max_cpus))
        if number
    )
    inner += "".join(scalar(name, value) for name, value in specific.items())
    project_specific = f"<project_specific>\n{inner}</project_specific>\n" if inner else ""
    return (
        scalar("resource_share", preferences.resource_share)
        + "".join(scalar(name, 1) for name, is_set in flags.items() if is_set)
        + project_specific
    )


def _elements(values: Mapping[str, float | bool | str]) -> str:
    _check_names(values)
    return "".join(scalar(name, value) for name, value in values.items())


def _check_venue(venue: str) -> None:
    if venue not in VENUES:
        raise LocalProtocolError(f"{venue!r} is no venue: use one of {', '.join(VENUES)}")


def _check_names(values: Mapping[str, float | bool | str]) -> None:
    for name in values:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,63}", name):
            raise LocalProtocolError(f"{name!r} is no name of a preference: use small letters, digits and _")
