"""``cobblestone run``, ``restart``, ``stop`` and ``status``: a project's server."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from cobblestone.cli.options import Common, HostOption, OutputOptions, PortOption, ProjectOption, local_folder
from cobblestone.cli.output import size, when
from cobblestone.cli.parameters import Argument, Option
from cobblestone.domain.errors import Busy, ConfigError
from cobblestone.ops.environment import typed_word
from cobblestone.ops.running import RunningServer, read_note
from cobblestone.server.core.roles import ALL_ROLES, Role, parse_roles

if TYPE_CHECKING:
    from cobblestone.api_schema.project import ProjectStatus
    from cobblestone.server.core.project import ProjectFolder


def running_server(folder: ProjectFolder) -> RunningServer:
    """Return the running server of a project.

    Raises:
        ConfigError: no server does, even if one that was killed left its note, or it is another machine's.
    """
    found = read_note(folder.run_file)
    if found is None or not found.is_alive() or not _is_open(folder):
        raise ConfigError(
            f"The project in {folder.root} is not running. Start it: cobblestone run {typed_word(folder.root)}"
        )
    if not found.is_here():
        raise ConfigError(
            f"The server of the project in {folder.root} runs on {found.host}: call this there."
        )
    return found


def _is_open(folder: ProjectFolder) -> bool:
    """Return whether a process holds the project's lock, which is released when it ends."""
    try:
        folder.lock().close()
    except Busy:
        return True
    return False


def send_signal(server: RunningServer, number: signal.Signals, wish: str) -> None:
    """Send a signal to a server.  Raises ConfigError if that is not possible; ``wish`` names the request."""
    try:
        os.kill(server.pid, number)
    except (ProcessLookupError, PermissionError) as error:
        raise ConfigError(f"Process {server.pid} cannot be told to {wish}: {error.strerror}.") from error


def run(
    folder: Annotated[Path | None, Argument(metavar="DIR", help="The project's folder.")] = None,
    project: ProjectOption = None,
    check: Annotated[
        bool, Option("--check", help="Only check that it could run: settings, keys, database.")
    ] = False,
    role: Annotated[
        str,
        Option(
            metavar="ROLE,...",
            help="On PostgreSQL: do only this part of the work, alongside other processes. Default: "
            f"everything. Roles: {', '.join(Role)}.",
        ),
    ] = "",
    host: HostOption = None,
    port: PortOption = None,
) -> None:
    """Run the project's server until Ctrl-C."""
    from cobblestone.cli.output import print_error
    from cobblestone.ops.logging import configure_logging
    from cobblestone.server.core.context import ServerContext
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.run import check_start, serve

    root = folder or local_folder(project)
    if check:
        check_start(root, replaces=os.getppid())  # a server asks, which then starts again
        click.echo(f"{root} could run.")
        return
    settings = ProjectFolder(root).settings()
    configure_logging(level=settings.log.level, json=settings.log.json_lines)

    roles = parse_roles(role)

    def ready(ctx: ServerContext) -> None:
        part = f" ({', '.join(sorted(roles))})" if role else ""
        bound = ctx.listens[1]
        if port is not None and f":{bound}/" not in ctx.master_url:
            part += f", listens at port {bound}"
        print_error(f"{ctx.settings.project.name} runs at {ctx.master_url}{part} – stop it with Ctrl-C.")

    serve(root, roles=roles, host=host, port=port, ready=ready)


