"""``cc_config.xml`` and ``app_config.xml``, as a client reads them: strictly, with a sentence for everything that is wrong.

Each reading starts from the defaults, so that a line taken out of a file is undone.  Source: BOINC's ``lib/cc_config.cpp`` and
``client/app_config.cpp`` (names and defaults: facts).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from cobblestone.domain.computing import (
    AppConfig,
    AppLimits,
    ClientConfig,
    ExcludedGpu,
    Proxy,
    VersionOverride,
)
from cobblestone.wire.client_preferences import parse_file, read_number, read_switch
from cobblestone.wire.proxy import FLAGS, NUMBERS, TEXTS, read_proxy
from cobblestone.wire.xml_reader import Element

MAX_ENTRIES = 1000
MAX_TEXT = 255
HIGHEST_PRIORITY = 2
MAX_CPUS = 10_000.0
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
_NEEDLESS = {
    *("client_download_url", "client_new_version_name", "client_version_check_url", "network_test_url"),
    *("dont_contact_ref_site", "no_info_fetch", "no_rdp_check", "os_random_only", "use_all_gpus"),
    *("dont_use_vbox", "dont_use_wsl", "disallowed_wsl", "vbox_window", "no_disk_usage"),
    *("max_stderr_file_size", "max_stdout_file_size", "data_dir"),
}
"""Options that ask for what this client does, or leaves, in any case."""
_NOT_SUPPORTED = {
    "allow_remote_gui_rpc": "start the client with --remote",
    "coproc": "GPUs are found through their drivers",
    "dont_check_file_sizes": "sizes and hashes are always checked",
    "dont_suspend_nci": "",
    "exit_after_finish": "",
    "exit_before_start": "",
    "force_auth": "the proxy is asked which way of signing in it wants",
    "http_1_0": "",
    "ignore_tty": "",
    "lower_client_priority": "start the client under nice",
    "prioritize_gpu": "",
    "run_apps_manually": "",
    "unsigned_apps_ok": "programs without the project's signature are not run, unless they are your own (app_info.xml)",
    "use_certs": "",
    "use_certs_only": "",
}
"""Options of the family without effect here, and what to do instead."""
_OFF = ("0", "-1", "default")
_FLAGS = {"file_xfer", "sched_ops", "task"}
"""Kinds of lines of the event log that can be switched off; there are no others."""


def read_client_config(body: bytes) -> tuple[ClientConfig, tuple[str, ...]]:
    """Return the configuration, and sentences about what could not be read.  Raises RemoteProtocolError for what is not XML."""
    root = parse_file(body, "cc_config")
    read = _Options()
    flags, options = root.find("log_flags"), root.find("options")
    if flags is not None:
        read.values["log_flags"] = _log_flags(flags, read.problems)
    for each in _some(options) if options is not None else ():
        read.take(each)
    return read.config(), tuple(read.problems)


class _Options:
    """What has been read so far; of an option that stands there twice the last counts, lists gather."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.values: dict[str, Any] = {}  # Any: fields of several types
        self._gathered: dict[str, list[str]] = {}
        self._devices: dict[str, dict[str, set[int]]] = {"ignore_gpus": {}, "suspended_gpus": {}}
        self._excluded: list[ExcludedGpu] = []

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
            kind, number = _text(_child(each, "type")), _child(each, "device_num")
            devices = self._devices["suspended_gpus"]
        else:
            kind, number, devices = _IGNORED[name], each, self._devices["ignore_gpus"]
        devices.setdefault(kind, set()).add(int(_signed(number, -1.0, self.problems)))

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
        return ClientConfig(**values, exclude_gpus=tuple(self._excluded))


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
    """Return the volunteer's settings for one project, and sentences about what could not be read.

    Raises RemoteProtocolError for what is not XML.
    """
    root = parse_file(body, "app_config")
    problems: list[str] = []
    apps: dict[str, AppLimits] = {}
    versions: list[VersionOverride] = []
    for each in _some(root):
        if each.tag == "app":
            apps[_text(_child(each, "name"))] = _app(each, problems)
        elif each.tag == "app_version":
            versions.append(_version(each, problems))
        elif each.tag not in _OF_PROJECT:
            problems.append(f"line {each.sourceline}: <{str(each.tag)[:60]}> is not known here")
    at_once = root.find("report_results_immediately")
    return AppConfig(
        apps=apps,
        versions=tuple(versions),
        project_max_concurrent=int(_optional(root, "project_max_concurrent", problems) or 0),
        report_results_immediately=at_once is not None and read_switch(at_once, problems),
        priority_group=int(_optional(root, "priority_group", problems) or 0),
        no_rsc=tuple("" if name == "CPU" else name for name in map(_text, _some_of(root, "no_rsc")) if name),
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
        app_name=_text(_child(element, "app_name")),
        plan_class=_text(_child(element, "plan_class")),
        cmdline=_text(_child(element, "cmdline"), 1000),
        avg_ncpus=_optional(element, "avg_ncpus", problems),
        ngpus=_optional(element, "ngpus", problems),
    )


def _excluded(element: Element, problems: list[str]) -> ExcludedGpu:
    return ExcludedGpu(
        url=_text(_child(element, "url")),
        device_num=int(_signed(_child(element, "device_num"), -1.0, problems)),
        type=_text(_child(element, "type")),
        app=_text(_child(element, "app")),
    )


def _some(parent: Element) -> Iterable[Element]:
    return list(parent)[:MAX_ENTRIES]


def _some_of(parent: Element, name: str) -> Iterable[Element]:
    return list(parent.iterfind(name))[:MAX_ENTRIES]


def _child(parent: Element, name: str) -> Element | None:
    return parent.find(name)


def _text(element: Element | None, limit: int = MAX_TEXT) -> str:
    return "" if element is None else (element.text or "").strip()[:limit]


def _optional(parent: Element, name: str, problems: list[str]) -> float | None:
    found = parent.find(name)
    if found is None:
        return None
    number = read_number(found, math.nan, problems, 1e6)
    return None if math.isnan(number) else number


def _signed(element: Element | None, default: float, problems: list[str]) -> float:
    """Return a number that may be -1, which means "as if it were not there"."""
    if element is None or (element.text or "").strip() == "-1":
        return default if element is None else -1.0
    return read_number(element, default, problems, MAX_CPUS if element.tag == "ncpus" else 1e9)
