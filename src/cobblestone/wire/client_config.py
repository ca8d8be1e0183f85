"""``cc_config.xml`` and ``app_config.xml``, as a client reads them: strictly, with a sentence for everything that is wrong.

Each reading starts from the defaults, so that a line taken out of a file is undone.  Source: BOINC's ``lib/cc_config.cpp`` and
``client/app_config.cpp`` (names and defaults: facts).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from cobblestone.domain.computing import AppConfig, AppLimits, ClientConfig, ExcludedGpu, VersionOverride
from cobblestone.wire.client_preferences import parse_file, read_number, read_switch
from cobblestone.wire.xml_reader import Element

MAX_ENTRIES = 1000
MAX_TEXT = 255
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
_KNOWN_ELSEWHERE = {
    *(
        "coproc",
        "proxy_info",
        "force_auth",
        "http_1_0",
        "no_disk_usage",
        "no_rdp_check",
        "os_random_only",
        "ignore_tty",
    ),
    *(
        "run_apps_manually",
        "use_certs",
        "use_certs_only",
        "vbox_window",
        "dont_suspend_nci",
        "dont_use_vbox",
        "dont_use_wsl",
    ),
    *(
        "dont_use_docker",
        "disallowed_wsl",
        "max_stderr_file_size",
        "max_stdout_file_size",
        "client_version_check_url",
    ),
    *("client_download_url", "client_new_version_name", "network_test_url", "dont_use_wsl", "data_dir"),
}


def read_client_config(body: bytes) -> tuple[ClientConfig, tuple[str, ...]]:
    """Return the configuration, and sentences about what could not be read.  Raises RemoteProtocolError for what is not XML."""
    root = parse_file(body, "cc_config")
    problems: list[str] = []
    values: dict[str, Any] = {}  # Any: fields of several types
    flags = root.find("log_flags")
    if flags is not None:
        chosen = set(_DEFAULT.log_flags)
        for each in _some(flags):
            (chosen.add if read_switch(each, problems) else chosen.discard)(str(each.tag)[:40])
        values["log_flags"] = frozenset(chosen)
    options = root.find("options")
    gathered: dict[str, list[str]] = {}
    devices: dict[str, dict[str, set[int]]] = {"ignore_gpus": {}, "suspended_gpus": {}}
    excluded: list[ExcludedGpu] = []
    for each in _some(options) if options is not None else ():
        name = str(each.tag)
        if name in _SWITCHES:
            values[name] = read_switch(each, problems)
        elif name in _WHOLE or name in _NUMBERS:
            number = _signed(each, getattr(_DEFAULT, name), problems)
            values[name] = int(number) if name in _WHOLE else number
        elif name in _LISTS:
            gathered.setdefault(_LISTS[name], []).append(_text(each))
        elif name in _IGNORED:
            device = int(read_number(each, -1.0, problems, 1000))
            devices["ignore_gpus"].setdefault(_IGNORED[name], set()).add(device)
        elif name == _SUSPENDED:
            device = int(_signed(_child(each, "device_num"), -1.0, problems))
            devices["suspended_gpus"].setdefault(_text(_child(each, "type")), set()).add(device)
        elif name == "exclude_gpu":
            excluded.append(_excluded(each, problems))
        elif name == "device_name":
            values[name] = _text(each)
        elif name not in _KNOWN_ELSEWHERE:
            problems.append(f"line {each.sourceline}: there is no option <{name[:60]}>")
    values |= {name: tuple(filter(None, texts)) for name, texts in gathered.items()}
    values |= {
        name: {kind: frozenset(found) for kind, found in each.items()} for name, each in devices.items()
    }
    if values.get("exit_when_idle"):
        values["report_results_immediately"] = True
    return ClientConfig(**values, exclude_gpus=tuple(excluded)), tuple(problems)


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
        elif each.tag not in ("project_max_concurrent", "report_results_immediately"):
            problems.append(f"line {each.sourceline}: <{str(each.tag)[:60]}> is not known here")
    at_once = root.find("report_results_immediately")
    return AppConfig(
        apps=apps,
        versions=tuple(versions),
        project_max_concurrent=int(_optional(root, "project_max_concurrent", problems) or 0),
        report_results_immediately=at_once is not None and read_switch(at_once, problems),
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
    return read_number(element, default, problems, 1e9)
