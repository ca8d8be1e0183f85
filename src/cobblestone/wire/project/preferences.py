"""Preferences of an account: the part that a server reads, and the volunteers' choices on a project's pages.

Global and project preferences: the few numbers that a server decides by, and the text that it hands on.

The verbatim text is kept because other projects and newer clients put elements in it that we do not know.

Preferences that volunteers choose on a project's pages, in the family's elements, with venues.

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
from functools import lru_cache
from typing import Any, TypeVar

from cobblestone.domain.computing import PREFERENCES, DispatchPreferences, Number
from cobblestone.domain.errors import LocalProtocolError, RemoteProtocolError
from cobblestone.domain.people import ProjectPreferences
from cobblestone.domain.values import AppId, value
from cobblestone.wire.text.reader import Lenience, decode, read_verbatim, unescape
from cobblestone.wire.text.tree import Node, read_tree
from cobblestone.wire.text.writer import escape, scalar


@value(kw_only=True)
class GlobalPreferences(DispatchPreferences):
    """A ``<global_preferences>`` element: the numbers that a server reads, and the whole text, which it passes on."""

    text: str = ""  #: the whole element, verbatim; empty if it cannot be read
    problem: str = ""  #: why it cannot be read, as the end of a sentence
    mod_time: float = 0.0  #: Unix seconds
    work_buf_additional_days: float = 0.0
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
#: Characters and tags that are read: clients write 3 kB with 90 tags, and as much again for each venue.
MAX_TEXT, MAX_TAGS = 32 * 1024, 2000
VENUES = ("home", "work", "school")


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
    try:
        root = _element(read_verbatim(content, "global_preferences", notes), "global_preferences")
    except RemoteProtocolError as error:
        return GlobalPreferences(problem=str(error)), tuple(notes)
    reader = root.reader(notes)
    preferences = GlobalPreferences(
        text=f"<global_preferences>{root.raw.encode('latin-1').decode()}</global_preferences>",
        problem="",
        global_prefs_source_email_hash=reader.text("global_prefs_source_email_hash", 64),
        **{name: reader.number(name, high=high) for name, high in _NUMBERS.items()},
    )
    return preferences, tuple(notes)


# A client sends the same preferences in every request, and most volunteers keep those that they found.
_read_cached = lru_cache(maxsize=1024)(_read)


#: Elements of project preferences that may be repeated, and the fields that hold their numbers.
_LISTS = {"app_id": "app_ids", "keyword_yes": "keywords_yes", "keyword_no": "keywords_no"}

#: Elements of project preferences that exclude a type of GPU.
GPU_FLAGS = {"no_cuda": "NVIDIA", "no_ati": "ATI", "no_intel_gpu": "intel_gpu", "no_apple_gpu": "apple_gpu"}

MAX_JOBS = 1_000_000
MAX_KEYWORD_CHARS = 10_000


@dataclass(frozen=True, slots=True)
class UserKeywords:
    """What the volunteer of an account manager wants and refuses, as managers tell clients and clients tell projects."""

    yes: tuple[int, ...] = ()
    no: tuple[int, ...] = ()


NO_KEYWORDS = UserKeywords()
_KEYWORD = re.compile(r"<(yes|no)>\s{0,8}(\d{1,9})\s{0,8}</")


def read_user_keywords(content: str) -> UserKeywords:
    """Read the content of ``<user_keywords>``, as far as it is understood."""
    found = _KEYWORD.findall(content[:MAX_KEYWORD_CHARS])
    if not found:
        return NO_KEYWORDS
    return UserKeywords(
        *(tuple(int(number) for each, number in found if each == tag) for tag in ("yes", "no"))
    )


def write_user_keywords(keywords: UserKeywords) -> str:
    """Return the element; empty without keywords."""
    yes = "".join(scalar("yes", number, "   ") for number in keywords.yes)
    no = "".join(scalar("no", number, "   ") for number in keywords.no)
    return f"<user_keywords>\n{yes}{no}</user_keywords>\n" if yes or no else ""


def read_project_preferences(text: str, venue: str = "") -> ProjectPreferences:
    """Read ``<project_preferences>`` for one venue (``home``, ``work``, ``school``, or empty: the general ones).

    A venue without a section of its own has the general ones.  Values that cannot be read count as absent, so that
    preferences are never a reason to refuse a request.
    """
    return _read_project_cached(text, venue) if text else _NO_PREFERENCES


def _read_project(text: str, venue: str) -> ProjectPreferences:
    sections = _sections(text, "project_preferences")
    found = _leaves(sections.get(venue, sections[""]))
    values = dict(found)
    no_gpu_types = {gpu for flag, gpu in GPU_FLAGS.items() if _is_set(values.get(flag, "0"))}
    if _is_set(values.get("no_gpus", "0")):
        no_gpu_types |= set(GPU_FLAGS.values())
    lists = {
        tag: frozenset(_whole(value, 2**31) for name, value in found if name == tag) - {0} for tag in _LISTS
    }
    return ProjectPreferences(
        selected_apps=frozenset(map(AppId, lists["app_id"])),
        keywords_yes=lists["keyword_yes"],
        keywords_no=lists["keyword_no"],
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
        if venue not in VENUES:
            raise LocalProtocolError(f"{venue!r} is not a venue: use one of {', '.join(VENUES)}")
        inner += f'<venue name="{venue}">\n{_elements(own)}</venue>\n'
    return f"<global_preferences>\n{inner}</global_preferences>"


def _elements(values: Mapping[str, float | bool | str]) -> str:
    _check_names(values)
    return "".join(scalar(name, value) for name, value in values.items())


def _check_names(values: Mapping[str, float | bool | str]) -> None:
    for name in values:
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,63}", name):
            raise LocalProtocolError(
                f"{name!r} is not a valid preference name: use small letters, digits and _"
            )


MAX_APPS = 200
MAX_KEPT = 40

T = TypeVar("T")

_BY_NAME = {item.name: item for item in PREFERENCES}
_NOT_KEPT = frozenset(
    ("mod_time", "source_project", "source_scheduler", "modified", "global_prefs_source_email_hash", "venue")
)


@dataclass(frozen=True, slots=True)
class ComputingSet:
    """Computing preferences of one venue."""

    values: Mapping[str, Number]
    kept: Mapping[str, str] = field(default_factory=dict[str, str])  #: elements that we do not know


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSet:
    """Project preferences of one venue."""

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
    keywords_yes: frozenset[int] = frozenset()
    keywords_no: frozenset[int] = frozenset()
    kept: Mapping[str, str] = field(default_factory=dict[str, str])


DEFAULT_COMPUTING = ComputingSet({item.name: item.default for item in PREFERENCES})
MAX_SHARE = 1e6
MAX_LIMIT = 1_000_000


# -- reading --------------------------------------------------------------------------------------------


def read_computing(text: str) -> dict[str, ComputingSet]:
    """Return sets by venue; the empty name is the default one.  Invalid numbers count as missing."""
    found = _sections(text, "global_preferences").items()
    return {name: _computing_set(node) for name, node in found if name in ("", *VENUES)}


def read_project(text: str) -> dict[str, ProjectSet]:
    """As `read_computing`, of a ``<project_preferences>`` element."""
    found = _sections(text, "project_preferences").items()
    return {name: _project_set(node) for name, node in found if name in ("", *VENUES)}


def _element(text: str, root: str) -> Node:
    """Return an element; a text without it is its content.  Raises RemoteProtocolError if it cannot be read."""
    if len(text) > MAX_TEXT or text.count("<") > MAX_TAGS:
        raise RemoteProtocolError(f"they are longer than {MAX_TEXT} characters or {MAX_TAGS} tags")
    if f"<{root}>" not in text:
        text = f"<{root}>\n{text}\n</{root}>"
    return read_tree(text.encode("utf-8", "replace"), root)


def _sections(text: str, root: str) -> dict[str, Node]:
    """Return the set for everywhere, under the empty name, and those of venues; an empty one if the text cannot be read."""
    try:
        top = _element(text, root)
    except RemoteProtocolError:
        top = Node("", root, 0, 0)
    venues = {node.attributes.strip().removeprefix("name=").strip("\"'"): node for node in top.all("venue")}
    return {**venues, "": top}


def _leaves(section: Node) -> list[tuple[str, str]]:
    """Return the elements of a set, with their texts, in order; those that hold others are left out."""
    found: list[tuple[str, str]] = []
    for node in section.children:
        if node.tag == "project_specific":
            found += _leaves(node)
        elif not node.children:
            found.append(
                (node.tag, "1" if node.attributes == "/" else unescape(decode(node.text, node.tag, [])))
            )
    return found


def _computing_set(section: Node) -> ComputingSet:
    values = dict(DEFAULT_COMPUTING.values)
    kept: dict[str, str] = {}
    for name, text in _leaves(section):
        known = _BY_NAME.get(name)
        if known is not None:
            value = _number(text, known.low, known.high)
            if value is not None:
                values[name] = value != 0 if known.is_switch else value
        elif name not in _NOT_KEPT and len(kept) < MAX_KEPT:
            kept[name] = text
    return ComputingSet(values, kept)


def _project_set(section: Node) -> ProjectSet:
    lists: dict[str, set[int]] = {field: set() for field in _LISTS.values()}
    values: dict[str, Any] = {}  # Any: of several types
    kept: dict[str, str] = {}
    for name, text in _leaves(section):
        if name in _LISTS:
            value = _number(text, 1, 2**53)
            if value is not None and len(lists[_LISTS[name]]) < MAX_APPS:
                lists[_LISTS[name]].add(int(value))
        elif name in _PROJECT_LIMITS:
            value = _number(text, 0, _PROJECT_LIMITS[name])
            if value is not None:
                values[name] = type(getattr(_USUAL, name))(value)
        elif name not in _NOT_KEPT and name != "no_rsc" and len(kept) < MAX_KEPT:
            kept[name] = text
    values |= {field: frozenset(found) for field, found in lists.items()}
    return ProjectSet(kept=kept, **values)


_SWITCHES = ("allow_non_preferred_apps", "allow_beta_work", "no_cpu", "no_cuda", "no_ati", "no_intel_gpu")
_USUAL = ProjectSet()
_PROJECT_LIMITS: Mapping[str, float] = {
    "resource_share": MAX_SHARE,
    "max_jobs": MAX_LIMIT,
    "max_cpus": MAX_LIMIT,
    **dict.fromkeys(_SWITCHES, 1e9),
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
    values = "".join(scalar(known.name, item.values[known.name]) for known in PREFERENCES)
    return values + _kept_text(item.kept)


def _project_text(item: ProjectSet) -> str:
    refused = "".join(scalar(name, True) for name in _SWITCHES[2:] if getattr(item, name))
    if item.no_intel_gpu:
        # how clients are told of types that have no element of their own
        refused += scalar("no_rsc", "intel_gpu")
    specific = "".join(
        scalar(tag, number) for tag, field in _LISTS.items() for number in sorted(getattr(item, field))
    )
    specific += scalar("allow_non_preferred_apps", item.allow_non_preferred_apps)
    specific += scalar("max_jobs", item.max_jobs) if item.max_jobs else ""
    specific += scalar("max_cpus", item.max_cpus) if item.max_cpus else ""
    return (
        f"{scalar('resource_share', item.resource_share)}{refused}{scalar('allow_beta_work', item.allow_beta_work)}"
        f"<project_specific>\n{specific}{_kept_text(item.kept)}</project_specific>\n"
    )


def _kept_text(kept: Mapping[str, str]) -> str:
    return "".join(f"<{name}>{escape(text)}</{name}>\n" for name, text in kept.items())
