"""``cobblestone explain``: why a computer gets no tasks, where a workunit stands, what became of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli.options import Commands, Common
from cobblestone.cli.output import when

if TYPE_CHECKING:
    from cobblestone.api_schema.explanations import HostExplanation, VersionStatus

commands = Commands(no_args_is_help=True, help="Explain why something happens or does not.")

HostArgument = Annotated[
    int, typer.Argument(metavar="ID", min=1, help="Number of a computer.", show_default=False)
]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="explain")


@commands.command("host")
def host(
    host_id: HostArgument,
    common: Common,
) -> None:
    """Say what a computer would get if it asked now, and why not more."""
    with common.connect() as connected:
        found = connected.admin.explain_host(host_id)
    common.out.show(found, lines=host_lines(found), essential=[found.would_get])


def host_lines(found: HostExplanation) -> list[str]:
    """Return what a computer would get, and why not more, for people."""
    held = f"holds {found.in_progress} tasks."
    lines = [
        f"Host {found.id} {found.name} of user {found.user}; last contact {when(found.last_contact)}; {held}"
    ]
    lines += [f"  ! {each.text}" for each in found.problems]
    if found.would_get:
        lines.append(f"If it asked now it would get tasks, first {found.would_get}.")
    else:
        lines.append("If it asked now it would get no tasks:")
        lines += [f"  - {each.text}" for each in found.reasons]
    return [*lines, *map(_version_line, found.versions)]


def _version_line(each: VersionStatus) -> str:
    name = f"{each.app} {each.version_num / 100:.2f} {each.plan_class}".rstrip()
    parts = [
        f"{each.jobs_per_day} of {each.full_quota} tasks a day per processor, {each.sent_today} sent today",
        f"{each.valid_in_a_row} valid in a row",
    ]
    if each.bad_results:
        parts.append(f"{each.bad_results} bad ones on record")
    if each.check_probability < 1:
        parts.append(f"checked in {100 * each.check_probability:.0f} % of its tasks")
    if each.reliable:
        parts.append("reliable")
    if each.throttled:
        parts.append(f"throttled, next in {each.next_quota_seconds / 3600:.1f} h")
    return f"  {name}: {'; '.join(parts)}"


@commands.command("workunit")
def workunit(
    workunit_id: Annotated[
        str, typer.Argument(metavar="ID", help="Number or name of a workunit.", show_default=False)
    ],
    common: Common,
) -> None:
    """Say what becomes of a workunit, and who could take what waits of it."""
    with common.connect() as connected:
        found = connected.admin.explain_workunit(workunit_id)
    lines = [f"Workunit {found.id} {found.name}", *(f"  - {each.text}" for each in found.reasons)]
    common.out.show(found, lines=lines, essential=[each.code for each in found.reasons])


@commands.command("result")
def result(
    result_id: Annotated[
        str, typer.Argument(metavar="ID", help="Number or name of a result.", show_default=False)
    ],
    common: Common,
) -> None:
    """Say what became of a result, and why."""
    with common.connect() as connected:
        found = connected.admin.explain_result(result_id)
    lines = [
        f"Result {found.id} {found.name} of workunit {found.workunit}",
        *(f"  - {each.text}" for each in found.reasons),
        *(f"  - {text}" for text in found.told),
        f"Its credit: cobblestone credit explain {found.name}",
    ]
    common.out.show(found, lines=lines, essential=[each.code for each in found.reasons])
