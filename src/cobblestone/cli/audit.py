"""``cobblestone audit`` and ``cobblestone find``."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from cobblestone.cli.options import Common
from cobblestone.cli.output import when


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.command("audit")(audit)
    root.command("find")(find)


def audit(
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 50,
    before: Annotated[
        int | None, typer.Option(min=1, help="Only entries before this number.", show_default=False)
    ] = None,
    target: Annotated[str, typer.Option(help="Only about this, such as 'host 12'.")] = "",
    actor: Annotated[str, typer.Option(help="Only by this one: the beginning of the name.")] = "",
    *,
    common: Common,
) -> None:
    """Show who did what with the project, the newest first."""
    with common.connect() as connected:
        found = connected.operation.audit(limit=limit, before=before, target=target, actor=actor)
    rows = [
        (
            each.id,
            when(each.time),
            each.actor,
            each.origin,
            each.action,
            each.target,
            ""
            if each.before is None and each.after is None
            else f"{_short(each.before)} → {_short(each.after)}",
        )
        for each in found
    ]
    common.out.table(
        found, ["id", "when", "who", "from", "action", "target", "before → after"], rows, empty="Nothing yet."
    )


def _short(value: object) -> str:
    return msgspec.json.encode(value).decode()[:120] if value is not None else "–"


def find(
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="An id, or the beginning of a name.", show_default=False)
    ],
    common: Common,
) -> None:
    """Find users, hosts, batches, workunits and results."""
    with common.connect() as connected:
        found = connected.operation.search(text)
    rows = [(each.id, each.kind, each.name) for each in found]
    common.out.table(found, ["id", "kind", "name"], rows, empty="Nothing fits.")
