"""``cobblestone client``: compute for projects on this computer, and watch and control the client."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from cobblestone.cli.client.folder import DEFAULT_FOLDER, FOLDER_COMMANDS, FolderOption, replay
from cobblestone.cli.options import JsonOption, QuietOption
from cobblestone.cli.output import Output, size, when
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.domain.errors import ConfigError

if TYPE_CHECKING:
    from cobblestone.client.remote.access import Address

HostOption = Annotated[
    list[str] | None,
    Option(
        "--host",
        metavar="TOKEN@HOST:PORT",
        help="Another computer's client; give several to see them together.",
    ),
]
CertificateOption = Annotated[
    Path | None, Option("--certificate", metavar="FILE", help="Trust this TLS certificate.")
]


@dataclass(frozen=True, kw_only=True)
class ClientAddress:
    """The clients to ask, and how to print."""

    dir: FolderOption = DEFAULT_FOLDER
    host: HostOption = None
    certificate: CertificateOption = None
    json: JsonOption = False
    quiet: QuietOption = False

    @property
    def out(self) -> Output:
        """Return the printer."""
        return Output(self.json, self.quiet)

    @property
    def places(self) -> list[Address]:
        """Return where the chosen clients are."""
        from cobblestone.client.remote.access import local_address, remote_address

        if not self.host:
            return [local_address(self.dir.expanduser())]
        return [remote_address(text, tls=self.certificate is not None) for text in self.host]

    @property
    def place(self) -> Address:
        """Return where the single client is.  Raises ConfigError when several are meant."""
        if self.host and len(self.host) > 1:
            raise ConfigError("This works on one computer at a time: give one --host.")
        return self.places[0]

    def each(self, command: str, **given: Any) -> dict[str, Any]:
        """Ask all chosen clients; return their answers by name."""
        from cobblestone.client.remote.access import ask

        return {place.name: ask(place, command, self.certificate, **given) for place in self.places}

    def rows(self, command: str, **given: Any) -> list[dict[str, Any]]:
        """Return answers that are lists, joined; for several computers, each row has the computer's name."""
        answers = self.each(command, **given)
        several = len(answers) > 1
        return [{"host": name, **row} if several else row for name, rows in answers.items() for row in rows]

    def one(self, command: str, **given: Any) -> Any:
        """Return the answer of a single client.  Raises ConfigError when several are meant."""
        from cobblestone.client.remote.access import ask

        return ask(self.place, command, self.certificate, **given)


# -- looking --------------------------------------------------------------------------------------------


def status(asked: ClientAddress = ClientAddress()) -> None:
    """Print a short status of the client."""
    answers = asked.each("status")
    lines: list[str] = []
    for name, found in answers.items():
        if len(answers) > 1:
            lines.append(f"{name}:")
        lines += _status_lines(found)
    data = answers if len(answers) > 1 else next(iter(answers.values()))
    running = [found["tasks"]["running"] for found in answers.values()]
    asked.out.show(data, lines=lines, essential=running)


def _status_lines(found: dict[str, Any]) -> list[str]:
    counts, cpus, disk = found["tasks"], found["cpus"], found["disk"]
    lines = [
        f"Tasks      {counts['running']} running, {counts['waiting']} waiting, {counts['ready_to_report']} to report",
        f"Projects   {found['projects']}",
        f"CPUs       {cpus['allowed']} of {cpus['of_computer']}",
        f"Disk       {size(disk['used'])} used, {size(disk['allowed'])} allowed",
        f"Policy     {found['policy']}",
        f"Running    since {when(found['up_since'])}, in {found['data_directory']}",
    ]
    lines += [f"           {sentence}" for sentence in (*found["because"], *found["sandbox"])]
    return lines + [f"Notice     {_notice(row)}" for row in found.get("notices", ())]


def _notice(row: dict[str, Any]) -> str:
    from cobblestone.client.remote.access import notice_text

    return f"{row['project_name']}: {notice_text(row)}".removeprefix(": ")


def notices(asked: ClientAddress = ClientAddress()) -> None:
    """List what the client and its projects want you to know."""
    rows = asked.rows("notices")
    lines = [f"{when(row['arrival_time'])} {_notice(row)}" for row in rows]
    asked.out.show(rows, lines=lines or ["No notices."], essential=[row["description"] for row in rows])


def tasks(asked: ClientAddress = ClientAddress()) -> None:
    """List the tasks."""
    rows = asked.rows("tasks")
    asked.out.listing(
        rows,
        {
            "task": lambda row: row["name"],
            "project": lambda row: row["project_name"] or row["project"],
            "app": lambda row: row["app"],
            "state": lambda row: row["state"],
            "done": lambda row: f"{row['fraction_done']:.1%}",
            "elapsed": lambda row: _length(row["elapsed"]),
            "left": lambda row: _length(row["remaining"]),
            "deadline": lambda row: when(row["deadline"]),
        },
        empty="No tasks.",
        right=["done", "elapsed", "left"],
    )


