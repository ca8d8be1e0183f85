"""``cobblestone status``: how a project is doing."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from cobblestone.cli.options import Common
from cobblestone.cli.output import size, when

if TYPE_CHECKING:
    from cobblestone.api_schema.project import ProjectStatus

WATCH_SECONDS = 2.0


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("status")(status)


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option(min=0.2, max=3600, help="Seconds between two looks.")
    ] = WATCH_SECONDS,
    *,
    common: Common,
) -> None:
    """Tell how the project is doing."""
    with common.connect() as connected:
        running = connected.running
        out = common.out
        while True:
            found = connected.status()
            if watch and not (common.json or common.quiet):
                Console().clear()
            out.show(
                {"running": running, "project": found},
                lines=status_lines(found, running=running),
                essential=["running" if running else "stopped"],
            )
            if not watch:
                return
            time.sleep(every)


def status_lines(found: ProjectStatus, *, running: bool) -> list[str]:
    """Return the state for people."""
    counts = found.counts
    state = f"running since {when(found.started)}" if running and found.started else "not running"
    lines = [
        f"{found.name} at {found.url}: {state} (cobblestone {found.version})",
        f"  computers   {counts.hosts} known, {counts.active_hosts} called within a day; {counts.users} users",
        f"  apps        {counts.apps}"
        + (f", {counts.unsigned_versions} versions wait for signatures" if counts.unsigned_versions else ""),
        f"  batches     {counts.open_batches} not finished",
        f"  results     {counts.results_unsent} to be sent, {counts.results_in_progress} on computers",
        (
            f"  workunits   {counts.workunits_to_validate} to validate, {counts.workunits_to_assimilate} to assimilate,"
            f" {counts.workunits_to_delete} with files to delete; transitioner {found.backlog_seconds:.0f} s behind"
        ),
        f"  last day    {found.results_last_day} results ended, {found.error_rate:.1%} of them badly",
        (
            f"  disk        {size(found.disk_free)} free, database {size(found.database_bytes)},"
            f" {found.write_backlog} writes wait"
        ),
    ]
    if running and found.daemons:
        bad = [each for each in found.daemons if each.state != "running"]
        lines.append(f"  daemons     {len(found.daemons) - len(bad)} of {len(found.daemons)} do their rounds")
        lines += [f"    {each.name}: {each.state} {each.last_error}".rstrip() for each in bad]
    lines += _process_lines(found)
    lines += [f"  {'SEVERE' if each.severe else 'warning'}: {each.text}" for each in found.warnings]
    return lines


def _process_lines(found: ProjectStatus) -> list[str]:
    """Return the processes, where they are several; those that were told to stop are of no interest."""
    processes = [each for each in found.processes if not each.ended]
    if len(processes) < 2:
        return []
    return [
        "  processes",
        *(
            f"    {each.host} {each.pid}: {_roles(each.roles)}; "
            + (
                f"up since {when(each.started)}"
                if each.alive
                else f"NOT HEARD OF since {when(each.last_beat)}"
            )
            + (f"; cobblestone {each.version}" if each.version != found.version else "")
            for each in processes
        ),
    ]


def _roles(names: list[str]) -> str:
    from cobblestone.server.core.roles import ALL_ROLES

    return "all roles" if set(names) == set(ALL_ROLES) else ", ".join(names)
