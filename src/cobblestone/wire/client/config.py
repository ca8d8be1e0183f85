"""The files that a volunteer edits: ``cc_config.xml``, ``app_config.xml``, proxies, and preferences of the computer.

``<proxy_info>``: the proxies that a volunteer sets, in ``cc_config.xml`` or with a manager.

Source: BOINC's ``lib/proxy_info.cpp`` (names: facts).  An HTTP proxy goes before a SOCKS proxy.

``global_prefs.xml`` and ``global_prefs_override.xml``, as a client reads them.

Unlike a server, which takes a request as it comes, a client can tell the person who edits these files what is wrong: so they are
read strictly, and every problem is a sentence with a line number.  Source: BOINC's ``lib/prefs.cpp`` (facts).

``cc_config.xml`` and ``app_config.xml``, as a client reads them: strictly, with a sentence for everything that is wrong.

Each reading starts from the defaults, so that a line taken out of a file is undone.  Source: BOINC's ``lib/cc_config.cpp`` and
``client/app_config.cpp`` (names and defaults: facts).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from lxml import etree

from cobblestone.domain.computing import (
    AppConfig,
    AppLimits,
    ClientConfig,
    ComputingPreferences,
    ExcludedGpu,
    Hours,
    Proxy,
    VersionOverride,
)
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.hosts import Coprocessor
from cobblestone.domain.values import changed
from cobblestone.wire.text.reader import Element, safe_parser
from cobblestone.wire.text.writer import scalar

#: The elements of ``<proxy_info>`` as a client keeps them.
Settings = Mapping[str, str | int]

NUMBERS = ("socks_server_port", "socks5_remote_dns", "http_server_port", "no_autodetect")
FLAGS = ("use_http_proxy", "use_socks_proxy", "use_http_auth")
TEXTS = (
    "socks_server_name", "http_server_name", "socks5_user_name", "socks5_user_passwd", "http_user_name", "http_user_passwd",
    "no_proxy",
)  # fmt: skip
MAX_DIRECT = 100
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?")


def read_proxy(settings: Settings) -> tuple[Proxy | None, str]:
    """Return the proxy to use, if any, and a sentence about an error in it."""
    for kind, prefix, login in (("http", "http", "http"), ("socks5", "socks", "socks5")):
        if not settings.get(f"use_{prefix}_proxy"):
            continue
        host, port = (
            str(settings.get(f"{prefix}_server_name", "")).strip(),
            settings.get(f"{prefix}_server_port"),
        )
        if not _HOST.fullmatch(host):
            return (
                None,
                f"<{prefix}_server_name> is {host[:60]!r}, which is not a name or address of a computer",
            )
        if not isinstance(port, int) or not 0 < port < 65536:
            return None, f"<{prefix}_server_port> is {port!r}; it must be a number from 1 to 65535"
        names = str(settings.get("no_proxy", "")).split(",")[:MAX_DIRECT]
        user = str(settings.get(f"{login}_user_name", ""))
        wanted = kind == "socks5" or settings.get("use_http_auth")
        return Proxy(
            kind=kind,
            host=host,
            port=port,
            user=user if wanted else "",
            password=str(settings.get(f"{login}_user_passwd", "")) if wanted else "",
            direct=tuple(name.strip() for name in names if _HOST.fullmatch(name.strip().lstrip("."))),
        ), ""
    return None, ""


MAX_FILE_BYTES = 1 << 20
#: Of preferences; clients write 90.
MAX_ELEMENTS = 1000
_PREFERENCE_SWITCHES = {each.name for each in fields(ComputingPreferences) if each.type == "bool"}
_PREFERENCE_NUMBERS = {each.name for each in fields(ComputingPreferences) if each.type == "float"}
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
        raise RemoteProtocolError(f"it has {len(body)} bytes; at most {MAX_FILE_BYTES} are allowed")
    try:
        tree = etree.fromstring(body.strip(), safe_parser())
    except etree.XMLSyntaxError as error:
        raise RemoteProtocolError(f"line {error.lineno}: {error.msg}") from None
    if tree.tag != root:
        found = tree.find(root)
        if found is None:
            raise RemoteProtocolError(f"its outermost element is <{tree.tag}>, expected <{root}>")
        return found
    return tree


def read_preferences(body: bytes, venue: str = "") -> tuple[ComputingPreferences, tuple[str, ...]]:
    """Return the preferences for a venue, and sentences about errors; an invalid value gets its default.

    A section for the venue replaces the general preferences entirely.  Switches that are absent are off, whatever their default,
    as in the family's client.
    Raises RemoteProtocolError for a file that is not XML.
    """
    root = parse_file(body, "global_preferences")
    section = next((each for each in root.iterfind("venue") if venue and each.get("name") == venue), None)
    problems: list[str] = []
    head = ComputingPreferences()
    equal = {niu: getattr(head, busy) for niu, busy in _COUNTERPARTS.items()}
    base = changed(head, **dict.fromkeys(_PREFERENCE_SWITCHES, False), **equal)
    preferences = _apply(base, root if section is None else section, problems)
    return (
        changed(
            preferences,
            mod_time=_number(root, "mod_time", head.mod_time, problems),
            source_project=(root.findtext("source_project") or "").strip()[:255],
            venue=venue if section is not None else "",
        ),
        tuple(problems),
    )


def override_preferences(
    preferences: ComputingPreferences, body: bytes
) -> tuple[ComputingPreferences, tuple[str, ...]]:
    """Override the preferences with those of the override file; what it names in no form stays.

    Raises RemoteProtocolError for a file that is not XML.
    """
    problems: list[str] = []
    return _apply(preferences, parse_file(body, "global_preferences"), problems), tuple(problems)


def _apply(preferences: ComputingPreferences, element: Element, problems: list[str]) -> ComputingPreferences:
    """Apply a file's elements; an absent limit for the time of not being in use equals that for the time of use."""
    changes: dict[str, Any] = {}  # Any: fields of several types
    hours = {"hours": list(preferences.hours), "network_hours": list(preferences.network_hours)}
    for child in element[:MAX_ELEMENTS]:
        name = str(child.tag)
        if name in _PREFERENCE_SWITCHES:
            changes[name] = read_switch(child, problems)
        elif name in _PREFERENCE_NUMBERS:
            changes[name] = read_number(child, getattr(preferences, name), problems)
        elif name in _HOURS:
            which, end = _HOURS[name]
            hours[which][end] = read_number(child, 0.0, problems, 24.0)
        elif name == "max_cpus":
            changes["max_ncpus"] = int(read_number(child, 0.0, problems))
    for niu, busy in _COUNTERPARTS.items():
        if busy in changes:
            changes.setdefault(niu, changes[busy])
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
        problems.append(f"line {element.sourceline}: <{element.tag}> is {text[:40]!r}; allowed: 0 or 1")
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
        f"line {element.sourceline}: <{name}> is {text[:40]!r}; allowed: numbers from {low:g} to {high:g}"
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


