"""Files for systemd, and for nginx in front of several processes."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from zlib import crc32

import jinja2

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.environment import quoted_word
from cobblestone.ops.settings import Settings
from cobblestone.server.app import SCHEDULER_PATH
from cobblestone.server.core.roles import ALL_ROLES, HTTP_ROLES, Role, parse_roles
from cobblestone.server.scheduler.reply import UPLOAD_PATH

DEFAULT_PROCESSES = ("scheduler,upload*2", "web", ",".join(role for role in Role if role not in HTTP_ROLES))
MAX_COPIES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process of a project on this machine."""

    name: str  #: part of the unit's name, such as ``scheduler-2``
    roles: frozenset[Role]
    port: int  #: for its health and metrics, and for clients and people if it has a role that they ask for

    @property
    def all_roles(self) -> bool:
        """Return whether it needs no ``--role``."""
        return self.roles == ALL_ROLES


def plan_processes(wishes: Sequence[str], *, first_port: int, sqlite: bool) -> list[Process]:
    """Return processes from descriptions like ``scheduler,upload*2``: roles, and the number of processes with them.

    Ports are numbered from ``first_port`` on; the first one goes to the first process that serves pages.

    Raises:
        ConfigError: a description is wrong, or a SQLite project shall be divided.
    """
    if sqlite:
        if wishes:
            raise ConfigError(
                "A SQLite project runs in one process. Move it to PostgreSQL to divide it: cobblestone project move"
            )
        return [Process(name="server", roles=ALL_ROLES, port=first_port)]
    planned: list[tuple[str, frozenset[Role]]] = []
    for wish in wishes or DEFAULT_PROCESSES:
        text, _, number = wish.partition("*")
        if number and not (number.isdecimal() and 1 <= int(number) <= MAX_COPIES):
            raise ConfigError(f"--process {wish}: write ROLES*NUMBER with a number from 1 to {MAX_COPIES}.")
        roles = parse_roles(text)
        copies = int(number or 1)
        base = _name(text, roles)
        planned += [(f"{base}-{copy}" if copies > 1 else base, roles) for copy in range(1, copies + 1)]
    if len({name for name, _ in planned}) < len(planned):
        text = "--process: two of them have the same roles. Write ROLES*NUMBER for several copies."
        raise ConfigError(text)
    web_first = sorted(planned, key=lambda item: (Role.WEB not in item[1], not item[1] & HTTP_ROLES))
    ports = {name: first_port + place for place, (name, _) in enumerate(web_first)}
    return [Process(name=name, roles=roles, port=ports[name]) for name, roles in planned]


def first_port(settings: Settings) -> int:
    """Return the port of the first process: from the settings, or the next one if the proxy needs it for the master URL."""
    port = settings.server.port
    taken = bool(settings.database.url) and urlsplit(settings.project.url).port == port
    return port + 1 if taken else port


def _name(text: str, roles: frozenset[Role]) -> str:
    if not text.strip():
        return "server"
    if roles & HTTP_ROLES or len(roles) == 1:
        return next(name.strip() for name in text.split(",") if name.strip()).replace("_", "-")
    return "daemons"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFile:
    """A file to be written."""

    name: str
    text: str


def unit_files(
    root: Path, settings: Settings, processes: Sequence[Process], *, user: str, listen: str
) -> list[UnitFile]:
    """Return a unit per process, a target that groups them, and an nginx configuration if several serve."""
    project = re.sub(r"[^A-Za-z0-9_\-]+", "-", root.name).strip("-") or "project"
    prefix = f"cobblestone-{project}"
    units = [
        UnitFile(
            name=f"{prefix}-{process.name}.service",
            text=_service(root, settings, process, prefix=prefix, user=user, listen=listen),
        )
        for process in processes
    ]
    members = " ".join(unit.name for unit in units)
    target = _written("project.target", name=settings.project.name, members=members)
    files = [*units, UnitFile(name=f"{prefix}.target", text=target)]
    if len([process for process in processes if process.roles & HTTP_ROLES]) > 1:
        files.append(
            UnitFile(name=f"{prefix}.nginx.conf", text=_nginx(root, settings, processes, project, listen))
        )
    return files


def _service(root: Path, settings: Settings, process: Process, *, prefix: str, user: str, listen: str) -> str:
    words = [sys.executable, "-m", "cobblestone", "run", str(root)]
    if not process.all_roles:
        words += ["--role", ",".join(role for role in Role if role in process.roles)]
    words += ["--host", listen, "--port", str(process.port)]
    return _written(
        "process.service",
        name=settings.project.name.replace("\n", " "),
        roles="everything" if process.all_roles else process.name,
        prefix=prefix,
        user=user,
        command=" ".join(quoted_word(word) for word in words),
        stop_seconds=int(settings.server.drain_seconds) + 30,
        protect_home="no" if _under_home(root, Path(sys.executable)) else "yes",
        root=quoted_word(str(root)),
    )


def _under_home(*paths: Path) -> bool:
    """Return whether a process needs files in a home folder."""
    places = [place for path in paths for place in (str(path), str(path.resolve()))]
    return any(place.startswith(("/home/", "/root/")) for place in places)


#: Requests to one scheduler process at once.  It works on 16; of more only pages and the computers themselves wait longer.
_SCHEDULER_PLACES = 64

ACCEL_LOCATION = """\
    # Files for download: a server says which one, and nginx sends it from the disk.
    location {path} {{ internal; alias "{folder}/"; sendfile on; }}
"""


def _nginx(root: Path, settings: Settings, processes: Sequence[Process], project: str, listen: str) -> str:
    url, accel = urlsplit(settings.project.url), settings.storage.accel
    prefix = url.path.rstrip("/")
    paths = {
        Role.SCHEDULER: (f"= {prefix}/{SCHEDULER_PATH}",),
        Role.UPLOAD: (f"= {prefix}/{UPLOAD_PATH}", f"{prefix}/download/"),
        Role.WEB: (f"{prefix}/",),
    }
    served = [
        {
            "name": f"cobblestone_{re.sub(r'[^A-Za-z0-9]', '_', project)}_{role}",
            "paths": paths[role],
            "ports": [process.port for process in processes if role in process.roles],
            # The variable with the delay for those that find no place; nginx has no room for long names.
            "busy": f"busy_{crc32(project.encode()):08x}" if role == Role.SCHEDULER else "",
        }
        for role in paths
    ]
    return _written(
        "nginx.conf",
        served=served,
        url=url,
        listen=listen,
        port=f"{url.port or 443} ssl" if url.scheme == "https" else url.port or 80,
        scheduler_places=_SCHEDULER_PLACES,
        max_bytes=settings.server.max_upload_bytes + 1_000_000,
        accel=ACCEL_LOCATION.format(path=accel, folder=root / "download") if accel else "",
    )


def _written(template: str, **values: object) -> str:
    """Return the text of a file of the folder ``units``."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cobblestone.server", "units"),
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701  # no HTML
    )
    return environment.get_template(template).render(**values)
