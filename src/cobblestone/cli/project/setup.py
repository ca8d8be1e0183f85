"""``cobblestone project`` and ``config``: create a project, move it to PostgreSQL, write systemd units, show settings."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cobblestone.cli.options import OutputOptions, ProjectOption, local_folder
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.cli.project.upkeep import ToOption, move_and_show
from cobblestone.ops.environment import typed_word

if TYPE_CHECKING:
    from cobblestone.server.operation.create_project import CreatedProject


project_commands = Commands(help="Create a project, move it to PostgreSQL, write files for systemd.")


NewFolderArgument = Annotated[Path, Argument(metavar="DIR", help="A folder that is empty or does not exist.")]


@dataclass(frozen=True, kw_only=True)
class NewServiceOptions:
    """Name, address and database of a new project or account manager."""

    name: str = ""
    """Name shown to volunteers. Default: the folder's name."""
    url: str = ""
    """Address that volunteers attach to. It cannot be changed later: choose it before the first volunteer comes."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 for all."""
    port: Annotated[int | None, Option(min=1, max=65535)] = None
    """Port to listen on. Default: 8080, for an account manager 8180, or the next free one."""
    database: Annotated[str, Option(metavar="postgresql://USER@HOST/DATABASE")] = ""
    """An empty PostgreSQL database for the rows. Default: SQLite, in the folder."""


