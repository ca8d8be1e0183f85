"""The terminal display: what the client's page shows, timeline included, through the same JSON interface."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.css.query import NoMatches
from textual.widgets import DataTable, Footer, Static, TabbedContent, TabPane

from cobblestone.client.remote.access import Address, ask, notice_text
from cobblestone.domain.errors import CobblestoneError
from cobblestone.domain.values import HOUR

COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "bright_red", "bright_cyan", "bright_yellow")
RAN, PLANNED, LATE, NOW = "█", "▒", "!", "│"
MAX_LANES = 12
LEAST_AHEAD = 3600.0
LEAST_BEHIND = 600.0


def draw_timeline(timeline: Mapping[str, Any], width: int) -> list[Text]:
    """Return the lines of a timeline as the client reports it; lanes that do not fit are counted."""
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
    return lines or [Text("No runs, past or planned.", "dim")]


REFRESH_SECONDS = 2.0
#: Refreshes between two timelines.
TIMELINE_EVERY = 7
BAR = 12
Row = dict[str, Any]
_TABLES = {
    "tasks": ("task", "state", "done", "", "left", "deadline", "project"),
    "projects": ("project", "credit", "average", "our estimate", "tasks", "done", "failed"),
    "transfers": ("file", "direction", "bytes", "tries"),
    "notices": ("when", "from", "what"),
}


class MonitorDisplay(App[None]):
    """The display of one client, until q is pressed."""

    CSS = """
    #status { height: auto; padding: 0 1; }
    #timeline { height: auto; max-height: 14; padding: 0 1; }
    TabbedContent { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("s", "suspend", "Suspend or resume the task"),
        ("p", "pause", "Pause for an hour"),
        ("c", "compute", "Compute"),
        ("q", "quit", "Quit"),
    ]

    def __init__(self, address: Address, certificate: Path | None = None) -> None:
        super().__init__()
        self._client_address = address
        self._certificate = certificate
        self._times_shown = 0
        self._shown_tasks: list[Row] = []  # as they are shown

    def compose(self) -> ComposeResult:
        """Lay out the widgets."""
        yield Static("Connecting …", id="status", markup=False)
        yield Static(id="timeline")
        with TabbedContent():
            for name, columns in _TABLES.items():
                with TabPane(name.capitalize()), VerticalScroll():
                    table: DataTable[Text] = DataTable(id=name, cursor_type="row", zebra_stripes=True)
                    table.add_columns(*columns)
                    yield table
        yield Footer()

    def on_mount(self) -> None:
        """Start polling."""
        self.query_one("#tasks", DataTable).focus()
        self.set_interval(REFRESH_SECONDS, self.refresh_figures)
        self.call_later(self.refresh_figures)

    async def _ask_client(self, command: str, **given: Any) -> Any:
        return await asyncio.to_thread(ask, self._client_address, command, self._certificate, **given)

    async def refresh_figures(self) -> None:
        """Fetch everything and show it."""
        try:
            self._show_status(await self._ask_client("status"))
            self._shown_tasks = await self._ask_client("tasks")
            self._fill("tasks", [_task(row) for row in self._shown_tasks])
            self._fill("projects", [_project(row) for row in await self._ask_client("projects")])
            self._fill("transfers", [_transfer(row) for row in await self._ask_client("transfers")])
            self._fill("notices", [_notice(row) for row in reversed(await self._ask_client("notices"))])
            if self._times_shown % TIMELINE_EVERY == 0:
                lines = draw_timeline(await self._ask_client("timeline"), max(20, self.size.width - 2))
                self.query_one("#timeline", Static).update(Text("\n").join(lines))
            self._times_shown += 1
        except CobblestoneError as error:
            self.query_one("#status", Static).update(str(error))
        except NoMatches:
            if self.is_running:
                raise  # else it was closed while the client answered

    def _show_status(self, found: Row) -> None:
        counts, cpus = found["tasks"], found["cpus"]
        first = (
            f"{found['host_name'] or self._client_address.name}: {counts['running']} running, {counts['waiting']} waiting,"
            f" {counts['ready_to_report']} to report; {cpus['allowed']} of {cpus['of_computer']} CPUs;"
            f" policy {found['policy']}"
        )
        self.query_one("#status", Static).update("\n".join((first, *found["because"])))

    def _fill(self, name: str, rows: Sequence[Sequence[str | Text]]) -> None:
        table = self._rows_of(name)
        row, top = table.cursor_row, table.scroll_y
        table.clear()
        for cells in rows:
            table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in cells))
        table.move_cursor(row=min(row, len(rows) - 1), animate=False)
        table.scroll_y = top

    def _rows_of(self, name: str) -> DataTable[Text]:
        found = self.query_one(f"#{name}")
        assert isinstance(found, DataTable)  # noqa: S101  # `compose` made it
        return cast("DataTable[Text]", found)

    # -- keys -----------------------------------------------------------------------------------------------

    async def action_suspend(self) -> None:
        """Suspend or resume the chosen task."""
        if self._shown_tasks:
            row = self._shown_tasks[self._rows_of("tasks").cursor_row]
            await self._act("resume" if row["suspended"] else "suspend", what=row["project"] + row["name"])

    async def action_pause(self) -> None:
        """Stop computing for an hour."""
        await self._act("mode", which="run", mode="never", seconds=HOUR)

    async def action_compute(self) -> None:
        """Compute according to preferences."""
        await self._act("mode", which="run", mode="auto")

    async def _act(self, command: str, **given: Any) -> None:
        try:
            await self._ask_client(command, **given)
        except CobblestoneError as error:
            self.notify(str(error), severity="error", markup=False)
        await self.refresh_figures()


def _moment(time: float) -> str:
    return datetime.datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M")


def _task(row: Row) -> tuple[str | Text, ...]:
    done = float(row["fraction_done"])
    full = round(BAR * done)
    return (
        row["name"],
        row["state"],
        f"{done:.1%}",
        Text("█" * full + "·" * (BAR - full), "cyan"),
        str(datetime.timedelta(seconds=round(row["remaining"]))),
        _moment(row["deadline"]),
        row["project_name"] or row["project"],
    )


def _project(row: Row) -> tuple[str, ...]:
    return (
        row["name"] or row["url"],
        f"{row['host_credit']:.0f}",
        f"{row['host_average']:.1f}",
        f"{row['estimated_credit']:.1f}",
        str(row["tasks"]),
        str(row["jobs_done"]),
        str(row["jobs_failed"]),
    )


def _transfer(row: Row) -> tuple[str, ...]:
    return (row["file"], row["direction"], f"{row['bytes']:.0f} of {row['size']:.0f}", str(row["tries"]))


def _notice(row: Row) -> tuple[str, ...]:
    return _moment(row["create_time"]), row["project_name"] or "the client", notice_text(row)
