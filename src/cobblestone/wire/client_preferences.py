"""``global_prefs.xml`` and ``global_prefs_override.xml``, as a client reads them.

Unlike a server, which takes a request as it comes, a client can tell the person who edits these files what is wrong: so they are
read strictly, and every problem is a sentence with a line number.  Source: BOINC's ``lib/prefs.cpp`` (facts).
"""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

from lxml import etree

from cobblestone.domain.computing import ComputingPreferences, Hours
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.values import changed
from cobblestone.wire.xml_reader import Element, safe_parser
from cobblestone.wire.xml_writer import scalar

MAX_FILE_BYTES = 1 << 20
_SWITCHES = {each.name for each in fields(ComputingPreferences) if each.type == "bool"}
_NUMBERS = {each.name for each in fields(ComputingPreferences) if each.type == "float"}
_ORDER = tuple(each.name for each in fields(ComputingPreferences) if each.type in ("bool", "float"))
_COUNTERPARTS = {
    "niu_max_ncpus_pct": "max_ncpus_pct",
    "niu_cpu_usage_limit": "cpu_usage_limit",
    "niu_suspend_cpu_usage": "suspend_cpu_usage",
}
_HOURS = {
    "start_hour": ("hours", 0),
    "end_hour": ("hours", 1),
    "net_start_hour": ("network_hours", 0),
    "net_end_hour": ("network_hours", 1),
}
_LOWEST = {"cpu_scheduling_period_minutes": 0.1, "rec_half_life_days": 0.01}
_HIGHEST = {
    "mod_time": 1e11,
    "disk_max_used_gb": 1e9,
    "max_bytes_sec_up": 1e15,
    "max_bytes_sec_down": 1e15,
    "daily_xfer_limit_mb": 1e12,
}


def parse_file(body: bytes, root: str) -> Element:
    """Return the outermost element of a file that a person may have edited.  Raises RemoteProtocolError with the line."""
    if len(body) > MAX_FILE_BYTES:
        raise RemoteProtocolError(f"it has {len(body)} bytes; at most {MAX_FILE_BYTES} are read")
    try:
        tree = etree.fromstring(body.strip(), safe_parser())
    except etree.XMLSyntaxError as error:
        raise RemoteProtocolError(f"line {error.lineno}: {error.msg}") from None
    if tree.tag != root:
        found = tree.find(root)
        if found is None:
            raise RemoteProtocolError(f"its outermost element is <{tree.tag}>, expected is <{root}>")
        return found
    return tree


def read_preferences(body: bytes, venue: str = "") -> tuple[ComputingPreferences, tuple[str, ...]]:
    """Return the preferences for a venue, and sentences about what could not be read; what is wrong has its default.

    A section for the venue replaces the general preferences entirely.  Switches that are absent are off, whatever their default,
    as in the family's client; limits for the time of not being in use that are absent equal those for the time of use.
    Raises RemoteProtocolError for a file that is not XML.
    """
    root = parse_file(body, "global_preferences")
    section = next((each for each in root.iterfind("venue") if venue and each.get("name") == venue), None)
    problems: list[str] = []
    base = changed(ComputingPreferences(), **dict.fromkeys(_SWITCHES, False))
    preferences = _apply(base, root if section is None else section, problems)
    named = {str(each.tag) for each in (root if section is None else section)}
    equal = {
        niu: getattr(preferences, busy) or (100.0 if busy == "max_ncpus_pct" else 0.0)
        for niu, busy in _COUNTERPARTS.items()
        if niu not in named and busy in named
    }
    head = ComputingPreferences()
    return (
        changed(
            preferences,
            **equal,
            mod_time=_number(root, "mod_time", head.mod_time, problems),
            source_project=(root.findtext("source_project") or "").strip()[:255],
            venue=venue if section is not None else "",
        ),
        tuple(problems),
    )


def override_preferences(
    preferences: ComputingPreferences, body: bytes
) -> tuple[ComputingPreferences, tuple[str, ...]]:
    """Put what the override file says in place of the preferences; what it does not name stays.

    Raises RemoteProtocolError for a file that is not XML.
    """
    problems: list[str] = []
    return _apply(preferences, parse_file(body, "global_preferences"), problems), tuple(problems)


