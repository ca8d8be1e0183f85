"""``cobblestone archive``, ``export``, ``audit`` and ``find``: a project's records and what it exports."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Annotated

import click
import msgspec

from cobblestone.cli.options import Common, OutputOptions, ProjectOption, local_folder
from cobblestone.cli.output import Output, error_console, size, when
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.domain.errors import StoreError

NOTHING_YET = "The archive is empty: finished jobs are moved there after files.purge_after."

archive_commands = Commands(help="Finished jobs that were moved out of the database.")


def _archive(project: str | None) -> Path:
    """Return the archive's database, with all that other machines have added."""
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.core.storage import archive_of, open_storage
    from cobblestone.store.work import archive

    folder = ProjectFolder(local_folder(project))
    settings = folder.settings()
    where = archive_of(folder, settings, open_storage(folder.root, settings.storage))
    archive.follow(where)
    return where.path


@archive_commands.verb("query")
def query(
    sql: Annotated[
        str,
        Argument(
            metavar="SQL",
            help="A query over the tables workunit, result and result_text, which have their "
            "original columns.",
        ),
    ],
    project: ProjectOption = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Query the archive, e.g. "SELECT name, granted_credit FROM result WHERE user_id = 1"."""
    from cobblestone.domain.errors import ConfigError
    from cobblestone.store.work import archive

    path = _archive(project)
    try:
        columns, rows = archive.query(path, sql)
    except FileNotFoundError as error:
        raise ConfigError(NOTHING_YET) from error
    except sqlite3.Error as error:
        raise ConfigError(f"The query failed: {error}.") from error
    data = [dict(zip(columns, row, strict=True)) for row in rows]
    out.table(data, columns, rows, empty="No rows.")


@archive_commands.verb("export")
def export_archive(
    folder: Annotated[Path, Argument(metavar="DIR", help="Where to write the files; created if missing.")],
    project: ProjectOption = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Write the archive as Parquet, one file per table, for pandas, DuckDB, R and the like."""
    from rich.status import Status

    from cobblestone.cli.output import error_console
    from cobblestone.domain.errors import ConfigError
    from cobblestone.server.operation.export_files import export_archive

    path = _archive(project)
    try:
        with Status("", console=error_console()) as status:
            made = export_archive(
                path, folder, report=status.update if not out.for_programs else lambda what: None
            )
    except FileNotFoundError as error:
        raise ConfigError(NOTHING_YET) from error
    out.show(
        {"place": str(folder), "rows": made},
        lines=[f"{folder / name}: rows: {count}" for name, count in made.items()],
        essential=[folder],
    )


def export(
    project: ProjectOption = None,
    parquet: Annotated[
        bool, Option("--parquet", help="Also write columns for researchers, regardless of the settings.")
    ] = False,
    check: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Do not export; read the export in this folder, of this or another project, and "
            "report errors.",
        ),
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Export consenting users, their computers, and teams for statistics sites; the server may run meanwhile."""
    if check is not None:
        _check_export(check, out)
        return
    import gc

    from rich.status import Status

    from cobblestone.ops.environment import system_clock
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.files.exports import CURRENT
    from cobblestone.server.operation.export import make_export

    folder = ProjectFolder(local_folder(project))
    gc.disable()  # millions of records are made, and none of them refers to another
    click.get_current_context().call_on_close(gc.enable)
    with Status("", console=error_console()) as status:
        made = make_export(
            folder,
            now=system_clock(),
            parquet=parquet,
            report=status.update if not out.for_programs else lambda what: None,
        )
    place = folder.exports / CURRENT
    counts = ", ".join(f"{count} {table}" for table, count in made.records.items() if count)
    out.show(
        {"place": str(place), "export": made},
        lines=[
            f"Exported into {place}: {counts or 'no one who agreed has credit yet'}",
            f"  files: {len(made.nbytes)}, {size(sum(made.nbytes.values()))}, in {made.seconds:.1f} s",
        ],
        essential=[place],
    )


def _check_export(folder: Path, out: Output) -> None:
    from cobblestone.server.operation.export import check_export

    found = check_export(folder)
    rows = [(each.name, each.records or "", each.problem or "good") for each in found]
    out.table(found, ["file", "records", ""], rows, right=["records"])
    bad = [each.name for each in found if each.problem]
    if bad:
        raise StoreError(f"Files with errors in the export in {folder}: {len(bad)} of {len(found)}.")


def audit(
    limit: Annotated[int, Option(min=1, max=1000, help="How many to show, newest first.")] = 50,
    before: Annotated[int | None, Option(min=1, help="Only entries before this number.")] = None,
    target: Annotated[str, Option(help="Only entries about this, such as 'host 12'.")] = "",
    actor: Annotated[str, Option(help="Only entries of this actor: start of the name.")] = "",
    common: Common = Common(),
) -> None:
    """Show who did what in the project, newest first."""
    from cobblestone.server.web.presentation.wording import changes

    found = common.ask(
        lambda connected: connected.operation.audit(limit=limit, before=before, target=target, actor=actor)
    )
    lines: list[str] = []
    for each in found:
        head = f"{each.id:>5}  {when(each.time)}  {each.actor} ({each.origin})"
        lines.append(f"{head}: {each.action} {each.target}")
        old, new = (msgspec.json.encode(value).decode() for value in (each.before, each.after))
        lines += [f"       {one.name}: {one.before or '–'} → {one.after or '–'}" for one in changes(old, new)]
    common.out.show(found, lines=lines or ["Nothing yet."], essential=[each.id for each in found])


def find(
    text: Annotated[str, Argument(metavar="TEXT", help="An ID, or the start of a name.")], common: Common
) -> None:
    """Find users, hosts, batches, workunits and results."""
    found = common.ask(lambda connected: connected.operation.search(text))
    rows = [(each.id, each.kind, each.name) for each in found]
    common.out.table(found, ["id", "kind", "name"], rows, empty="Nothing fits.")
