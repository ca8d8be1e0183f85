"""What ``host block`` and ``user block`` share."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import Common

ReasonOption = Annotated[
    str, typer.Option(help="Why, and what would change it: the volunteer reads it.", show_default=False)
]


BlockedOption = Annotated[
    bool | None,
    typer.Option("--blocked/--not-blocked", help="Only those that are, or are not.", show_default=False),
]


def set_blocked(common: Common, noun: str, number: int, reason: str | None) -> None:
    """Give a host, or a user's hosts, no more work, or (no reason) work again, and say so."""
    with common.connect() as connected:
        doing = connected.operation
        done = doing.unblock(noun, number) if reason is None else doing.block(noun, number, reason)
    common.out.show(done, lines=[f"{noun.title()} {number} {done.text}."], essential=[number])
