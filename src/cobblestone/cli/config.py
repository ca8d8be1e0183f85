"""``cobblestone config``: settings."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import Commands, JsonOption, ProjectOption, QuietOption, local_folder, output

commands = Commands(no_args_is_help=True, help="Settings.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="config")


@commands.command("show")
def show(
    origin: Annotated[bool, typer.Option("--origin", help="Also tell where each value comes from.")] = False,
    project: ProjectOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Show the settings that hold."""
    from cobblestone.ops.settings_origin import settings_with_origin

    found = settings_with_origin(local_folder(project))
    rows = [(each.key, each.value, each.origin) if origin else (each.key, each.value) for each in found]
    columns = ["setting", "value", "from"] if origin else ["setting", "value"]
    output(json, quiet).table(found, columns, rows)


@commands.command("check")
def check(project: ProjectOption = None, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Check settings and plan classes; says what is wrong and what to do."""
    from cobblestone.server.core.plan_classes import load_plan_classes
    from cobblestone.server.core.project import ProjectFolder

    folder = local_folder(project)
    ProjectFolder(folder).settings()
    classes = load_plan_classes(folder)
    output(json, quiet).show(
        {"ok": True, "plan_classes": sorted(classes)},
        lines=[f"The settings in {folder} are fine, and so are {len(classes)} plan classes."],
        essential=["ok"],
    )
