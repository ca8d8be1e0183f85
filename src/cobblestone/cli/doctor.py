"""``cobblestone doctor``: whether a live project is as it must be."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli.options import Common
from cobblestone.cli.output import Output, error_console

if TYPE_CHECKING:
    from cobblestone.api_schema.operation import Check, Diagnosis

EXIT_UNSOUND = 4
SHOWN = 10

OnlyOption = Annotated[
    list[str] | None, typer.Option("--check", metavar="NAME", help="Only this check; may be repeated.")
]


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("doctor")(doctor)


def doctor(
    check: OnlyOption = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended safely; noted in the audit log.")
    ] = False,
    *,
    common: Common,
) -> None:
    """Check the promises of a live project: results, credit, files, keys, versions, disk.

    The exit status is 4 if something is wrong (warnings alone do not count).
    """
    with common.connect() as connected:
        doing = connected.operation
        examine(
            doing.checks(),
            check or [],
            doing.diagnose,
            (lambda name: doing.repair(name).repaired) if repair else None,
            common.out,
            what="project",
        )


def examine(
    checks: Sequence[Check],
    wanted: Sequence[str],
    diagnose: Callable[[str], Diagnosis],
    mend: Callable[[str], int] | None,
    out: Output,
    *,
    what: str,
) -> None:
    """Carry out checks of a service (``what``), or those that are wanted, and mend what can be, with ``mend``.

    Raises:
        BadParameter: there is no such check.
        Exit: something is wrong.
    """
    report: list[dict[str, object]] = []
    unsound, quiet = False, out.json or out.quiet
    known = [each.name for each in checks]
    for name in wanted:
        if name not in known:
            raise typer.BadParameter(f"there is no check {name!r}; known: {', '.join(known)}")
    for each in checks:
        if wanted and each.name not in wanted:
            continue
        with contextlib.nullcontext() if quiet else error_console().status(f"{each.name} …"):
            found = diagnose(each.name)
            repaired = 0
            if found.findings and mend is not None and each.repair:
                repaired = mend(each.name)
                before, found = found, diagnose(each.name)
                if not quiet:
                    _show(each, before)
        unsound = unsound or bool(found.findings and not each.only_warns)
        report.append({"check": each, "diagnosis": found, "repaired": repaired})
        if not quiet:
            if repaired:
                typer.echo(f"        repaired {repaired}: {each.repair}")
            _show(each, found)
    out.show(
        {"sound": not unsound, "checks": report},
        lines=["", "Something is wrong: see above." if unsound else f"The {what} is sound."],
        essential=["unsound" if unsound else "sound"],
    )
    if unsound:
        raise typer.Exit(EXIT_UNSOUND)


def _show(check: Check, found: Diagnosis) -> None:
    state = "ok" if not found.findings else "warning" if check.only_warns else "WRONG"
    typer.echo(f"{state:7} {check.name:16} {check.promise}")
    for item in found.findings[:SHOWN]:
        typer.echo(f"        {item.target}: {item.text}")
    hidden = len(found.findings) - SHOWN + found.more
    if hidden > 0:
        typer.echo(f"        … and {hidden} more (--json lists {len(found.findings)})")
    if found.findings:
        if check.repair:
            typer.echo(f"        --repair: {check.repair}")
        typer.echo(f"        {check.advice}")
