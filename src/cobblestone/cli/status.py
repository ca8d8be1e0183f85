"""``cobblestone status``: how a project is doing."""

from __future__ import annotations

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, TokenOption, open_project, output


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("status")(status)


def status(
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Tell how the project is doing."""
    with open_project(project, token) as connected:
        found, running = connected.status(), connected.running
    counts = found.counts
    lines = [
        f"{found.name} at {found.url}: {'running' if running else 'not running'} (cobblestone {found.version})",
        f"  computers   {counts.hosts} known, {counts.active_hosts} called within a day; {counts.users} users",
        f"  apps        {counts.apps}"
        + (f", {counts.unsigned_versions} versions wait for signatures" if counts.unsigned_versions else ""),
        f"  batches     {counts.open_batches} not finished",
        f"  results     {counts.results_unsent} to be sent, {counts.results_in_progress} on computers",
        (
            f"  workunits   {counts.workunits_to_validate} to validate, {counts.workunits_to_assimilate} to assimilate,"
            f" {counts.workunits_to_delete} with files to delete"
        ),
    ]
    output(json, quiet).show(
        {"running": running, "project": found}, lines=lines, essential=["running" if running else "stopped"]
    )