MAX_ENTRIES = 1000
MAX_TEXT = 255
HIGHEST_PRIORITY = 2
MAX_CPUS = 10_000.0
MAX_DEVICES = 64.0
_DEFAULT = ClientConfig()
_SWITCHES = {each.name for each in fields(ClientConfig) if each.type == "bool"}
_WHOLE = {each.name for each in fields(ClientConfig) if each.type == "int"}
_NUMBERS = {each.name for each in fields(ClientConfig) if each.type == "float"}
_LISTS = {
    "alt_platform": "alt_platforms",
    "exclusive_app": "exclusive_apps",
    "exclusive_gpu_app": "exclusive_gpu_apps",
}
_IGNORED = {
    "ignore_nvidia_dev": "NVIDIA",
    "ignore_cuda_dev": "NVIDIA",
    "ignore_ati_dev": "ATI",
    "ignore_intel_dev": "intel_gpu",
    "ignore_apple_dev": "apple_gpu",
}
_SUSPENDED = "suspended_gpu"
_OF_PROJECT = ("project_max_concurrent", "report_results_immediately", "priority_group", "no_rsc")
#: Options that ask for what this client does, or leaves, in any case.
_NEEDLESS = {
    *("client_download_url", "client_new_version_name", "client_version_check_url", "network_test_url"),
    *("dont_contact_ref_site", "no_info_fetch", "no_rdp_check", "os_random_only", "use_all_gpus"),
    *("dont_use_vbox", "dont_use_wsl", "disallowed_wsl", "vbox_window", "no_disk_usage"),
    *("max_stderr_file_size", "max_stdout_file_size", "data_dir"),
}
#: Options of the family without effect here, and what to do instead.
_NOT_SUPPORTED = {
    "allow_remote_gui_rpc": "start the client with --remote",
    "dont_check_file_sizes": "sizes and hashes are always checked",
    "dont_suspend_nci": "",
    "exit_after_finish": "",
    "exit_before_start": "",
    "force_auth": "the authentication method is negotiated with the proxy",
    "http_1_0": "",
    "ignore_tty": "",
    "lower_client_priority": "start the client under nice",
    "prioritize_gpu": "",
    "run_apps_manually": "",
    "unsigned_apps_ok": "programs without the project's signature are not run, unless they are your own (app_info.xml)",
    "use_certs": "",
    "use_certs_only": "",
}
_OFF = ("0", "-1", "default")
#: Kinds of lines of the event log that can be switched off; there are no others.
_FLAGS = {"file_xfer", "sched_ops", "task"}