@project_commands.verb("create")
def create(
    folder: NewFolderArgument,
    new: NewServiceOptions,
    offline_key: Annotated[
        Path | None,
        Option(
            metavar="PUBLICKEYFILE",
            help="Public key made with `cobblestone key create` on the machine that keeps the private one.",
        ),
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Create a project: settings, keys, database, and a token for you."""
    from cobblestone.server.operation.create_project import DEFAULT_PORT, NewProject, create_project
    from cobblestone.service.settings import port_is_free

    key = "" if offline_key is None else offline_key.read_text(encoding="ascii", errors="replace")
    wish = NewProject(**asdict(new), public_key=key)
    created = create_project(folder, wish, now=time.time())
    if new.port is None and not new.url and created.port != DEFAULT_PORT:
        out.warn(f"Port {DEFAULT_PORT} is in use; the project gets {created.port}.")
    elif not port_is_free(new.host, created.port):
        out.warn(f"Another program listens on port {created.port}; stop it before you run the project.")
    out.show(
        {
            "folder": str(created.folder.root),
            "url": created.url,
            "port": created.port,
            "private_key_here": created.has_private_key,
        },
        lines=_created_lines(created, folder),
        essential=[created.folder.root],
    )


def _created_lines(created: CreatedProject, folder: Path) -> list[str]:
    """Return the lines about what was created, and the next steps."""
    if created.has_private_key:
        key = (
            "The private code-signing key is in keys/ inside the folder. For a public project, keep it on another machine: see"
            " `cobblestone key --help`."
        )
    else:
        key = "App files must be signed on the machine with the private key: cobblestone key manifest, sign, import."
    program = '--command "python3 program.py {input} {output}" --files program.py'
    return [
        f"Created a project in {created.folder.root} for {created.url}",
        f"Its settings, with comments: {created.folder.root / 'cobblestone.toml'}; say there what it is about (description)",
        key,
        "",
        "Next:",
        f"  cobblestone run {typed_word(folder)}",
        f"  cobblestone app create NAME --project {typed_word(folder)} {program}",
    ]


@project_commands.verb("move")
def move(
    folder: Annotated[
        Path, Argument(metavar="DIR", help="The project's folder. The server must be stopped.")
    ],
    to: ToOption,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Move a project's rows from SQLite to PostgreSQL.

    Everything is copied and compared, then the new database is put into the settings. The SQLite file stays
    unchanged. An interrupted move continues when the command is repeated.
    """
    from cobblestone.server.core.project import ProjectFolder

    opened = ProjectFolder(folder.resolve())
    move_and_show(opened, to, start=f"cobblestone run {typed_word(folder)}", out=out)


@project_commands.verb("pyodide")
def pyodide(
    folder: Annotated[Path, Argument(metavar="DIR", help="The project's folder.")],
    source: Annotated[
        Path | None,
        Option(
            "--from",
            metavar="FOLDER",
            help="A folder with Pyodide's files, as in the npm package. Default: npm downloads them.",
        ),
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Install Pyodide, which runs Python with compiled packages in visitors' browsers.

    Its files are checked against hashes in this package. A running server serves them at once.
    """
    from cobblestone.domain.pyodide import VERSION
    from cobblestone.ops.files import write_durably
    from cobblestone.sdk.packing.pyodide import read_pyodide
    from cobblestone.server.core.project import ProjectFolder

    place = ProjectFolder(folder.resolve())
    place.settings()
    target = place.pyodide / VERSION
    files = read_pyodide(source)
    for name, data in files.items():
        write_durably(target / name, data)
    out.show(
        {"folder": str(target), "version": VERSION, "files": list(files)},
        lines=[
            f"Pyodide {VERSION} is in {target}.",
            "Apps with a bundle can run in browsers now: cobblestone app create … --bundle requirements.txt --browser",
        ],
        essential=[target],
    )


@dataclass(frozen=True, kw_only=True)
class UnitOptions:
    """Which processes systemd shall run, and how."""

    into: Annotated[Path | None, Option(metavar="DIR")] = None
    """Where to write the files. Default: systemd/ in the project's folder."""
    process: Annotated[list[str] | None, Option(metavar="ROLES*N")] = None
    """Processes of this machine, such as scheduler,upload*2; may be repeated. Default: a set for one machine."""
    user: str = ""
    """System user that runs the processes. Default: the folder's owner."""
    listen: str = "127.0.0.1"
    """Address that processes listen on: not 127.0.0.1 if the proxy is on another machine."""
    port: Annotated[int | None, Option(min=1, max=65000)] = None
    """First port. Default: from the settings."""


@project_commands.verb("units")
def units(
    folder: Annotated[Path, Argument(metavar="DIR", help="The project's folder.")],
    wanted: UnitOptions,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Write systemd units, one per process, and an nginx configuration if several processes serve requests."""
    from cobblestone.ops.files import write_durably
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.systemd_units import first_port, plan_processes, unit_files

    root = folder.resolve()
    settings = ProjectFolder(root).settings()
    port = wanted.port or first_port(settings)
    processes = plan_processes(wanted.process or [], first_port=port, sqlite=not settings.database.url)
    target = (wanted.into or root / "systemd").absolute()
    files = unit_files(root, settings, processes, user=wanted.user or root.owner(), listen=wanted.listen)
    for file in files:
        write_durably(target / file.name, file.text.encode())
    services = [file.name for file in files if file.name.endswith((".service", ".target"))]
    name = services[-1]
    proxies = [file.name for file in files if file.name.endswith(".conf")]
    out.show(
        {"folder": str(target), "files": [file.name for file in files]},
        lines=[
            f"Files written into {target} ({len(files)}):",
            *(f"  {file.name}" for file in files),
            "",
            "Next, as root:",
            f"  cp {target}/*.service {target}/*.target /etc/systemd/system/",
            *(
                f"  cp {target}/{proxy} /etc/nginx/conf.d/ && nginx -t && systemctl reload nginx"
                for proxy in proxies
            ),
            "  systemctl daemon-reload",
            f"  systemctl enable --now {' '.join(services[:-1])} {name}",
            "",
            f"All of them together: systemctl status|stop|start|restart {name}",
        ],
        essential=[target / file.name for file in files],
    )


config_commands = Commands(help="Settings.")


@config_commands.verb("show")
def show(
    origin: Annotated[bool, Option("--origin", help="Also show where each value comes from.")] = False,
    project: ProjectOption = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Show the settings in force."""
    from cobblestone.ops.settings_origin import settings_with_origin

    found = settings_with_origin(local_folder(project))
    shown = 3 if origin else 2
    rows = [(each.key, each.value, Path(each.origin).name)[:shown] for each in found]
    out.table(found, ["setting", "value", "from"][:shown], rows)


@config_commands.verb("check")
def check(project: ProjectOption = None, out: OutputOptions = OutputOptions()) -> None:
    """Check settings and plan classes; report errors and how to correct them."""
    from cobblestone.server.core.plan_classes import load_plan_classes
    from cobblestone.server.core.project import ProjectFolder

    folder = local_folder(project)
    ProjectFolder(folder).settings()
    classes = load_plan_classes(folder)
    out.done(
        {"ok": True, "plan_classes": sorted(classes)},
        f"The settings in {folder} are valid, and so is each plan class ({len(classes)}).",
        "ok",
    )
