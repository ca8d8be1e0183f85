"""Global and project preferences: the few numbers that a server decides by, and the text that it hands on.

The verbatim text is kept because other projects and newer clients put elements in it that we do not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from cobblestone.domain.errors import LocalProtocolError
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


def parse_global_preferences(text: str) -> GlobalPreferences:
    """Read preferences that were stored earlier."""
    return read_global_preferences(text.encode().decode("latin-1"), [])


def write_global_preferences(values: Mapping[str, float | bool | str]) -> str:
    """Write a ``<global_preferences>`` element from names and values, in their order."""
    return _write("global_preferences", values)


def write_project_preferences(
    *, resource_share: float = 100.0, project_specific: Mapping[str, float | bool | str] | None = None
) -> str:
    """Write ``<project_preferences>``; ``project_specific`` is copied into the program's init data."""
    inner = "".join(scalar(name, value) for name, value in (project_specific or {}).items())
    _check_names(project_specific or {})
    specific = f"<project_specific>\n{inner}</project_specific>\n" if inner else ""
    return (
        f"<project_preferences>\n{scalar('resource_share', resource_share)}{specific}</project_preferences>"
    )


def _write(root: str, values: Mapping[str, float | bool | str]) -> str:
    _check_names(values)
    inner = "".join(scalar(name, value) for name, value in values.items())
    return f"<{root}>\n{inner}</{root}>"


def _check_names(values: Mapping[str, float | bool | str]) -> None:
    for name in values:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,63}", name):
            raise LocalProtocolError(f"{name!r} is no name of a preference: use small letters, digits and _")
