"""``cobblestone doctor``: whether a live project is as it must be."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli.options import Common
from cobblestone.cli.output import error_console

if TYPE_CHECKING:
    from cobblestone.api_schema.operation import Check, Diagnosis

EXIT_UNSOUND = 4
SHOWN = 10


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("doctor")(doctor)


def doctor(
    check: Annotated[
        list[str] | None, typer.Option("--check", metavar="NAME", help="Only this check; may be repeated.")
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Mend what can be mended safely; noted in the audit log.")
    ] = False,
    *,
    common: Common,
) -> None:
    """Check the promises of a live project: results, credit, files, keys, versions, disk.

    The exit status is 4 if something is wrong (warnings alone do not count).
    """
    out = common.out
    report: list[dict[str, object]] = []
    unsound = False
    with common.connect() as connected:
        doing = connected.operation
        checks = doing.checks()
        known = [each.name for each in checks]
        for name in check or []:
            if name not in known:
                raise typer.BadParameter(f"there is no check {name!r}; known: {', '.join(known)}")
        for each in checks:
            if check and each.name not in check:
                continue
            with (
                error_console().status(f"{each.name} …")
                if not (common.json or common.quiet)
                else contextlib.nullcontext()
            ):
                found = doing.diagnose(each.name)
                repaired = 0
                if found.findings and repair and each.repair:
                    repaired = doing.repair(each.name).repaired
                    before, found = found, doing.diagnose(each.name)
                    if not (common.json or common.quiet):
                        _show(each, before)
            unsound = unsound or bool(found.findings and not each.only_warns)
            report.append({"check": each, "diagnosis": found, "repaired": repaired})
            if not (common.json or common.quiet):
                if repaired:
                    typer.echo(f"        repaired {repaired}: {each.repair}")
                _show(each, found)
    out.show(
        {"sound": not unsound, "checks": report},
        lines=["", "Something is wrong: see above." if unsound else "The project is sound."],
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