def projects(asked: ClientAddress = ClientAddress()) -> None:
    """List the projects, and what they granted."""
    rows = asked.rows("projects")
    asked.out.listing(
        rows,
        {
            "project": lambda row: row["url"],
            "name": lambda row: row["name"],
            "share": lambda row: f"{row['share']:g}",
            "tasks": lambda row: row["tasks"],
            "credit": lambda row: f"{row['host_credit']:.0f}",
            "average": lambda row: f"{row['host_average']:.1f}",
            "estimated": lambda row: f"{row['estimated_credit']:.1f}",
            "state": _project_state,
        },
        empty="No projects. Start with: cobblestone client attach URL",
        right=["share", "tasks", "credit", "average", "estimated"],
    )


def _project_state(row: dict[str, Any]) -> str:
    words = {
        "suspended": "suspended",
        "no_new_work": "no new tasks",
        "detach_when_done": "will be removed",
        "ended": "ended",
        "by_manager": "by account manager",
    }
    if row["refused"]:
        return "account not accepted: see cobblestone client notices"
    return ", ".join(word for name, word in words.items() if row[name]) or "active"


def log(
    asked: ClientAddress = ClientAddress(),
    last: Annotated[int, Option("--last -n", min=1, help="Number of lines.")] = 50,
) -> None:
    """Print the event log."""
    rows = asked.rows("log", last=last)
    lines = [f"{when(row['time'])} [{row['project'] or '---'}] {row['body']}" for row in rows]
    asked.out.show(rows, lines=lines, essential=[row["body"] for row in rows])


def history(
    asked: ClientAddress = ClientAddress(),
    last: Annotated[int, Option("--last -n", min=1, help="Number of tasks.")] = 50,
) -> None:
    """List reported tasks, newest first."""
    rows = asked.rows("history", last=last)
    asked.out.listing(
        rows,
        {
            "task": lambda row: row["job"],
            "app": lambda row: row["app"],
            "outcome": lambda row: row["outcome"].replace("_", " "),
            "elapsed": lambda row: _length(row["elapsed"]),
            "CPU time": lambda row: _length(row["cpu_time"]),
            "reported": lambda row: when(row["reported"]),
        },
        empty="Nothing has been reported yet.",
        right=["elapsed", "CPU time"],
    )


def why(
    asked: ClientAddress = ClientAddress(),
    about: Annotated[
        str, Argument(metavar="TASK|PROJECT", help="A task's name or a project's address.")
    ] = "",
) -> None:
    """Explain why tasks run or wait, and why work is requested or not."""
    found = asked.one("why", about=about)
    if about:
        sentences = [each["sentence"] for each in found["reasons"]]
    else:
        sentences = [*found["allowed"]]
        for name, reasons in (found.get("tasks", {}) | found["projects"]).items():
            begin = name.rpartition("/")[2] or name
            sentences += [f"{name}: {each['sentence'].removeprefix(begin).lstrip(': ')}" for each in reasons]
    asked.out.show(found, lines=sentences or ["No messages."], essential=sentences)


def prefs(asked: ClientAddress = ClientAddress()) -> None:
    """Print the preferences in force, and where each comes from."""
    found = asked.one("prefs")
    asked.out.show(
        found,
        lines=[f"{name:<32} {each['value']!s:<24} {each['from']}" for name, each in found.items()],
        essential=list(found),
    )


def show(asked: ClientAddress = ClientAddress()) -> None:
    """Show one client in the terminal, until you press q: tasks, timeline, credit, transfers, notices."""
    try:
        from cobblestone.monitor.display import MonitorDisplay
    except ModuleNotFoundError as error:
        from cobblestone.ops.installation import how_to_install

        raise ConfigError(
            f"The display needs the extra tui: {how_to_install('tui')}. Without it: cobblestone client web"
        ) from error
    MonitorDisplay(asked.place, asked.certificate).run()


# -- doing ----------------------------------------------------------------------------------------------


def attach(
    url: Annotated[str, Argument(metavar="URL", help="The project's address.")],
    asked: ClientAddress = ClientAddress(),
    key: Annotated[str, Option(help="Account key at the project.")] = "",
    email: Annotated[str, Option(help="E-mail address of your account at the project.")] = "",
    password: Annotated[
        str, Option(help="Password; asked for if not given.", envvar="COBBLESTONE_PASSWORD")
    ] = "",
    name: Annotated[str, Option(help="Create a new account with this name.")] = "",
    agreed: Annotated[
        bool, Option("--agreed", help="Confirm that you have read and accept the project's terms of use.")
    ] = False,
) -> None:
    """Attach to a project, with an account key, or with e-mail address and password."""
    if email and not password:
        password = click.prompt("Password", hide_input=True)
    found = asked.one("attach", url=url, key=key, email=email, password=password, name=name, agreed=agreed)
    name = found["name"] or found["url"]
    asked.out.done(found, f"Attached to {name}.", found["url"])
    if not found["accepted"]:
        asked.out.warn(
            f"{name} has not said yet whether it accepts the account."
            " The client goes on trying: see cobblestone client log"
        )


