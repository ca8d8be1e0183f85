"""The live display of the demonstration."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from cobblestone.demo.stock_client import ClientTask

MAX_TASKS_SHOWN = 6


@dataclass(frozen=True, slots=True)
class Volunteer:
    """One volunteer's state for the display."""

    name: str
    tasks: Sequence[ClientTask]


class Display:
    """Shows the progress of a batch; plain lines where there is no terminal."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._task: TaskID = self._progress.add_task("answers", total=total)
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._last_line = ""
        self._begin = time.monotonic()

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, done: int, volunteers: Sequence[Volunteer], note: str = "") -> None:
        """Show a new state; ``note`` is a line of its own."""
        self._progress.update(self._task, completed=done)
        if self._live is not None:
            self._live.update(Group(self._progress, *([note] if note else []), *self._tables(volunteers)))
            return
        computing = sum(
            1 for each in volunteers for task in each.tasks if task.active_task_state == "EXECUTING"
        )
        line = f"{done} of {self._progress.tasks[0].total:g} answers, {computing} tasks computing" + (
            f"; {note}" if note else ""
        )
        if line != self._last_line:
            self._last_line = line
            self._console.print(f"  {time.monotonic() - self._begin:5.1f} s  {line}")

    def _tables(self, volunteers: Sequence[Volunteer]) -> list[RenderableType]:
        tables: list[RenderableType] = []
        for volunteer in volunteers:
            table = Table(title=volunteer.name, title_justify="left", box=None, padding=(0, 2))
            table.add_column("task", width=36)
            table.add_column("state", width=12)
            table.add_column("done", justify="right", width=7)
            table.add_column("CPU time", justify="right", width=9)
            shown = sorted(volunteer.tasks, key=lambda task: task.active_task_state != "EXECUTING")
            for task in shown[:MAX_TASKS_SHOWN]:
                state = "computing" if task.active_task_state == "EXECUTING" else task.state
                table.add_row(task.name, state, f"{task.fraction_done:.0%}", f"{task.cpu_time:.1f} s")
            if len(shown) > MAX_TASKS_SHOWN:
                table.add_row(f"… and {len(shown) - MAX_TASKS_SHOWN} more", "", "", "")
            tables.append(table)
        return tables
