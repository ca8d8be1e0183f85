"""``cobblestone token``: who may use the API, for what and how long."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from cobblestone.cli.options import Commands, Common
from cobblestone.cli.output import when

commands = Commands(no_args_is_help=True, help="Tokens: who may use the project from outside.")


class Scope(StrEnum):
    """What a token allows; each but the first includes the ones before it, but for that one."""

    accounting = "accounting"
    read = "read"
    submit = "submit"
    manage = "manage"

    def included(self) -> list[str]:
        """Return all scopes that a token with this one has."""
        if self is Scope.accounting:
            return [self.value]
        ordered = [Scope.read, Scope.submit, Scope.manage]
        return [each.value for each in ordered[: ordered.index(self) + 1]]


DaysOption = Annotated[float | None, typer.Option(min=0.001, help="Valid for so many days. Else 365.")]
ForeverOption = Annotated[bool, typer.Option("--forever", help="Valid until it is revoked.")]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Whose it is, or what for.", show_default=False)
]
TokenIdArgument = Annotated[int, typer.Argument(metavar="ID", help="See `token list`.", show_default=False)]


def chosen_days(days: float | None, *, forever: bool) -> float | None:
    """Return for how many days a token is to be valid; None: until it is revoked."""
    if forever and days is not None:
        raise typer.BadParameter("give --days or --forever, not both")
    return None if forever else days or 365


def created_lines(token_id: int, name: str, expires: float | None, scopes: list[str], text: str) -> list[str]:
    """Return what is said of a new token."""
    until = when(expires) if expires else "it is revoked"
    allows = ", ".join(scopes)
    return [f"Token {token_id} for {name}, valid until {until}, allows {allows}. It is shown only now:", text]


def state_of(*, usable: bool, revoked: float | None) -> str:
    """Return the state of a token in a word."""
    return "usable" if usable else "revoked" if revoked else "expired"


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="token")


@commands.command("create")
def create(
    name: NameArgument,
    scope: Annotated[
        Scope,
        typer.Option(
            help="read: look; submit: also upload, submit, cancel; manage: also apps, tokens, accounts; accounting: for"
            " an account manager, be told the credit of accounts whose weak keys it has."
        ),
    ] = Scope.submit,
    days: DaysOption = None,
    share: Annotated[
        float,
        typer.Option(min=1e-3, help="Share of the computers when several submitters have jobs waiting."),
    ] = 1.0,
    forever: ForeverOption = False,
    *,
    common: Common,
) -> None:
    """Make a token. Its text is shown only once."""
    lasting = chosen_days(days, forever=forever)
    with common.connect() as connected:
        made = connected.admin.create_token(name, scope.included(), days=lasting, share=share)
    common.out.show(
        made,
        lines=created_lines(made.id, name, made.expires, made.scopes, made.token),
        essential=[made.token],
    )


@commands.command("list")
def list_tokens(
    common: Common,
) -> None:
    """List tokens."""
    with common.connect() as connected:
        found = connected.admin.tokens()
    rows = [
        (
            each.id,
            each.name,
            ", ".join(each.scopes),
            state_of(usable=each.usable, revoked=each.revoked),
            when(each.created),
            when(each.expires) if each.expires else "never",
        )
        for each in found
    ]
    common.out.table(found, ["id", "name", "allows", "state", "made", "expires"], rows)


@commands.command("revoke")
def revoke(
    token_id: TokenIdArgument,
    common: Common,
) -> None:
    """Make a token useless from now on."""
    with common.connect() as connected:
        revoked = connected.admin.revoke_token(token_id)
    common.out.show(
        revoked, lines=[f"Token {revoked.id} ({revoked.name}) is revoked."], essential=[revoked.id]
    )
