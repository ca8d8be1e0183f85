"""Files for systemd, and for nginx in front of several processes."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from zlib import crc32

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
        raise ConfigError(
            "--process: two of them have the same roles. Write ROLES*NUMBER for several copies."
        )
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
    target = _TARGET.format(name=settings.project.name, members=members)
    files = [*units, UnitFile(name=f"{prefix}.target", text=target)]
    if len([process for process in processes if process.roles & HTTP_ROLES]) > 1:
        files.append(
            UnitFile(name=f"{prefix}.nginx.conf", text=_nginx(root, settings, processes, project, listen))
        )
    return files


_TARGET = """\
# Written by `cobblestone project units`.  All processes of {name} on this machine.
[Unit]
Description={name}
Wants={members}
After=network-online.target

[Install]
WantedBy=multi-user.target
"""

_SERVICE = """\
# Written by `cobblestone project units`.
[Unit]
Description={name}: {roles}
PartOf={prefix}.target
After=network-online.target postgresql.service
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
User={user}
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
Restart=always
RestartSec=2
TimeoutStopSec={stop_seconds}
LimitNOFILE=65536
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=full
ProtectHome={protect_home}
ReadWritePaths={root}

[Install]
WantedBy={prefix}.target
"""


def _service(root: Path, settings: Settings, process: Process, *, prefix: str, user: str, listen: str) -> str:
    words = [sys.executable, "-m", "cobblestone", "run", str(root)]
    if not process.all_roles:
        words += ["--role", ",".join(role for role in Role if role in process.roles)]
    words += ["--host", listen, "--port", str(process.port)]
    return _SERVICE.format(
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


_NGINX = """\
# Written by `cobblestone project units`: put it into /etc/nginx/conf.d/.  With processes on several
# machines, add a `server` line per process to the upstreams.
{upstreams}
server {{
    listen {listen};
    server_name {server_name};
{certificate}    client_max_body_size {max_bytes};
    proxy_request_buffering off;    # large uploads go straight through
    proxy_http_version 1.1;
    proxy_read_timeout 120s;        # programs wait for results with one long request
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_set_header X-Forwarded-For $remote_addr;    # not what the client says of itself
    proxy_set_header X-Forwarded-Proto $scheme;
    # A request that reached a process is not sent to another one: clients come again by themselves.
    proxy_next_upstream error;
{locations}}}
"""


_SCHEDULER_PLACES = 64
"""Requests to one scheduler process at once.  It works on 16; of more only pages and the computers themselves wait longer."""

_BUSY = """\
    # More come than the schedulers can take: they hear at once when to come again.
    location @busy {{
        default_type text/xml;
        return 200 "<scheduler_reply>\\n<request_delay>${delay}</request_delay>
<message priority=\\"low\\">The server is busy.</message>\\n</scheduler_reply>\\n";
    }}
"""


_CERTIFICATE = """\
    ssl_certificate /etc/letsencrypt/live/{host}/fullchain.pem;      # where yours is
    ssl_certificate_key /etc/letsencrypt/live/{host}/privkey.pem;
"""


ACCEL_LOCATION = """\
    # Files for download: a server says which one, and nginx sends it from the disk.
    location {path} {{ internal; alias "{folder}/"; sendfile on; }}
"""


def _nginx(root: Path, settings: Settings, processes: Sequence[Process], project: str, listen: str) -> str:
    url = urlsplit(settings.project.url)
    prefix = url.path.rstrip("/")
    upstreams = ""
    parts = {
        Role.SCHEDULER: (f"= {prefix}/{SCHEDULER_PATH}",),
        Role.UPLOAD: (f"= {prefix}/{UPLOAD_PATH}", f"{prefix}/download/"),
        Role.WEB: (f"{prefix}/",),
    }
    locations = ""
    for role, paths in parts.items():
        ports = [process.port for process in processes if role in process.roles]
        if not ports:
            locations += "".join(f"    # {path}: served on another machine\n" for path in paths)
            continue
        name = f"cobblestone_{re.sub(r'[^A-Za-z0-9]', '_', project)}_{role}"
        shared, most, when_full = "", "", ""
        if role == Role.SCHEDULER:
            delay = f"busy_{crc32(project.encode()):08x}"  # nginx has no room for long names
            shared, most, when_full = (
                f"    zone {name} 64k;\n",
                f" max_conns={_SCHEDULER_PLACES}",
                "error_page 502 504 = @busy; ",
            )
            upstreams += f"split_clients $request_id ${delay} {{ 25% 900; 25% 1200; 25% 1500; * 1800; }}\n"
            locations += _BUSY.format(delay=delay)
        servers = "".join(f"    server {listen}:{port}{most};\n" for port in ports)
        upstreams += f"upstream {name} {{\n{shared}    least_conn;\n{servers}    keepalive 64;\n    keepalive_timeout 4s;\n}}\n"
        locations += "".join(
            f"    location {path} {{ {when_full}proxy_pass http://{name}; }}\n" for path in paths
        )
    if settings.storage.accel:
        locations += ACCEL_LOCATION.format(path=settings.storage.accel, folder=root / "download")
    return _NGINX.format(
        upstreams=upstreams,
        listen=f"{url.port or 443} ssl" if url.scheme == "https" else url.port or 80,
        server_name=url.hostname,
        certificate=_CERTIFICATE.format(host=url.hostname) if url.scheme == "https" else "",
        max_bytes=settings.server.max_upload_bytes + 1_000_000,
        locations=locations,
    )
