"""Read a client's state file: host, projects, apps and jobs, as far as a simulation needs them.

Also understood are the extra elements of BOINC's emulator: ``latency_bound``, ``fpops_est``, ``fpops``,
``weight`` and ``ignore`` in an app, ``available`` in a project, and the mean lengths ``on_lambda`` and so
on in ``time_stats``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from lxml import etree

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.xml_reader import safe_parser

MAX_STATE_BYTES = 64 * 1024 * 1024
MAX_ITEMS = 100_000
#: GPU types by the element that describes them.
GPU_KINDS = {
    "coproc_cuda": "NVIDIA",
    "coproc_ati": "ATI",
    "coproc_intel_gpu": "intel_gpu",
    "coproc_apple_gpu": "apple_gpu",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateGpu:
    """GPUs of one type in a state file."""

    type: str
    count: int
    peak_flops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StateApp:
    """An app of a project in a state file; None where nothing in the file tells."""

    name: str
    latency_bound: float | None = None  #: seconds
    fpops_est: float | None = None
    fpops_mean: float | None = None
    fpops_stdev: float | None = None
    weight: float = 1.0
    ignore: bool = False
    non_cpu_intensive: bool = False
    flops: float | None = None  #: of its latest version on this host
    avg_ncpus: float = 1.0
    gpu_type: str = ""
    gpu_usage: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateProject:
    """A project in a state file."""

    url: str
    name: str
    resource_share: float = 100.0
    available_frac: float = 1.0
    available_lambda: float = 3600.0
    apps: tuple[StateApp, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientStateSummary:
    """What a simulation takes from a state file."""

    p_ncpus: int
    p_fpops: float
    gpus: tuple[StateGpu, ...] = ()
    on_frac: float = 1.0
    active_frac: float = 1.0
    on_lambda: float = 3600.0
    projects: tuple[StateProject, ...] = field(default_factory=tuple)


def read_client_state(body: bytes) -> ClientStateSummary:
    """Read a state file.  Raises :class:`RemoteProtocolError` naming the element and value that cannot be
    used.
    """
    root = parse_state(body)
    host = root.find("host_info")
    if host is None:
        raise RemoteProtocolError("<host_info> is missing; without it the host's speed is unknown")
    times = root.find("time_stats")
    return ClientStateSummary(
        p_ncpus=int(_number(host, "p_ncpus", 1, 1, 1024)),
        p_fpops=_number(host, "p_fpops", 1e9, 1e3, 1e18),
        gpus=_gpus(host),
        on_frac=_number(times, "on_frac", 1.0, 0.0, 1.0),
        active_frac=_number(times, "active_frac", 1.0, 0.0, 1.0),
        on_lambda=_number(times, "on_lambda", 3600.0, 1.0, 1e9),
        projects=_projects(root),
    )


def parse_state(body: bytes) -> etree._Element:  # pyright: ignore[reportPrivateUsage]  # lxml has no public name for it
    """Return the outermost element of a state file.  Raises :class:`RemoteProtocolError` if it is none."""
    if len(body) > MAX_STATE_BYTES:
        raise RemoteProtocolError(f"the state file has {len(body)} bytes; at most {MAX_STATE_BYTES} are read")
    try:
        root = etree.fromstring(body, safe_parser())
    except etree.XMLSyntaxError as error:
        raise RemoteProtocolError(f"the state file is not well-formed: {error.msg}") from error
    if root.tag != "client_state":
        raise RemoteProtocolError(f"the outermost element is <{root.tag}>; a state file has <client_state>")
    return root


def _text(parent: etree._Element | None, name: str) -> str:  # pyright: ignore[reportPrivateUsage]  # lxml has no public name for it
    found = None if parent is None else parent.findtext(name)
    return (found or "").strip()


def _number(parent: etree._Element | None, name: str, default: float, low: float, high: float) -> float:  # pyright: ignore[reportPrivateUsage]  # as above
    text = _text(parent, name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise RemoteProtocolError(f"<{name}> = {text[:40]!r}; allowed: {low:g} to {high:g}")
    return value


def _optional(parent: etree._Element | None, name: str) -> float | None:  # pyright: ignore[reportPrivateUsage]  # as above
    return _number(parent, name, 0.0, 0.0, 1e30) if _text(parent, name) else None


def _gpus(host: etree._Element) -> tuple[StateGpu, ...]:  # pyright: ignore[reportPrivateUsage]  # as above
    found: list[StateGpu] = []
    for item in host.iterfind("coprocs/*"):
        kind = GPU_KINDS.get(str(item.tag)) or _text(item, "type")
        if kind:
            count = int(_number(item, "count", 1, 0, 64))
            if count:
                found.append(
                    StateGpu(type=kind, count=count, peak_flops=_number(item, "peak_flops", 1e11, 1.0, 1e18))
                )
    return tuple(found)


def _projects(root: etree._Element) -> tuple[StateProject, ...]:  # pyright: ignore[reportPrivateUsage]  # as above
    """Apps, versions, workunits and results follow their project in the file."""
    projects: list[StateProject] = []
    current: etree._Element | None = None  # pyright: ignore[reportPrivateUsage]  # as above
    parts: dict[str, list[etree._Element]] = {}  # pyright: ignore[reportPrivateUsage]  # as above
    for number, item in enumerate(root):
        if number > MAX_ITEMS:
            raise RemoteProtocolError(f"the state file has more than {MAX_ITEMS} elements")
        if item.tag == "project":
            if current is not None:
                projects.append(_project(current, parts))
            current, parts = item, {}
        elif current is not None:
            parts.setdefault(str(item.tag), []).append(item)
    if current is not None:
        projects.append(_project(current, parts))
    return tuple(projects)


def _project(item: etree._Element, parts: dict[str, list[etree._Element]]) -> StateProject:  # pyright: ignore[reportPrivateUsage]  # as above
    url = _text(item, "master_url")
    return StateProject(
        url=url,
        name=_text(item, "project_name") or url,
        resource_share=_number(item, "resource_share", 100.0, 0.0, 1e9),
        available_frac=_number(item, "available/frac", 1.0, 0.001, 1.0),
        available_lambda=_number(item, "available/lambda", 3600.0, 1.0, 1e9),
        apps=tuple(_app(app, parts) for app in parts.get("app", [])),
    )


def _app(item: etree._Element, parts: dict[str, list[etree._Element]]) -> StateApp:  # pyright: ignore[reportPrivateUsage]  # as above
    name = _text(item, "name")
    version = next((v for v in reversed(parts.get("app_version", [])) if _text(v, "app_name") == name), None)
    workunits = {_text(w, "name"): w for w in parts.get("workunit", []) if _text(w, "app_name") == name}
    estimates = [e for w in workunits.values() if (e := _optional(w, "rsc_fpops_est"))]
    bounds = [
        deadline - received
        for r in parts.get("result", [])
        if _text(r, "wu_name") in workunits
        and (deadline := _optional(r, "report_deadline"))
        and (received := _optional(r, "received_time"))
        and deadline > received
    ]
    return StateApp(
        name=name,
        latency_bound=_optional(item, "latency_bound") or (bounds[0] if bounds else None),
        fpops_est=_optional(item, "fpops_est") or (estimates[0] if estimates else None),
        fpops_mean=_optional(item, "fpops/mean"),
        fpops_stdev=_optional(item, "fpops/std_dev"),
        weight=_number(item, "weight", 1.0, 0.0, 1e9),
        ignore=item.find("ignore") is not None,
        non_cpu_intensive=_text(item, "non_cpu_intensive") == "1",
        flops=_optional(version, "flops"),
        avg_ncpus=_number(version, "avg_ncpus", 1.0, 0.0, 1024.0),
        gpu_type=_text(version, "coproc/type"),
        gpu_usage=_number(version, "coproc/count", 0.0, 0.0, 64.0),
    )
