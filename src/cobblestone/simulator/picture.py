"""A picture of what ran when: devices above, one lane per project below, deadlines and misses marked (needs
the extra ``lab``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cobblestone.domain.errors import ConfigError
from cobblestone.simulator.recording import Timeline
from cobblestone.simulator.scenario import DAY, Scenario

MISS = "#c1121f"
OFF = "#e3e3e3"


def load_matplotlib() -> Any:
    """Return ``matplotlib.pyplot`` without a screen.  Raises :class:`ConfigError` if it is not installed."""
    try:
        import matplotlib
    except ImportError as error:
        raise ConfigError("pictures need the extra: pip install 'cobblestone[lab]'") from error
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def colour(index: int) -> str:
    """Return a colour for a project: hues that differ from their neighbours, light and dark in turn."""
    import colorsys

    hue = (index * 0.38196601125) % 1.0
    red, green, blue = colorsys.hls_to_rgb(hue, (0.42, 0.6)[index % 2], 0.55)
    return f"#{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}"


def draw_timeline(timeline: Timeline, scenario: Scenario, path: Path, *, title: str) -> None:
    """Write the picture; the suffix of ``path`` (.svg, .png, .pdf) chooses the form."""
    plt = load_matplotlib()
    devices = _device_rows(timeline, scenario)
    lanes = len(scenario.projects)
    fig, (top, bottom) = plt.subplots(
        2, 1, sharex=True, figsize=(13, 1.6 + 0.32 * len(devices) + 0.36 * lanes), layout="constrained",
        gridspec_kw={"height_ratios": [len(devices) + 0.6, lanes + 0.6]},
    )  # fmt: skip
    low, high = timeline.start, min(timeline.end, scenario.duration)
    _shade_off(top, timeline, low, high)
    _shade_off(bottom, timeline, low, high)
    for spell in timeline.spells:
        begin, width = max(spell.start, low) / DAY, (min(spell.end, high) - max(spell.start, low)) / DAY
        if width <= 0:
            continue
        style = {
            "facecolors": colour(spell.project),
            "edgecolor": MISS if spell.edf else "white",
            "linewidth": 1.1 if spell.edf else 0.3,
        }
        row = devices.index(_device(spell.gpu, spell.slot))
        top.broken_barh([(begin, width)], (row - 0.4, spell.width - 0.2), **style)
        bottom.broken_barh([(begin, width)], (spell.project - 0.32, 0.64), **style)
    for finish in timeline.finishes:
        late = finish.at > finish.deadline or finish.failed
        colour_of_end = MISS if late else "black"
        bottom.plot(
            finish.at / DAY,
            finish.project,
            marker="X" if late else ".",
            color=colour_of_end,
            markersize=8 if late else 4,
            markeredgecolor="white",
            markeredgewidth=0.4 if late else 0,
            zorder=4,
        )
        if low <= finish.deadline <= high:
            lane = [finish.project - 0.45, finish.project + 0.45]
            bottom.plot(
                [finish.deadline / DAY] * 2, lane, color=colour_of_end, linewidth=0.9, linestyle=":", zorder=3
            )
    top.set_yticks(range(len(devices)), devices)
    top.set_ylim(len(devices) - 0.4, -0.6)
    top.set_title(title, loc="left", fontsize=11)
    bottom.set_yticks(range(lanes), [p.name for p in scenario.projects], fontsize=8 if lanes > 12 else 9)
    bottom.set_ylim(lanes - 0.4, -0.6)
    bottom.set_xlim(low / DAY, high / DAY)
    bottom.set_xlabel(
        "days.  Red edge: run early because of a deadline; dot: finished in time; red cross: finished late or failed;"
        " dotted line: deadline; grey: host off",
        fontsize=9,
    )
    fig.savefig(path, dpi=130)
    plt.close(fig)


def _device(gpu: str, slot: int) -> str:
    return f"{gpu or 'CPU'} {slot}"


def _device_rows(timeline: Timeline, scenario: Scenario) -> list[str]:
    rows = [_device("", i) for i in range(scenario.host.ncpus)] if scenario.host.ncpus <= 16 else []
    used = {(s.gpu != "", s.gpu, s.slot + i) for s in timeline.spells for i in range(s.width)}
    rows += [_device(gpu, slot) for _, gpu, slot in sorted(used) if _device(gpu, slot) not in rows]
    return rows or ["CPU 0"]


def _shade_off(axes: Any, timeline: Timeline, low: float, high: float) -> None:
    for start, end in timeline.off:
        if end > low and start < high:
            axes.axvspan(
                max(start, low) / DAY, min(end, high) / DAY, color=OFF, alpha=0.8, linewidth=0, zorder=2.5
            )
