"""Pictures of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cobblestone.simulator.report.picture import load_matplotlib, save_picture

Entry = dict[str, Any]  # Any: JSON

#: The honest scenario that cloud, drift and escrow are drawn of, if it was run.
SHOWN = "normal-q1"


def draw_all(entries: Sequence[Entry], folder: Path) -> list[Path]:
    """Draw what the results allow; return the files.  The same results make the same files."""
    plt = load_matplotlib()
    with plt.rc_context({"svg.hashsalt": "cobblestone", "svg.fonttype": "none"}):
        return _draw(plt, entries, folder)


def _draw(plt: Any, entries: Sequence[Entry], folder: Path) -> list[Path]:
    made = list[Path]()
    attacks = [entry for entry in entries if "/" in entry["scenario"]]
    if attacks:
        made.append(folder / "gains.svg")
        _heat_map(plt, attacks, made[-1])
    honest = [entry for entry in entries if "/" not in entry["scenario"]]
    scenario = next((entry["scenario"] for entry in honest if entry["scenario"] == SHOWN), None)
    scenario = scenario or (honest[0]["scenario"] if honest else "")
    first = {entry["system"]: entry for entry in reversed(honest) if entry["scenario"] == scenario}
    if first:
        shown = [first[system] for system in sorted(first)]
        made += [folder / f"{name}.svg" for name in ("cloud", "drift", "escrow")]
        _cloud(plt, shown, made[-3])
        _lines(plt, shown, "periods", made[-2])
        _lines(plt, shown, "escrow", made[-1])
    return made


def _heat_map(plt: Any, attacks: Sequence[Entry], path: Path) -> None:
    systems = list(dict.fromkeys(entry["system"] for entry in attacks))
    scenarios = list(dict.fromkeys(entry["scenario"] for entry in attacks))
    sums: dict[tuple[str, str], list[float]] = {}
    for entry in attacks:
        gain = entry["figures"].get("gain")
        if gain is not None:
            sums.setdefault((entry["scenario"], entry["system"]), []).append(gain)
    gains = [
        [
            math.fsum(found) / len(found) if (found := sums.get((row, column))) else math.nan
            for column in systems
        ]
        for row in scenarios
    ]
    size = (2.5 + 1.1 * len(systems), 1.5 + 0.24 * len(scenarios))
    fig, axis = plt.subplots(figsize=size, layout="constrained")
    shades = [
        [math.log(max(each, 0.1)) if not math.isnan(each) else math.nan for each in row] for row in gains
    ]
    axis.imshow(shades, cmap="RdYlGn_r", vmin=-math.log(2.0), vmax=math.log(2.0), aspect="auto")
    for y, row in enumerate(gains):
        for x, each in enumerate(row):
            bold = "bold" if each > 1.10 else "normal"
            axis.text(
                x,
                y,
                "" if math.isnan(each) else f"{each:.2f}",
                ha="center",
                va="center",
                fontsize=7,
                weight=bold,
            )
    axis.set_xticks(range(len(systems)), systems, rotation=40, ha="right", fontsize=8)
    axis.set_yticks(range(len(scenarios)), scenarios, fontsize=7)
    axis.set_title("Gain of attackers (bold: above 1.10)", fontsize=10)
    save_picture(plt, fig, path, 110)


def _panels(plt: Any, n: int) -> tuple[Any, list[Any]]:
    columns = min(4, n)
    rows = -(-n // columns)
    fig, axes = plt.subplots(
        rows,
        columns,
        figsize=(3.0 * columns, 2.4 * rows),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    flat = [axis for row in axes for axis in row]
    for axis in flat[n:]:
        axis.set_visible(False)
    return fig, flat


def _cloud(plt: Any, entries: Sequence[Entry], path: Path) -> None:
    fig, axes = _panels(plt, len(entries))
    for axis, entry in zip(axes, entries, strict=False):
        for gpu, colour in ((0.0, "#0072b2"), (1.0, "#e69f00")):
            dots = [each for each in entry["figures"]["cloud"] if each[2] == gpu and each[1]]
            axis.scatter([each[0] for each in dots], [each[1] for each in dots], s=4, color=colour)
            if dots:  # a system may have paid nobody
                axis.set_xscale("log")
                axis.set_yscale("log")
        axis.axhline(1.0, color="black", linewidth=0.6)
        axis.set_title(entry["system"], fontsize=9)
    fig.supxlabel("true operations per second; orange: GPUs", fontsize=9)
    save_picture(plt, fig, path, 110)


def _lines(plt: Any, entries: Sequence[Entry], name: str, path: Path) -> None:
    fig, axis = plt.subplots(figsize=(8.0, 4.0), layout="constrained")
    for place, entry in enumerate(entries):
        figures = entry["figures"][name]
        axis.plot(
            range(1, len(figures) + 1),
            figures,
            label=entry["system"],
            linestyle=("-", "--", ":")[place // 10 % 3],
        )
    axis.legend(fontsize=7, ncols=3, frameon=False)
    axis.set_xlabel("periods of the run" if name == "escrow" else "periods of the counted time", fontsize=9)
    save_picture(plt, fig, path, 110)
