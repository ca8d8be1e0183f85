"""What the shell's Tab key offers beyond commands and options: names of apps, numbers of batches.

A completion must never disturb whoever types: without a project, or when it does not answer, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from cobblestone.sdk import Project

BATCHES = 50


def app_names(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Names of apps, with their titles."""
    with suppress(Exception), _project(ctx) as connected:
        return [(app.name, app.title) for app in connected.apps() if app.name.startswith(incomplete)]
    return []


def batch_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Numbers of batches, the newest first, with names and states."""
    with suppress(Exception), _project(ctx) as connected:
        found = connected.batches(limit=BATCHES)
        return [
            (str(each.id), f"{each.name}, {each.state}")
            for each in found
            if str(each.id).startswith(incomplete)
        ]
    return []


@contextmanager
def _project(ctx: typer.Context) -> Generator[Project]:
    """Open the project that the options typed so far mean."""
    from cobblestone.cli.options import open_project
    from cobblestone.ops.connection import connection_defaults

    connection_defaults()
    with open_project(ctx.params.get("project"), ctx.params.get("token")) as connected:
        yield connected
