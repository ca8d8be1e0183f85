"""``cobblestone backup``, ``restore``, ``upgrade``, ``doctor``, and their output, shared by all services."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar

import click

from cobblestone.cli.options import Common, OutputOptions, ProjectOption, local_folder
from cobblestone.cli.output import Output, error_console, named, size, when
from cobblestone.cli.parameters import Argument, Option
from cobblestone.domain.errors import CobblestoneError
from cobblestone.domain.exports import KeysInBackup

if TYPE_CHECKING:
    from cobblestone.api_schema.operation import Check, Diagnosis
    from cobblestone.service import diagnosis
    from cobblestone.service.backup import BackupManifest, Contents, Report
    from cobblestone.service.folder import Kind, ServiceFolder, UpgradeState, WithDatabase

C = TypeVar("C")
P = ParamSpec("P")

TargetArgument = Annotated[
    Path, Argument(metavar="DIR|FILE", help="A new folder, or a new file: .tar, .tar.gz or .tgz.")
]
KeysOption = Annotated[
    KeysInBackup, Option(help="Which secrets to include. Without them it cannot be restored completely.")
]
RestoredArgument = Annotated[
    Path | None, Argument(metavar="DIR", help="A folder that is empty or does not exist.")
]
RestoredDatabaseOption = Annotated[
    str,
    Option(
        metavar="postgresql://USER@HOST/DATABASE",
        help="An empty database for a service that was on PostgreSQL. Without it: the one that the settings in the backup"
        " name, if it is empty.",
    ),
]
CheckOption = Annotated[bool, Option("--check", help="Only check the backup.")]


def backup(
    target: TargetArgument,
    project: ProjectOption = None,
    keys: KeysOption = KeysInBackup.ALL,
    results: Annotated[bool, Option(help="Include the output of assimilators (the folder results).")] = True,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Back up a project, running or stopped, and verify the copy."""
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.operation.backup import project_contents

    contents = project_contents(ProjectFolder(local_folder(project)), keys, results=results)
    backup_and_show(contents, target, out)