def read_client_config(body: bytes) -> tuple[ClientConfig, tuple[str, ...]]:
    """Return the configuration, and sentences about errors.  Raises RemoteProtocolError for invalid XML."""
    root = parse_file(body, "cc_config")
    read = _Options()
    flags, options = root.find("log_flags"), root.find("options")
    if flags is not None:
        read.values["log_flags"] = _log_flags(flags, read.problems)
    for each in _some(options) if options is not None else ():
        read.take(each)
    return read.config(), tuple(read.problems)


class _Options:
    """The options read so far; of repeated options the last counts, lists are collected."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.values: dict[str, Any] = {}  # Any: fields of several types
        self._gathered: dict[str, list[str]] = {}
        self._devices: dict[str, dict[str, set[int]]] = {"ignore_gpus": {}, "suspended_gpus": {}}
        self._excluded: list[ExcludedGpu] = []
        self._declared: dict[str, Coprocessor] = {}

    def take(self, each: Element) -> None:
        """Read one option."""
        name = str(each.tag)
        if name in _SWITCHES:
            self.values[name] = read_switch(each, self.problems)
        elif name in _WHOLE or name in _NUMBERS:
            number = _signed(each, getattr(_DEFAULT, name), self.problems)
            self.values[name] = int(number) if name in _WHOLE else number
        elif name in _LISTS:
            self._gathered.setdefault(_LISTS[name], []).append(_text(each))
        elif name in _IGNORED or name == _SUSPENDED:
            self._device(each, name)
        elif name == "exclude_gpu":
            self._excluded.append(_excluded(each, self.problems))
        elif name == "coproc":
            self._declare(each)
        elif name == "device_name":
            self.values[name] = _text(each)
        elif name == "proxy_info":
            self.values["proxy"] = _proxy(each, self.problems)
        elif name in _NOT_SUPPORTED:
            self.problems += _not_supported(each, name)
        elif name not in _NEEDLESS:
            self.problems.append(f"line {each.sourceline}: there is no option <{name[:60]}>")

    def _device(self, each: Element, name: str) -> None:
        if name == _SUSPENDED:
            kind, number = _text(each.find("type")), each.find("device_num")
            devices = self._devices["suspended_gpus"]
        else:
            kind, number, devices = _IGNORED[name], each, self._devices["ignore_gpus"]
        devices.setdefault(kind, set()).add(int(_signed(number, -1.0, self.problems)))

    def _declare(self, each: Element) -> None:
        device = Coprocessor(
            type=_text(each.find("type"), 60),
            count=int(_number(each, "count", 1.0, self.problems, MAX_DEVICES)),
            peak_flops=_number(each, "peak_flops", 1e9, self.problems, 1e18),
        )
        if device.type and device.count:
            self._declared[device.type] = device
        else:
            self.problems.append(f"line {each.sourceline}: <coproc> needs a <type>, and a <count> from 1")

    def config(self) -> ClientConfig:
        """Return everything that was read."""
        values, problems = self.values, self.problems
        values |= {name: tuple(filter(None, texts)) for name, texts in self._gathered.items()}
        for name, devices in self._devices.items():
            values[name] = {kind: frozenset(found) for kind, found in devices.items()}
        if values.get("exit_when_idle"):
            values["report_results_immediately"] = True
        for name in ("process_priority", "process_priority_special"):
            if values.get(name, -1) > HIGHEST_PRIORITY:
                values[name] = HIGHEST_PRIORITY
                problems.append(
                    f"<{name}> above {HIGHEST_PRIORITY} is not supported: jobs never go before other programs"
                )
        return ClientConfig(
            **values, exclude_gpus=tuple(self._excluded), declared_devices=tuple(self._declared.values())
        )


def _log_flags(flags: Element, problems: list[str]) -> frozenset[str]:
    chosen = set(_DEFAULT.log_flags)
    for each in _some(flags):
        name, on = str(each.tag)[:40], read_switch(each, problems)
        if name in _FLAGS:
            (chosen.add if on else chosen.discard)(name)
        elif on:
            problems.append(
                f"line {each.sourceline}: the log flag <{name}> has no effect here;"
                " `cobblestone client why` says what is decided, and why"
            )
    return frozenset(chosen)


def _proxy(element: Element, problems: list[str]) -> Proxy | None:
    settings: dict[str, str | int] = {name: _text(element.find(name)) for name in TEXTS}
    for name in FLAGS:
        found = element.find(name)
        settings[name] = int(found is not None and read_switch(found, problems))
    for name in NUMBERS:
        settings[name] = int(_optional(element, name, problems) or 0)
    proxy, problem = read_proxy(settings)
    if problem:
        problems.append(f"line {element.sourceline}: {problem}")
    return proxy


def _not_supported(element: Element, name: str) -> list[str]:
    if (element.text or "").strip() in _OFF:
        return []
    instead = f": {_NOT_SUPPORTED[name]}" if _NOT_SUPPORTED[name] else ""
    return [f"line {element.sourceline}: the option <{name}> is not supported{instead}"]


def read_app_config(body: bytes) -> tuple[AppConfig, tuple[str, ...]]:
    """Return the volunteer's settings for one project, and sentences about errors.

    Raises RemoteProtocolError for what is not XML.
    """
    root = parse_file(body, "app_config")
    problems: list[str] = []
    apps: dict[str, AppLimits] = {}
    versions: list[VersionOverride] = []
    for each in _some(root):
        if each.tag == "app":
            apps[_text(each.find("name"))] = _app(each, problems)
        elif each.tag == "app_version":
            versions.append(_version(each, problems))
        elif each.tag not in _OF_PROJECT:
            problems.append(f"line {each.sourceline}: <{str(each.tag)[:60]}> is unknown")
    at_once = root.find("report_results_immediately")
    return AppConfig(
        apps=apps,
        versions=tuple(versions),
        project_max_concurrent=int(_optional(root, "project_max_concurrent", problems) or 0),
        report_results_immediately=at_once is not None and read_switch(at_once, problems),
        priority_group=int(_optional(root, "priority_group", problems) or 0),
        no_rsc=tuple(
            "" if name == "CPU" else name for name in map(_text, _some(root.iterfind("no_rsc"))) if name
        ),
    ), tuple(problems)


def _app(element: Element, problems: list[str]) -> AppLimits:
    gpu = element.find("gpu_versions")
    switches = {
        name: (found := element.find(name)) is not None and read_switch(found, problems)
        for name in ("fraction_done_exact", "report_results_immediately")
    }
    return AppLimits(
        max_concurrent=int(_optional(element, "max_concurrent", problems) or 0),
        gpu_usage=(_optional(gpu, "gpu_usage", problems) or 0.0) if gpu is not None else 0.0,
        cpu_usage=(_optional(gpu, "cpu_usage", problems) or 0.0) if gpu is not None else 0.0,
        **switches,
    )


def _version(element: Element, problems: list[str]) -> VersionOverride:
    return VersionOverride(
        app_name=_text(element.find("app_name")),
        plan_class=_text(element.find("plan_class")),
        cmdline=_text(element.find("cmdline"), 1000),
        avg_ncpus=_optional(element, "avg_ncpus", problems),
        ngpus=_optional(element, "ngpus", problems),
    )


def _excluded(element: Element, problems: list[str]) -> ExcludedGpu:
    return ExcludedGpu(
        url=_text(element.find("url")),
        device_num=int(_signed(element.find("device_num"), -1.0, problems)),
        type=_text(element.find("type")),
        app=_text(element.find("app")),
    )


def _some(parent: Iterable[Element]) -> Iterable[Element]:
    return list(parent)[:MAX_ENTRIES]


def _text(element: Element | None, limit: int = MAX_TEXT) -> str:
    return "" if element is None else (element.text or "").strip()[:limit]


def _optional(parent: Element, name: str, problems: list[str]) -> float | None:
    found = parent.find(name)
    if found is None:
        return None
    number = read_number(found, math.nan, problems, 1e6)
    return None if math.isnan(number) else number


def _signed(element: Element | None, default: float, problems: list[str]) -> float:
    """Return a number that may be -1, which means "not given"."""
    if element is None or (element.text or "").strip() == "-1":
        return default if element is None else -1.0
    return read_number(element, default, problems, MAX_CPUS if element.tag == "ncpus" else 1e9)