def restart(
    wait: Annotated[float, Option(min=1, max=3600, help="Seconds to wait for the restart.")] = 120,
    project: ProjectOption = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Restart the project's server without failing a request: for new settings or a new version of cobblestone."""
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.run import check_start

    folder = ProjectFolder(local_folder(project))
    before = running_server(folder)
    check_start(folder.root, replaces=before.pid)
    send_signal(before, signal.SIGHUP, "restart")
    end = time.monotonic() + wait
    while time.monotonic() < end:
        time.sleep(0.1)
        again = read_note(folder.run_file)
        if again is not None and again.pid == before.pid and again.started != before.started:
            out.done(again, f"Restarted (process {again.pid}).", again.pid)
            return
    raise Busy(f"The server has not started again after {wait:g} s. Its log says why (restart_refused).")


def stop(
    folder: Annotated[Path | None, Argument(metavar="DIR", help="The project's folder.")] = None,
    wait: Annotated[float, Option(min=1, max=3600, help="Seconds to wait for it to stop.")] = 120,
    project: ProjectOption = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Stop the project's server: it finishes current requests, stops its daemons and closes the database."""
    from cobblestone.server.core.project import ProjectFolder

    opened = ProjectFolder((folder or local_folder(project)).resolve())
    opened.settings()  # says so when the folder is no project
    server = running_server(opened)
    began = time.monotonic()
    send_signal(server, signal.SIGTERM, "stop")
    while server.is_alive():
        if time.monotonic() - began > wait:
            raise Busy(
                f"Process {server.pid} was told to stop, but still runs after {wait:g} s. Its log says what it waits for."
            )
        time.sleep(0.05)
    lines = [f"Stopped (process {server.pid}, after {time.monotonic() - began:.1f} s)."]
    successor = read_note(opened.run_file)
    if successor is not None and successor.started > server.started:
        lines.append(
            f"Something started it again (process {successor.pid}): perhaps a service manager? Stop it there."
        )
    elif _is_open(opened):
        lines.append("Other processes of the project still run: cobblestone status lists them.")
    out.show(server, lines=lines, essential=[server.pid])


WATCH_SECONDS = 2.0


def status(
    watch: Annotated[bool, Option("--watch", help="Repeat until Ctrl-C.")] = False,
    every: Annotated[float, Option(min=0.2, max=3600, help="Seconds between repetitions.")] = WATCH_SECONDS,
    common: Common = Common(),
) -> None:
    """Show the state of the project."""
    with common.connect() as connected:
        running = connected.running
        out = common.out
        while True:
            found = connected.status()
            if watch and not common.out.for_programs:
                from rich.console import Console

                Console().clear()
            out.show(
                {"running": running, "project": found},
                lines=status_lines(found, running=running),
                essential=["running" if running else "stopped"],
            )
            if not watch:
                return
            time.sleep(every)


def status_lines(found: ProjectStatus, *, running: bool) -> list[str]:
    """Return the state as lines for people."""
    counts = found.counts
    state = f"running since {when(found.started)}" if running and found.started else "not running"
    lines = [
        f"{found.name} at {found.url}: {state} (cobblestone {found.version})",
        f"  computers   {counts.hosts} known, {counts.active_hosts} active within a day; users: {counts.users}",
        f"  apps        {counts.apps}"
        + (f", to be signed: {counts.unsigned_versions}" if counts.unsigned_versions else ""),
        f"  batches     {counts.open_batches} not finished",
        f"  results     {counts.results_unsent} to be sent, {counts.results_in_progress} on computers",
        (
            f"  workunits   {counts.workunits_to_validate} to validate, {counts.workunits_to_assimilate} to assimilate,"
            f" {counts.workunits_to_delete} with files to delete; transitioner {found.backlog_seconds:.0f} s late"
        ),
        f"  last day    ended: {found.results_last_day}, {found.error_rate:.1%} of them with errors",
        (
            f"  disk        {size(found.disk_free)} free, database {size(found.database_bytes)},"
            f" {found.write_backlog} waiting to be written"
        ),
    ]
    if running and found.daemons:
        bad = [each for each in found.daemons if each.state != "running"]
        lines.append(f"  daemons     {len(found.daemons) - len(bad)} of {len(found.daemons)} are running")
        lines += [f"    {each.name}: {each.state} {each.last_error}".rstrip() for each in bad]
    lines += _process_lines(found)
    lines += [f"  {'SEVERE' if each.severe else 'warning'}: {each.text}" for each in found.warnings]
    return lines


def _process_lines(found: ProjectStatus) -> list[str]:
    """Return the lines about processes if there are several; those told to stop are left out."""
    processes = [each for each in found.processes if not each.ended]
    if len(processes) < 2:
        return []
    return [
        "  processes",
        *(
            f"    {each.host} {each.pid}: {_roles(each.roles)}; "
            + (
                f"up since {when(each.started)}"
                if each.alive
                else f"NO SIGN OF LIFE since {when(each.last_beat)}"
            )
            + (f"; cobblestone {each.version}" if each.version != found.version else "")
            for each in processes
        ),
    ]


def _roles(names: list[str]) -> str:
    return "all roles" if set(names) == set(ALL_ROLES) else ", ".join(names)
