"""The parts of a client's state file for a simulation, and an anonymised copy of it.

The new text is made of a list of what is known to be harmless, so whatever else a client writes (keys, names, addresses,
paths, serial numbers, messages) is not taken over.  Numbers stay, names become ``project1``, ``app1``, ``job1``, and times
begin at :data:`FIRST_TIME`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from cobblestone.wire.client.state_file import state_tree
from cobblestone.wire.scheduler.host import COPROC_TYPES
from cobblestone.wire.text.tree import Node

#: What the earliest job of the new file was received at.
FIRST_TIME = 1_000_000.0

#: Numbers that are taken over, by the element that holds them.
NUMBERS: dict[str, tuple[str, ...]] = {
    "host_info": ("p_ncpus", "p_fpops", "p_iops", "p_membw", "m_nbytes", "m_cache", "m_swap"),
    "time_stats": (
        "on_frac", "connected_frac", "cpu_and_network_available_frac", "active_frac", "gpu_active_frac", "on_lambda",
        "connected_lambda", "active_lambda", "gpu_active_lambda",
    ),
    "project": ("resource_share", "duration_correction_factor", "rec"),
    "app": ("non_cpu_intensive", "latency_bound", "fpops_est", "weight"),
    "app_version": ("flops", "avg_ncpus"),
    "workunit": ("rsc_fpops_est", "rsc_fpops_bound", "rsc_memory_bound"),
    "result": (),
}  # fmt: skip
#: Numbers of an element within such an element.
NESTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "project": ("available", ("frac", "lambda")),
    "app": ("fpops", ("mean", "std_dev")),
}
#: Elements that hold names, and the kind of their new ones.
NAMES: dict[str, tuple[tuple[str, str], ...]] = {
    "app": (("name", "app"),),
    "app_version": (("app_name", "app"),),
    "workunit": (("name", "job"), ("app_name", "app")),
    "result": (("wu_name", "job"),),
}
TIMES = ("received_time", "report_deadline")


class _Aliases:
    """New names by kind and old name; those of apps and jobs are numbered per project."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = defaultdict(int)

    def of(self, kind: str, name: str) -> str:
        if (kind, name) not in self._known:
            self._counts[kind] += 1
            self._known[kind, name] = f"{kind}{self._counts[kind]}"
        return self._known[kind, name]


def anonymise_state(body: bytes) -> bytes:
    """Return the state file without data that identifies its owner.

    Raises :class:`RemoteProtocolError` if it is no state file.
    """
    root, _ = state_tree(body)
    shift = FIRST_TIME - _first_time(root)
    names, gpus, n_projects = _Aliases(), _Aliases(), 0
    lines: list[str] = []
    for node in root.children:
        if node.tag not in NUMBERS:
            continue
        if node.tag == "project":
            n_projects += 1
            names = _Aliases()
            kept = [
                _line("master_url", f"http://project{n_projects}.invalid/"),
                _line("project_name", f"project{n_projects}"),
            ]
        else:
            kept = [_line(tag, names.of(kind, node.inner(tag).text)) for tag, kind in NAMES.get(node.tag, ())]
        lines += _block(node.tag, [*kept, *_numbers(node, NUMBERS[node.tag]), *_rest(node, gpus, shift)])
    text = "\n".join(('<?xml version="1.0" encoding="utf-8"?>', *_block("client_state", lines), ""))
    return text.encode()


def _rest(node: Node, gpus: _Aliases, shift: float) -> list[str]:
    """Return the kept part of an element besides names and its own numbers."""
    lines: list[str] = []
    if node.tag in NESTED:
        tag, numbers = NESTED[node.tag]
        inner = node.find(tag)
        lines += _block(tag, _numbers(inner, numbers)) if inner else []
    match node.tag:
        case "host_info":
            each = [line for gpu in node.inner("coprocs").children for line in _gpu(gpu, gpus)]
            lines += _block("coprocs", each)
        case "app" if node.has("ignore"):
            lines.append(_line("ignore", "1"))
        case "app_version" if (coproc := node.find("coproc")) and (kind := coproc.inner("type").text):
            lines += _block("coproc", [_line("type", _gpu_type(kind, gpus)), *_numbers(coproc, ("count",))])
        case "result":
            times = ((tag, _number_at(node, tag)) for tag in TIMES)
            lines += [_line(tag, f"{at + shift:.3f}") for tag, at in times if at is not None]
        case _:
            pass
    return lines


def _gpu(node: Node, gpus: _Aliases) -> list[str]:
    numbers = _numbers(node, ("count", "peak_flops"))
    if COPROC_TYPES.get(node.tag):
        return _block(node.tag, numbers)
    kind = node.inner("type").text
    return _block("coproc", [_line("type", _gpu_type(kind, gpus)), *numbers]) if kind else []


def _gpu_type(kind: str, gpus: _Aliases) -> str:
    return kind if kind in COPROC_TYPES.values() else gpus.of("gpu", kind)


def _first_time(root: Node) -> float:
    times = [at for node in root.all("result") if (at := _number_at(node, "received_time"))]
    return min(times, default=FIRST_TIME)


def _number_at(node: Node, tag: str) -> float | None:
    """Return the number in an element; None if there is none, regardless of other content."""
    try:
        value = float(node.inner(tag).text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _numbers(node: Node, tags: Iterable[str]) -> list[str]:
    found = ((tag, _number_at(node, tag)) for tag in tags)
    return [_line(tag, f"{value:.17g}") for tag, value in found if value is not None]


def _line(tag: str, text: str) -> str:
    return f"<{tag}>{text}</{tag}>"


def _block(tag: str, lines: Iterable[str]) -> list[str]:
    return [f"<{tag}>", *(f"  {line}" for line in lines), f"</{tag}>"]
