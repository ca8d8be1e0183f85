"""``cobblestone user``: accounts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cobblestone.cli.blocking import BlockedOption, ReasonOption, set_blocked
from cobblestone.cli.options import Commands, Common, Page, given
from cobblestone.cli.output import counted, when

if TYPE_CHECKING:
    from cobblestone.api_schema.people import UserDetails

commands = Commands(no_args_is_help=True, help="Accounts of volunteers.")
UserArgument = Annotated[
    int,
    typer.Argument(
        metavar="ID",
        min=1,
        help="Number of the user; see `user list` and `cobblestone find`.",
        show_default=False,
    ),
]
RoleWord = Literal["operator", "volunteer"]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="user")


@commands.command("create")
def create(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="E-mail address.", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name that others see.", show_default=False)],
    password: Annotated[
        str,
        typer.Option(
            help="Else none: clients attach with the authenticator.", prompt=False, show_default=False
        ),
    ] = "",
    *,
    common: Common,
) -> None:
    """Make an account; shows the key by which clients attach."""
    with common.connect() as connected:
        made = connected.admin.create_user(email, name, password=password)
        url = connected.status().url
    common.out.show(
        made,
        lines=[
            f"Account {made.id} for {made.email}. A client attaches with:",
            f"  boinccmd --project_attach {url} {made.authenticator}",
        ],
        essential=[made.authenticator],
    )


@commands.command("list")
def list_users(
    role: Annotated[RoleWord | None, typer.Option(help="Only those of a role.", show_default=False)] = None,
    blocked: BlockedOption = None,
    *,
    page: Page,
    common: Common,
) -> None:
    """List accounts, the newest first."""
    with common.connect() as connected:
        found = connected.admin.users(
            limit=page.limit,
            before=page.before,
            role=None if role is None else _stored_role(role),
            blocked=blocked,
        )
    rows = [
        (each.id, each.name, each.email, each.team_id, f"{each.total_credit:.1f}", when(each.created))
        for each in found
    ]
    common.out.table(
        found,
        ["id", "name", "e-mail", "team", "credit", "made"],
        rows,
        empty="No accounts.",
        right=("id", "team", "credit"),
    )


def _stored_role(name: str) -> str:
    return "" if name == "volunteer" else name


@commands.command("show")
def show(
    user_id: UserArgument,
    common: Common,
) -> None:
    """Describe an account."""
    with common.connect() as connected:
        found = connected.admin.user(user_id)
    common.out.show(found, lines=_lines(found), essential=[found.id])


def _lines(found: UserDetails) -> list[str]:
    choices = [
        "shows computers" if found.show_hosts else "hides computers",
        "takes mails" if found.send_email else "takes no mails",
        f"language {found.language}" if found.language else "language of the browser",
    ]
    return [
        f"User {found.id}: {found.name} <{found.email}>, {found.role or 'volunteer'}",
        f"  since        {when(found.created)}; team {found.team_id or '-'}; country {found.country or '-'}",
        f"  web page     {found.url or '-'}",
        f"  chose        {', '.join(choices)}",
        f"  log-in       {'with' if found.second_factor else 'without'} one-time password",
        f"  credit       {found.total_credit:.1f}, recent average {found.recent_average_credit:.1f}",
        f"  computers    {found.computers} (cobblestone host list --user {found.id})",
        f"  tasks        {counted(found.tasks)}",
        *([f"  blocked      {found.blocked}"] if found.blocked else []),
        *([f"  is erased    {when(found.erase_time)}"] if found.erase_time is not None else []),
    ]


@dataclass(frozen=True, kw_only=True)
class ProfileOptions:
    """What can be changed."""

    name: Annotated[str | None, typer.Option(help="Name that others see.", show_default=False)] = None
    country: Annotated[str | None, typer.Option(help="Country; empty: none.", show_default=False)] = None
    url: Annotated[str | None, typer.Option(help="Web page; empty: none.", show_default=False)] = None
    language: Annotated[
        str | None,
        typer.Option(help="Of pages and mails, such as fr; empty: the browser's.", show_default=False),
    ] = None
    show_hosts: Annotated[
        bool | None,
        typer.Option(
            "--show-hosts/--hide-hosts", help="Whether others see the computers.", show_default=False
        ),
    ] = None
    send_email: Annotated[
        bool | None,
        typer.Option("--send-email/--no-email", help="Whether the project may write.", show_default=False),
    ] = None


@commands.command("edit")
def edit(
    user_id: UserArgument,
    wanted: ProfileOptions,
    common: Common,
) -> None:
    """Change what an account says and shows. Its owner alone changes the e-mail address, on the page of the account."""
    from cobblestone.api_schema.people import UserChanges

    changes = given(wanted)
    if not changes:
        raise typer.BadParameter("give what shall change, such as --name or --hide-hosts")
    with common.connect() as connected:
        found = connected.admin.change_user(user_id, UserChanges(**changes))
    common.out.show(found, lines=_lines(found), essential=[found.id])


@commands.command("role")
def role(
    user_id: UserArgument,
    name: Annotated[RoleWord, typer.Argument(help="What the user may do.", show_default=False)],
    common: Common,
) -> None:
    """Let a user use the operator's pages, or no more."""
    with common.connect() as connected:
        done = connected.operation.set_role(user_id, _stored_role(name))
    common.out.show(done, lines=[f"User {user_id} is now {done.text}."], essential=[user_id])


@commands.command("block")
def block(
    user_id: UserArgument,
    reason: ReasonOption,
    common: Common,
) -> None:
    """Give the computers of a user no more work."""
    set_blocked(common, "user", user_id, reason)


@commands.command("unblock")
def unblock(
    user_id: UserArgument,
    common: Common,
) -> None:
    """Give the computers of a user work again."""
    set_blocked(common, "user", user_id, None)


@commands.command("reset-password")
def reset_password(
    user_id: UserArgument,
    common: Common,
) -> None:
    """Give a user a new password, which is shown only once; clients must attach anew."""
    with common.connect() as connected:
        done = connected.operation.reset_password(user_id)
    common.out.show(
        done,
        lines=[f"The new password of user {user_id}, shown only now:", done.password],
        essential=[done.password],
    )


@commands.command("delete")
def delete(
    user_id: UserArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    *,
    common: Common,
) -> None:
    """Erase an account: what is personal goes for ever, credit stays in the sums."""
    if not yes:
        typer.confirm(f"Erase the account of user {user_id} for ever?", abort=True, err=True)
    with common.connect() as connected:
        done = connected.operation.delete_user(user_id)
    common.out.show(done, lines=[f"User {user_id} {done.text}."], essential=[user_id])
