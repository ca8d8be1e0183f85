"""``cobblestone upgrade``: bring the database to the schema of this version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, local_folder, output
from cobblestone.cli.output import Output

if TYPE_CHECKING:
    from cobblestone.service.upgrading import UpgradedDatabase, UpgradeState

WaitOption = Annotated[
    float, typer.Option(min=0, max=86400, help="Seconds to wait for the end of older programs.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing; say what would be done, and who is in the way.")
]


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("upgrade")(upgrade)


def upgrade(
    folder: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="The project's folder.")] = None,
    wait: WaitOption = 0,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Bring the database to the schema of this version, as far as all running programs can work with it.

    A server does the same at its start. On PostgreSQL, older processes may run meanwhile: steps that only add are taken at
    once, those that take something away wait for the end of the last process that needs it. The exit status is 1 if some
    still run. A SQLite project must be stopped.
    """
    from cobblestone.server.core.project import ProjectFolder

    opened = ProjectFolder((folder or local_folder(project)).resolve())
    upgrade_and_show(opened.upgraded(opened.settings()), dry_run=dry_run, wait=wait, out=output(json, quiet))


def upgrade_and_show(of: UpgradedDatabase, *, dry_run: bool, wait: float, out: Output) -> None:
    """Upgrade the database of a service, and say how far it is."""
    from cobblestone.service.upgrading import upgrade_service, upgrade_state

    state = upgrade_state(of) if dry_run else upgrade_service(of, wait=wait)
    out.show(state, lines=list(_lines(state)), essential=[state.schema])


def _lines(state: UpgradeState) -> Iterator[str]:
    """Return what a person reads."""
    yield f"The database has schema {state.schema or 'none'}; this version has {state.wanted}."
    if state.possible:
        yield f"Steps that can be taken now: {', '.join(state.possible)}."
    if state.waiting:
        yield f"Steps that wait for the end of older programs: {', '.join(state.waiting)}."
    for program in state.programs:
        yield f"  {program.text}{' is in the way' if program.in_the_way else ''}"
    if state.kept:
        yield f"The database from before is kept in {state.kept}."
