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


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="token")


@commands.command("create")
def create(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Whose it is, or what for.", show_default=False)
    ],
    scope: Annotated[
        Scope,
        typer.Option(
            help="read: look; submit: also upload, submit, cancel; manage: also apps, tokens, accounts; accounting: for"
            " an account manager, be told the credit of accounts whose weak keys it has."
        ),
    ] = Scope.submit,
    days: Annotated[float | None, typer.Option(min=0.001, help="Valid for so many days. Else 365.")] = None,
    share: Annotated[
        float,
        typer.Option(min=1e-3, help="Share of the computers when several submitters have jobs waiting."),
    ] = 1.0,
    forever: Annotated[bool, typer.Option("--forever", help="Valid until it is revoked.")] = False,
    *,
    common: Common,
) -> None:
    """Make a token. Its text is shown only once."""
    if forever and days is not None:
        raise typer.BadParameter("give --days or --forever, not both")
    with common.connect() as connected:
        made = connected.admin.create_token(
            name, scope.included(), days=None if forever else days or 365, share=share
        )
    common.out.show(
        made,
        lines=[
            (
                f"Token {made.id} for {name}, valid until {when(made.expires) if made.expires else 'it is revoked'},"
                f" allows {', '.join(made.scopes)}. It is shown only now:"
            ),
            made.token,
        ],
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
            "usable" if each.usable else "revoked" if each.revoked else "expired",
            when(each.created),
            when(each.expires) if each.expires else "never",
        )
        for each in found
    ]
    common.out.table(found, ["id", "name", "allows", "state", "made", "expires"], rows)


@commands.command("revoke")
def revoke(
    token_id: Annotated[int, typer.Argument(metavar="ID", help="See `token list`.", show_default=False)],
    common: Common,
) -> None:
    """Make a token useless from now on."""
    with common.connect() as connected:
        revoked = connected.admin.revoke_token(token_id)
    common.out.show(
        revoked, lines=[f"Token {revoked.id} ({revoked.name}) is revoked."], essential=[revoked.id]
    )
