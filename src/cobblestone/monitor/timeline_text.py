"""The timeline in characters: a line for each lane, past before the mark of now, forecast behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "bright_red", "bright_cyan", "bright_yellow")
RAN, PLANNED, LATE, NOW = "█", "▒", "!", "│"
MAX_LANES = 12
LEAST_AHEAD = 3600.0
LEAST_BEHIND = 600.0


def draw_timeline(timeline: Mapping[str, Any], width: int) -> list[Text]:
    """Return the lines of a timeline as the client tells it; lanes that do not fit are counted."""
    now, runs = float(timeline["now"]), timeline["runs"]
    begin = min([now - LEAST_BEHIND, *(run["begin"] for run in runs)])
    end = max([now + LEAST_AHEAD, *(run["end"] for run in runs)])

    def column(time: float) -> int:
        return min(width - 1, int(width * (time - begin) / (end - begin)))

    projects = list(dict.fromkeys(run["project"] for run in runs))
    lanes = 1 + max((run["lane"] for run in runs), default=-1)
    lines: list[Text] = []
    for lane in range(min(lanes, MAX_LANES)):
        cells = [(" ", "")] * width
        for run in (each for each in runs if each["lane"] == lane):
            sign = RAN if not run["planned"] else LATE if run["late"] else PLANNED
            colour = "red" if sign is LATE else COLOURS[projects.index(run["project"]) % len(COLOURS)]
            for place in range(column(run["begin"]), column(run["end"]) + 1):
                cells[place] = (sign, colour)
        cells[column(now)] = (NOW, "bold")
        lines.append(Text.assemble(*cells))
    if lanes > MAX_LANES:
        lines.append(Text(f"… and {lanes - MAX_LANES} more at once", "dim"))
    return lines or [Text("Nothing ran, and nothing will.", "dim")]
