"""``cobblestone host``: volunteers' computers, for operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cobblestone.cli.blocking import BlockedOption, ReasonOption, set_blocked
from cobblestone.cli.explain import host_lines
from cobblestone.cli.options import Commands, Common, Page, given
from cobblestone.cli.output import counted, size, when

if TYPE_CHECKING:
    from cobblestone.api_schema.hosts import HostDetails

commands = Commands(no_args_is_help=True, help="Computers of volunteers.")
HostArgument = Annotated[
    int,
    typer.Argument(
        metavar="ID",
        min=1,
        help="Number of the host; see `host list` and `cobblestone find`.",
        show_default=False,
    ),
]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="host")


@commands.command("list")
def list_hosts(
    user: Annotated[
        int | None, typer.Option(metavar="ID", min=1, help="Only those of a user.", show_default=False)
    ] = None,
    blocked: BlockedOption = None,
    *,
    page: Page,
    common: Common,
) -> None:
    """List computers, the newest first."""
    with common.connect() as connected:
        found = connected.operation.hosts(limit=page.limit, before=page.before, user=user, blocked=blocked)
    rows = [
        (
            each.id,
            each.label or each.name,
            each.user,
            f"{each.recent_average_credit:.1f}",
            when(each.last_contact),
            each.blocked or "-",
        )
        for each in found
    ]
    common.out.table(
        found,
        ["id", "name", "user", "recent credit", "last contact", "blocked"],
        rows,
        empty="No computers.",
        right=("id", "user", "recent credit"),
    )


@commands.command("show")
def show(
    host_id: HostArgument,
    common: Common,
) -> None:
    """Describe a computer."""
    with common.connect() as connected:
        found = connected.operation.host(host_id)
    common.out.show(found, lines=_lines(found), essential=[found.id])


def _lines(found: HostDetails) -> list[str]:
    version = found.client_version
    return [
        f"Host {found.id}: {found.label or found.name} ({found.name}), of user {found.user}",
        f"  computer     {found.processor or '-'}, {found.cpus} CPUs of {found.fpops / 1e9:.2f} GFLOPS; {found.system}",
        f"  memory       {size(found.memory)}; free disk {size(found.disk_free)}; GPUs: {', '.join(found.gpus) or '-'}",
        f"  client       {version // 10000}.{version // 100 % 100}.{version % 100}, {', '.join(found.platforms) or '-'}",
        f"  contact      first {when(found.created)}, last {when(found.last_contact)}",
        f"  venue        {found.venue or '-'}{', hidden from others' if found.hidden else ''}",
        f"  credit       {found.total_credit:.1f}, recent average {found.recent_average_credit:.1f}",
        f"  tasks        {counted(found.tasks)}",
        *(
            f"  {kind:<12} {size(given)}{' × days' if kind == 'storage' else ''}"
            for kind, given in found.contributions.items()
        ),
        *([f"  lacks        {found.lacks}"] if found.lacks else []),
        *([f"  blocked      {found.blocked}"] if found.blocked else []),
        f"Why it gets tasks or none: cobblestone explain host {found.id}",
    ]


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """What can be changed."""

    label: Annotated[
        str | None, typer.Option(help="The owner's own name for it; empty: none.", show_default=False)
    ] = None
    venue: Annotated[
        Literal["none", "home", "work", "school"] | None,
        typer.Option(help="Which of the owner's preferences it follows.", show_default=False),
    ] = None
    hidden: Annotated[
        bool | None, typer.Option("--hidden/--shown", help="Whether others see it.", show_default=False)
    ] = None


@commands.command("edit")
def edit(
    host_id: HostArgument,
    wanted: HostOptions,
    common: Common,
) -> None:
    """Change what the owner of a computer chose for it."""
    from cobblestone.api_schema.hosts import HostChanges

    changes = given(wanted)
    if changes.get("venue") == "none":
        changes["venue"] = ""
    if not changes:
        raise typer.BadParameter("give what shall change: --label, --venue, --hidden or --shown")
    with common.connect() as connected:
        found = connected.operation.change_host(host_id, HostChanges(**changes))
    common.out.show(found, lines=_lines(found), essential=[found.id])


@commands.command("reset-errors")
def reset_errors(
    host_id: HostArgument,
    common: Common,
) -> None:
    """Forget the bad results of a computer and what it lacked: it was repaired, and gets tasks at its next contact."""
    with common.connect() as connected:
        found = connected.operation.reset_host_errors(host_id)
    common.out.show(found, lines=host_lines(found), essential=[found.id])


@commands.command("block")
def block(
    host_id: HostArgument,
    reason: ReasonOption,
    common: Common,
) -> None:
    """Give a computer no more work. What it has it may finish."""
    set_blocked(common, "host", host_id, reason)


@commands.command("unblock")
def unblock(
    host_id: HostArgument,
    common: Common,
) -> None:
    """Give a computer work again."""
    set_blocked(common, "host", host_id, None)