def _apply(preferences: ComputingPreferences, element: Element, problems: list[str]) -> ComputingPreferences:
    changes: dict[str, Any] = {}  # Any: fields of several types
    hours = {"hours": list(preferences.hours), "network_hours": list(preferences.network_hours)}
    for child in element:
        name = str(child.tag)
        if name in _SWITCHES:
            changes[name] = read_switch(child, problems)
        elif name in _NUMBERS:
            changes[name] = _number(element, name, getattr(preferences, name), problems)
        elif name in _HOURS:
            which, end = _HOURS[name]
            hours[which][end] = _number(element, name, 0.0, problems, 24.0)
        elif name == "max_cpus":
            changes["max_ncpus"] = int(_number(element, name, 0.0, problems))
    changes["hours"], changes["network_hours"] = Hours(*hours["hours"]), Hours(*hours["network_hours"])
    if element.find("day_prefs") is not None:
        changes["day_hours"] = _days(element, "start_hour", "end_hour", problems)
        changes["day_network_hours"] = _days(element, "net_start_hour", "net_end_hour", problems)
    return changed(preferences, **changes)


def _days(element: Element, start: str, end: str, problems: list[str]) -> dict[int, Hours]:
    found: dict[int, Hours] = {}
    for day in element.iterfind("day_prefs"):
        number = int(_number(day, "day_of_week", -1.0, problems, 6.0))
        if number >= 0 and day.find(start) is not None and day.find(end) is not None:
            found[number] = Hours(
                _number(day, start, 0.0, problems, 24.0), _number(day, end, 0.0, problems, 24.0)
            )
    return found


def read_switch(element: Element, problems: list[str]) -> bool:
    """``<x/>``, ``<x>1</x>`` and ``<x>true</x>`` are on."""
    text = (element.text or "").strip().lower()
    if text in ("0", "false", "no", "off"):
        return False
    if text not in ("", "1", "true", "yes", "on"):
        problems.append(f"line {element.sourceline}: <{element.tag}> is {text[:40]!r}; write 0 or 1")
        return False
    return True


def _number(
    parent: Element, name: str, default: float, problems: list[str], highest: float | None = None
) -> float:
    found = parent.find(name)
    return default if found is None else read_number(found, default, problems, highest)


def read_number(element: Element, default: float, problems: list[str], highest: float | None = None) -> float:
    """Return a number within its bounds; else the default, and a sentence."""
    name, text = str(element.tag), (element.text or "").strip()
    high = (
        _HIGHEST.get(name, 100.0 if name.endswith(("_pct", "_limit", "_cpu_usage")) else 1e6)
        if highest is None
        else highest
    )
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    low = _LOWEST.get(name, 0.0)
    if low <= number <= high:
        return number
    problems.append(
        f"line {element.sourceline}: <{name}> is {text[:40]!r}; allowed are numbers from {low:g} to {high:g}"
    )
    return default


def write_preferences(preferences: ComputingPreferences) -> str:
    """Return a ``<global_preferences>`` element of everything in force, read back as the same values."""
    lines = [scalar("source_project", preferences.source_project), scalar("mod_time", preferences.mod_time)]
    lines += [scalar(name, getattr(preferences, name), "   ") for name in _ORDER if name != "mod_time"]
    lines.append(scalar("max_cpus", preferences.max_ncpus, "   ") if preferences.max_ncpus else "")
    for name, (which, end) in _HOURS.items():
        lines.append(scalar(name, float(getattr(preferences, which)[end]), "   "))
    for day in sorted({*preferences.day_hours, *preferences.day_network_hours}):
        lines.append(
            f"   <day_prefs>\n{scalar('day_of_week', day, '      ')}{_day(preferences, day)}   </day_prefs>\n"
        )
    return f"<global_preferences>\n{''.join(lines)}</global_preferences>\n"


def _day(preferences: ComputingPreferences, day: int) -> str:
    lines: list[str] = []
    for days, names in (
        (preferences.day_hours, ("start_hour", "end_hour")),
        (preferences.day_network_hours, ("net_start_hour", "net_end_hour")),
    ):
        if day in days:
            lines += [scalar(name, float(at), "      ") for name, at in zip(names, days[day], strict=True)]
    return "".join(lines)