def restore(
    source: Annotated[Path, Argument(metavar="BACKUP", help="A backup made by `cobblestone backup`.")],
    target: RestoredArgument = None,
    database: RestoredDatabaseOption = "",
    check: CheckOption = False,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Make a project folder from a backup; every file is checked first."""
    from cobblestone.server.core.project import ProjectFolder

    restore_and_show(ProjectFolder.kind, source, target, check=check, database=database, out=out)


def backup_and_show(contents: Contents, target: Path, out: Output) -> None:
    """Back up a service, check the copy, and say what it holds."""
    from cobblestone.service.backup import make_backup, verify_backup

    with progress(out.for_programs) as report:
        made = make_backup(contents, target.absolute(), report=report)
        verify_backup(target.absolute(), contents.kind, report=report)
    if contents.keys is KeysInBackup.ALL:
        out.warn("the backup holds secrets: keep it as safe as the server itself.")
    _show_manifest(out, made, target, "Backed up")


def restore_and_show(
    kind: Kind, source: Path, target: Path | None, *, check: bool, database: str = "", out: Output
) -> None:
    """Restore a service, or check a backup only, and say what it holds.

    Raises:
        BadParameter: neither a place nor ``check``, or both.
    """
    from cobblestone.service.backup import restore_backup, verify_backup

    if check == (target is not None):
        raise click.BadParameter("give the folder to restore into, or --check")
    with progress(out.for_programs) as report:
        if target is None:
            found = verify_backup(source.absolute(), kind, report=report)
        else:
            found = restore_backup(source.absolute(), target, kind, database=database, report=report)
    _show_manifest(out, found, target or source, "Restored" if target else "Sound:")
    if target is not None and found.keys != KeysInBackup.ALL.value:
        out.warn(
            f"the backup was made with --keys {found.keys}: put the missing files into {target / 'keys'} before you run it."
        )


def _show_manifest(out: Output, manifest: BackupManifest, place: Path, verb: str) -> None:
    out.show(
        {
            "place": str(place),
            **named(manifest, "name", "url", "time", "cobblestone", "schema", "keys"),
            "files": len(manifest.files),
            "nbytes": manifest.nbytes,
        },
        lines=[
            f"{verb} {manifest.name} ({manifest.url}): {place}",
            (
                f"  files: {len(manifest.files)}, {size(manifest.nbytes)}, as of {when(manifest.time)};"
                f" cobblestone {manifest.cobblestone}{manifest.schema and f', schema {manifest.schema}'}"
            ),
        ],
        essential=[place],
    )


@contextmanager
def progress(hidden: bool) -> Generator[Report]:
    """Show a progress bar."""
    from rich.progress import Progress

    with Progress(console=error_console(), transient=True, disable=hidden) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, part: bar.update(task, description=what, completed=part)


ToOption = Annotated[
    str, Option("--to", metavar="postgresql://USER@HOST/DATABASE", help="An empty PostgreSQL database.")
]


def move_and_show(folder: ServiceFolder, address: str, *, start: str, out: Output) -> None:
    """Move a stopped service to PostgreSQL with a bar of progress.  ``start``: the command that starts the service."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from cobblestone.service.settings import move_service

    columns = (TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = error_console()
    with Progress(*columns, console=console, disable=out.for_programs or not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        moved = move_service(
            folder,
            address,
            progress=lambda name, done, total: bar.update(
                task, description=name, completed=done, total=total
            ),
        )
    n_rows = sum(table.rows for table in moved.tables)
    if stripped := sum(table.stripped for table in moved.tables):
        out.warn(f"NUL characters were removed from rows ({stripped}): PostgreSQL cannot store them.")
    out.show(
        {"rows": n_rows, "tables": moved.tables, "settings": str(moved.settings), "kept": str(moved.kept)},
        lines=[
            f"Moved what the {len(moved.tables)} tables hold (rows: {n_rows}), and verified that they are the same.",
            f"{moved.settings} names the new database.",
            f"{moved.kept} is unchanged; delete it when you no longer need it.",
            "",
            "Next:",
            f"  {start}",
        ],
        essential=[n_rows],
    )


WaitOption = Annotated[float, Option(min=0, max=86400, help="Seconds to wait for older programs to end.")]
DryRunOption = Annotated[
    bool, Option("--dry-run", help="Change nothing; show what would be done, and what prevents it.")
]


def upgrade(
    folder: Annotated[Path | None, Argument(metavar="DIR", help="The project's folder.")] = None,
    wait: WaitOption = 0,
    dry_run: DryRunOption = False,
    project: ProjectOption = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Upgrade the database to the schema of this version, as far as all running programs support it.

    A server does the same at its start. On PostgreSQL, older processes may run meanwhile: steps that only add are taken at
    once, those that take something away wait for the end of the last process that needs it. The exit status is 1 if some
    still run. A SQLite project must be stopped.
    """
    from cobblestone.server.core.project import ProjectFolder

    opened = ProjectFolder((folder or local_folder(project)).resolve())
    upgrade_and_show(opened, opened.settings(), dry_run=dry_run, wait=wait, out=out)


def upgrade_and_show(
    folder: ServiceFolder, settings: WithDatabase, *, dry_run: bool, wait: float, out: Output
) -> None:
    """Upgrade the database of a service, and say how far it is."""
    from cobblestone.service.folder import upgrade_service, upgrade_state

    state = upgrade_state(folder, settings) if dry_run else upgrade_service(folder, settings, wait=wait)
    out.show(state, lines=list(_upgrade_lines(state)), essential=[state.schema])


def _upgrade_lines(state: UpgradeState) -> Iterator[str]:
    """Return the lines for people."""
    yield f"The database has schema {state.schema or 'none'}; this version has {state.wanted}."
    if state.possible:
        yield f"Steps possible now: {', '.join(state.possible)}."
    if state.waiting:
        yield f"Steps that wait for older programs to end: {', '.join(state.waiting)}."
    for program in state.programs:
        yield f"  {program.text}{' is in the way' if program.in_the_way else ''}"
    if state.kept:
        yield f"The previous database is kept in {state.kept}."


EXIT_UNSOUND = 4
SHOWN = 10

OnlyOption = Annotated[
    list[str] | None, Option("--check", metavar="NAME", help="Only this check; may be repeated.")
]


RepairOption = Annotated[bool, Option("--repair", help="Mend what can be mended safely.")]


def doctor(
    check: OnlyOption = None,
    repair: Annotated[
        bool, Option("--repair", help="Repair what can be repaired safely; recorded in the audit log.")
    ] = False,
    common: Common = Common(),
) -> None:
    """Check the integrity of a live project: results, credit, files, keys, versions, disk.

    The exit status is 4 if something is wrong (warnings alone do not count).
    """
    with common.connect() as connected:
        doing = connected.operation
        examine(
            doing.checks,
            check or [],
            doing.diagnose,
            (lambda name: doing.repair(name).repaired) if repair else None,
            common.out,
            what="project",
        )


@dataclass(frozen=True)
class _Doing:
    """What a terminal shows while a check goes on."""

    text: str
    look: Callable[[], Sequence[Check]]

    def __rich__(self) -> str:
        rows = of_about = 0
        with contextlib.suppress(CobblestoneError):  # the check itself will say so
            checks = self.look()
            rows, of_about = sum(each.rows for each in checks), sum(each.of_about for each in checks)
        of = f" of about {of_about:,}" if of_about > rows else ""
        return f"{self.text} {rows:,}{of} rows" if rows else self.text


def examine(
    look: Callable[[], Sequence[Check]],
    wanted: Sequence[str],
    diagnose: Callable[[str], Diagnosis],
    mend: Callable[[str], int] | None,
    out: Output,
    *,
    what: str,
) -> None:
    """Run all checks of a service (``what``), or the chosen ones, and repair what can be repaired if ``mend`` is set.

    ``look`` returns the checks, also while one goes on.

    Raises:
        BadParameter: there is no such check.
        Exit: something is wrong.
    """
    report: list[dict[str, object]] = []
    unsound, quiet = False, out.for_programs
    checks = look()
    known = [each.name for each in checks]
    for name in wanted:
        if name not in known:
            raise click.BadParameter(f"there is no check {name!r}; known: {', '.join(known)}")
    chosen = [each for each in checks if not wanted or each.name in wanted]
    for number, each in enumerate(chosen, start=1):
        doing = _Doing(f"{number} of {len(chosen)}: {each.name} …", look)
        with contextlib.nullcontext() if quiet else error_console().status(doing, refresh_per_second=2):
            found = diagnose(each.name)
            repaired = 0
            if found.findings and mend is not None and each.repair and found.findings[0].code != "unreadable":
                repaired = mend(each.name)
                before, found = found, diagnose(each.name)
                if not quiet:
                    _show_check(each, before)
        unsound = unsound or _is_wrong(each, found)
        report.append({"check": each, "diagnosis": found, "repaired": repaired})
        if not quiet:
            if repaired:
                click.echo(f"        repaired {repaired}: {each.repair}")
            _show_check(each, found)
    out.show(
        {"sound": not unsound, "checks": report},
        lines=["", "Problems were found: see above." if unsound else f"The {what} is sound."],
        essential=["unsound" if unsound else "sound"],
    )
    if unsound:
        raise click.exceptions.Exit(EXIT_UNSOUND)


def examine_folder(
    checks: Mapping[str, diagnosis.Check[C, P]],
    service: C,
    look: Callable[[diagnosis.Check[C, P]], Diagnosis],
    wanted: Sequence[str] | None,
    out: Output,
    *,
    repair: bool,
    what: str,
) -> None:
    """Do the same for a service whose folder is open here; ``look`` carries a check out."""

    def diagnose(name: str) -> Diagnosis:
        try:
            return look(checks[name])
        except Exception as error:  # noqa: BLE001  # the other checks must go on
            return checks[name].unread(error)

    examine(
        lambda: [each.described() for each in checks.values()],
        wanted or [],
        diagnose,
        (lambda name: checks[name].mend(service)) if repair else None,
        out,
        what=what,
    )


def _is_wrong(check: Check, found: Diagnosis) -> bool:
    return any(not check.only_warns or each.code == "unreadable" for each in found.findings)


def _show_check(check: Check, found: Diagnosis) -> None:
    state = "WRONG" if _is_wrong(check, found) else "warning" if found.findings else "ok"
    click.echo(f"{state:7} {check.name:16} {check.promise}")
    for item in found.findings[:SHOWN]:
        click.echo(f"        {item.target}: {item.text}")
    hidden = len(found.findings) - SHOWN + found.more
    if hidden > 0:
        click.echo(f"        … and {hidden} more (--json lists {len(found.findings)})")
    if found.findings:
        if check.repair:
            click.echo(f"        --repair: {check.repair}")
        click.echo(f"        {check.advice}")
