"""``cobblestone statistics``: a site with the figures of many projects."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated

import click

from cobblestone.cli.options import HostOption, OutputOptions, PortOption
from cobblestone.cli.output import when
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.cli.project import upkeep
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.exports import KeysInBackup
from cobblestone.ops.environment import typed_word

statistics_commands = Commands(help="A site with the statistics of many projects.")

Folder = Annotated[Path, Argument(metavar="DIR", help="The site's folder.")]


@statistics_commands.verb("create")
def create(folder: Folder) -> None:
    """Create the folder of a new site, with a settings file to fill in."""
    from cobblestone.cli.output import print_error
    from cobblestone.statistics.folder import create_site

    path = create_site(folder)
    print_error(
        f"Write the list of projects to {path}, then: cobblestone statistics run {typed_word(folder)}"
    )


@statistics_commands.verb("run")
def run(
    folder: Folder,
    check: Annotated[
        bool, Option("--check", help="Only check that it could run: settings, secret, libraries.")
    ] = False,
    host: HostOption = None,
    port: PortOption = None,
) -> None:
    """Collect the exports of all listed projects, and serve the pages, until Ctrl-C."""
    from cobblestone.cli.output import print_error
    from cobblestone.ops.logging import configure_logging

    _check_extra()
    from cobblestone.service.serving import run_service
    from cobblestone.statistics.run import STATISTICS_SERVICE, check_start
    from cobblestone.statistics.web.site import StatisticsContext

    if check:
        check_start(folder)
        click.echo(f"{folder} could run.")
        return
    configure_logging(level="info", json=False)

    def ready(ctx: StatisticsContext) -> None:
        n_projects = len(ctx.settings.project)
        print_error(f"Statistics (projects: {n_projects}) at {ctx.master_url} – stop it with Ctrl-C.")

    run_service(STATISTICS_SERVICE, folder, host=host, port=port, ready=ready)


@statistics_commands.verb("status")
def status(folder: Folder, out: OutputOptions = OutputOptions()) -> None:
    """Show the collection status of each project."""
    from cobblestone.statistics.folder import SiteFolder, load_settings

    site = SiteFolder(folder)
    states = [(source, site.project(source.name).read_state()) for source in load_settings(folder).project]
    rows = [
        (
            source.name,
            state.counts.users or "",
            state.counts.hosts or "",
            when(state.exported or None),
            when(state.tried or None),
            state.problem or ("good" if state.collected else "not collected yet"),
        )
        for source, state in states
    ]
    out.table(
        [{"name": source.name, "url": source.url, "state": state} for source, state in states],
        ["project", "users", "hosts", "exported", "tried", ""],
        rows,
        empty="The list of projects is empty.",
        right=("users", "hosts"),
    )


@statistics_commands.verb("backup")
def backup(
    folder: Folder,
    target: upkeep.TargetArgument,
    keys: Annotated[bool, Option("--keys/--no-keys", help="Include the secret for cookies.")] = True,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Back up a site, running or not, and check the copy: rows, history, settings."""
    from cobblestone.statistics.backup import site_contents
    from cobblestone.statistics.folder import SiteFolder

    wish = KeysInBackup.ALL if keys else KeysInBackup.NONE
    upkeep.backup_and_show(site_contents(SiteFolder(folder.resolve()), wish), target, out=out)


@statistics_commands.verb("restore")
def restore(
    source: Annotated[
        Path, Argument(metavar="BACKUP", help="A backup made by `cobblestone statistics backup`.")
    ],
    target: upkeep.RestoredArgument = None,
    check: upkeep.CheckOption = False,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Make a site's folder from a backup; every file is checked first."""
    from cobblestone.statistics.folder import SiteFolder

    upkeep.restore_and_show(SiteFolder.kind, source, target, check=check, out=out)


@statistics_commands.verb("doctor")
def doctor(
    folder: Folder,
    check: upkeep.OnlyOption = None,
    repair: upkeep.RepairOption = False,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Check the integrity of a site, running or stopped: rows, history, pages, disk.

    The exit status is 4 if something is wrong (warnings alone do not count).
    """
    _check_extra()
    from cobblestone.statistics.doctor import CHECKS, open_for_doctor

    site = open_for_doctor(folder)

    upkeep.examine_folder(CHECKS, site, lambda each: each.look(site), check, out, repair=repair, what="site")


def _check_extra() -> None:
    if any(importlib.util.find_spec(name) is None for name in ("duckdb", "numba", "pyarrow")):
        raise ConfigError("A statistics site needs more libraries: pip install 'cobblestone[lab]'")
