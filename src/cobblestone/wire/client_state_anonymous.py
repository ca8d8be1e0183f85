"""A state file that may be shown to others: what a simulation needs, and nothing that says whose it is.

The new file is made of a list of what is known to be harmless, so whatever else a client writes (keys, names, addresses,
paths, serial numbers, messages) is not taken over.  Numbers stay, names become ``project1``, ``app1``, ``job1``, and times
begin at :data:`FIRST_TIME`.
"""

from __future__ import annotations

import math
from collections import defaultdict

from lxml import etree

from cobblestone.wire.client_state import GPU_KINDS, parse_state

Element = etree._Element  # pyright: ignore[reportPrivateUsage]  # lxml has no public name for it

#: What the earliest job of the new file was received at.
FIRST_TIME = 1_000_000.0

#: Numbers that are taken over, by the element that holds them.
NUMBERS: dict[str, tuple[str, ...]] = {
    "host_info": ("p_ncpus", "p_fpops", "p_iops", "p_membw", "m_nbytes", "m_cache", "m_swap"),
    "time_stats": (
        "on_frac", "connected_frac", "cpu_and_network_available_frac", "active_frac", "gpu_active_frac", "on_lambda",
        "connected_lambda", "active_lambda", "gpu_active_lambda",
    ),
    "project": ("resource_share", "duration_correction_factor", "rec", "available/frac", "available/lambda"),
    "app": ("non_cpu_intensive", "latency_bound", "fpops_est", "fpops/mean", "fpops/std_dev", "weight"),
    "app_version": ("flops", "avg_ncpus", "coproc/count"),
    "workunit": ("rsc_fpops_est", "rsc_fpops_bound", "rsc_memory_bound"),
    "result": (),
}  # fmt: skip
#: Elements that hold names, and the kind of their new ones.
NAMES: dict[str, tuple[tuple[str, str], ...]] = {
    "project": (("project_name", "project"),),
    "app": (("name", "app"),),
    "app_version": (("app_name", "app"),),
    "workunit": (("name", "job"), ("app_name", "app")),
    "result": (("wu_name", "job"),),
}
TIMES = ("received_time", "report_deadline")


class _Aliases:
    """New names by kind and old name; those of apps and jobs begin anew with each project."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = defaultdict(int)

    def of(self, kind: str, name: str) -> str:
        if (kind, name) not in self._known:
            self._counts[kind] += 1
            self._known[kind, name] = f"{kind}{self._counts[kind]}"
        return self._known[kind, name]


def anonymise_state(body: bytes) -> bytes:
    """Return the state file without what says whose it is.

    Raises :class:`RemoteProtocolError` if it is no state file.
    """
    root = parse_state(body)
    made = etree.Element("client_state")
    shift = FIRST_TIME - _first_time(root)
    aliases, gpus, projects = _Aliases(), _Aliases(), 0
    for item in root:
        tag = str(item.tag)
        if tag not in NUMBERS:
            continue
        copy = etree.SubElement(made, tag)
        if tag == "project":
            projects += 1
            aliases = _Aliases()
            _add(copy, "master_url", f"http://project{projects}.invalid/")
            _add(copy, "project_name", f"project{projects}")
        else:
            for path, kind in NAMES.get(tag, ()):
                _add(copy, path, aliases.of(kind, (item.findtext(path) or "").strip()))
        for path in NUMBERS[tag]:
            value = _number(item, path)
            if value is not None:
                _add(copy, path, f"{value:.17g}")
        if tag == "host_info":
            _copy_gpus(item, copy, gpus)
        elif tag == "app_version" and (kind := (item.findtext("coproc/type") or "").strip()):
            _add(copy, "coproc/type", _gpu_type(kind, gpus))
        elif tag == "app" and item.find("ignore") is not None:
            _add(copy, "ignore", "1")
        elif tag == "result":
            for path in TIMES:
                at = _number(item, path)
                if at is not None:
                    _add(copy, path, f"{at + shift:.3f}")
    etree.indent(made)
    return etree.tostring(made, encoding="utf-8", xml_declaration=True) + b"\n"


def _number(item: Element, path: str) -> float | None:
    """Return the number in an element; None if there is none, whatever else it holds."""
    try:
        value = float((item.findtext(path) or "").strip())
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _add(parent: Element, path: str, text: str) -> None:
    """Add a text, and the elements above it that are missing."""
    *above, last = path.split("/")
    for tag in above:
        found = parent.find(tag)
        parent = found if found is not None else etree.SubElement(parent, tag)
    etree.SubElement(parent, last).text = text


def _first_time(root: Element) -> float:
    times = [at for item in root.iterfind("result") if (at := _number(item, "received_time"))]
    return min(times, default=FIRST_TIME)


def _gpu_type(kind: str, gpus: _Aliases) -> str:
    return kind if kind in GPU_KINDS.values() else gpus.of("gpu", kind)


def _copy_gpus(item: Element, copy: Element, gpus: _Aliases) -> None:
    for gpu in item.iterfind("coprocs/*"):
        tag = str(gpu.tag)
        kind = GPU_KINDS.get(tag)
        if kind is None and not (gpu.findtext("type") or "").strip():
            continue
        coprocs = copy.find("coprocs")
        made = etree.SubElement(
            coprocs if coprocs is not None else etree.SubElement(copy, "coprocs"),
            tag if kind else "coproc",
        )
        if kind is None:
            _add(made, "type", _gpu_type((gpu.findtext("type") or "").strip(), gpus))
        for path in ("count", "peak_flops"):
            value = _number(gpu, path)
            if value is not None:
                _add(made, path, f"{value:.17g}")