def _verb(member: str, argument: Argument, command: str, help_: str, done: str) -> Callable[..., None]:
    """Return a command that asks for one thing; ``member``: by what name the client takes what it is about."""

    def verb(about: str, asked: ClientAddress = ClientAddress()) -> None:
        asked.one(command, **{member: about})
        asked.out.say(done)

    verb.__doc__, verb.__annotations__["about"] = help_, Annotated[str, argument]
    return verb


_on_project = partial(_verb, "project", Argument(metavar="URL", help="The project's address."))
_on_task = partial(_verb, "task", Argument(metavar="TASK", help="The task's name."))
_ANYTHING = "A task, a project, or a GPU such as NVIDIA:0."
_on_anything = partial(_verb, "what", Argument(metavar="TASK|URL|GPU", help=_ANYTHING))


def mode(
    which: Annotated[str, Argument(metavar="run|gpu|network", help="What it holds for.")],
    wanted: Annotated[str, Argument(metavar="always|auto|never", help="auto: follow the preferences.")],
    asked: ClientAddress = ClientAddress(),
    minutes: Annotated[float, Option("--for", min=0, help="Duration in minutes; 0: no limit.")] = 0.0,
) -> None:
    """Compute always, by preferences or never; the same for GPUs and for the network."""
    asked.each("mode", which=which, mode=wanted, seconds=60.0 * minutes)
    asked.out.say(f"{which}: {wanted}" + (f" for {minutes:g} min." if minutes else "."))


def reread(asked: ClientAddress = ClientAddress()) -> None:
    """Read preference and configuration files again."""
    asked.each("read_preferences")
    asked.out.say("Done.")


def manager(
    asked: ClientAddress = ClientAddress(),
    url: Annotated[str, Argument(metavar="URL", help="Its address.")] = "",
    login: Annotated[str, Option(help="Name or e-mail address of your account at the account manager.")] = "",
    password: Annotated[
        str, Option(help="Password; asked for if not given.", envvar="COBBLESTONE_PASSWORD")
    ] = "",
    leave: Annotated[bool, Option("--leave", help="Detach from it.")] = False,
) -> None:
    """Attach to an account manager, which chooses the projects, or detach from it."""
    if leave == bool(url):
        raise click.BadParameter("give the address of an account manager, or --leave to detach from yours")
    if url and not password:
        password = click.prompt("Password", hide_input=True)
    found = asked.one("manager", url=url, login=login, password=password)
    asked.out.done(found, f"Account manager: {found['name']}" if found else "Left the account manager.")


def stop(asked: ClientAddress = ClientAddress()) -> None:
    """Stop the client; its tasks save their work."""
    asked.each("quit")
    asked.out.say("Stopping.")


def _length(seconds: float) -> str:
    return str(datetime.timedelta(seconds=round(seconds)))


_COMMANDS: dict[str, Callable[..., None]] = {
    **FOLDER_COMMANDS,
    **{each.__name__: each for each in (show, status, tasks, projects, attach)},
    "detach": _on_project(
        "detach",
        "Detach from a project: its tasks are given up, its files removed.",
        "Detaching from the project.",
    ),
    "reset": _on_project("reset", "Reset a project: its tasks and files are removed.", "Starting again."),
    "update": _on_project(
        "update", "Contact a project soon, to report results and ask for work.", "It will be contacted soon."
    ),
    "no-new-work": _on_project(
        "no_new_work", "Fetch no new tasks from a project.", "No new tasks will be fetched."
    ),
    "new-work": _on_project(
        "new_work", "Allow new tasks from a project again.", "New tasks are allowed again."
    ),
    "suspend": _on_anything("suspend", "Suspend a task, a project or a GPU.", "Suspended."),
    "resume": _on_anything("resume", "Resume a task, a project or a GPU.", "Resumed."),
    "abort": _on_task("abort", "Abort a task; its project is told.", "Aborted."),
    **{
        each.__name__: each
        for each in (log, notices, why, prefs, history, mode, reread, manager, stop, replay)
    },
}

client_commands = Commands(help="Compute for projects on this computer.")
for _name, _function in _COMMANDS.items():
    client_commands.verb(_name)(_function)
