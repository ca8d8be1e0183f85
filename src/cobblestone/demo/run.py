"""``cobblestone demo``: a project, two volunteers, and the sunspot example to its end, with a live display."""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

import httpx
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from cobblestone.demo.chromium import Tab
from cobblestone.demo.own_client import OwnClient
from cobblestone.demo.services import (
    PASSWORD,
    examples_folder,
    figures,
    finish,
    free_url,
    make_inputs,
    run_command,
    running_project,
    stage,
)
from cobblestone.demo.stock_client import (
    ClientError,
    ClientTask,
    StockClient,
    missing_programs,
    require_programs,
)
from cobblestone.domain.errors import CobblestoneError
from cobblestone.sdk.api.batch import Batch
from cobblestone.sdk.project import Project
from cobblestone.wire.project.account import passwd_hash

MAX_TASKS_SHOWN = 6


class BatchDisplay:
    """Shows the progress of a batch; plain lines without a terminal."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        )
        self._task: TaskID = self._progress.add_task("answers", total=total)
        self._live = Live(console=console, refresh_per_second=4) if console.is_terminal else None
        self._last_line = ""
        self._begin = time.monotonic()

    def __enter__(self) -> BatchDisplay:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def update(self, done: int, volunteers: Mapping[str, Sequence[ClientTask]], note: str = "") -> None:
        """Show a new state; ``note`` is a separate line."""
        self._progress.update(self._task, completed=done)
        if self._live is not None:
            self._live.update(Group(self._progress, *([note] if note else []), *self._tables(volunteers)))
            return
        tasks = itertools.chain.from_iterable(volunteers.values())
        computing = sum(1 for task in tasks if task.active_task_state == "EXECUTING")
        line = f"{done} of {self._progress.tasks[0].total:g} answers, {computing} in progress" + (
            f"; {note}" if note else ""
        )
        if line != self._last_line:
            self._last_line = line
            self._console.print(f"  {time.monotonic() - self._begin:5.1f} s  {line}")

    def _tables(self, volunteers: Mapping[str, Sequence[ClientTask]]) -> list[RenderableType]:
        tables: list[RenderableType] = []
        for name, tasks in volunteers.items():
            table = Table(title=name, title_justify="left", box=None, padding=(0, 2))
            table.add_column("task", width=36)
            table.add_column("state", width=12)
            table.add_column("done", justify="right", width=7)
            table.add_column("CPU time", justify="right", width=9)
            shown = sorted(tasks, key=lambda task: task.active_task_state != "EXECUTING")
            for task in shown[:MAX_TASKS_SHOWN]:
                state = "computing" if task.active_task_state == "EXECUTING" else task.state
                table.add_row(task.name, state, f"{task.fraction_done:.0%}", f"{task.cpu_time:.1f} s")
            if len(shown) > MAX_TASKS_SHOWN:
                table.add_row(f"… and {len(shown) - MAX_TASKS_SHOWN} more", "", "", "")
            tables.append(table)
        return tables


APP = "sunspots"
TIMEOUT_SECONDS = 600.0
UPDATE_SECONDS = 4.0
#: Volunteers join by their clients, which do not ask; who watches wants to see their computers.
SHOWN = {"COBBLESTONE_ACCOUNTS__COMPUTERS": "shown"}
VOLUNTEERS = ("Alice", "Bob")


#: A client that computes, or a page that does.
Followed = StockClient | OwnClient | Tab


def run_demo(
    folder: Path, *, jobs: int, keep: bool = False, quick: bool = False, own_client: bool = False
) -> None:
    """Run the demonstration in ``folder``, which is emptied first.

    With ``own_client`` the last volunteer has cobblestone's own client, and all have it where BOINC's is not installed.

    Raises:
        ConfigError: something that it needs is missing; the text says how to get it.
        ClientError: a client did not do its part.
    """
    console = Console()
    if not own_client:
        require_programs("Without it: --own-client.")
    begin = time.monotonic()
    project_folder, url = folder / "project", free_url()
    with stage(console, folder, {project_folder: "run"}) as stack:
        console.print("[bold]1[/]  Creating a project on SQLite …")
        project = stack.enter_context(
            running_project(project_folder, name="Sunspots", url=url, environment=SHOWN)
        )
        console.print(f"[bold]2[/]  It runs at {url}. Adding the program and {jobs} inputs …")
        batch = submit_sunspots(
            project, project_folder, folder / "inputs", jobs=jobs, n_bootstrap=100 if quick else 2000
        )
        kinds = _kinds(own_client=own_client)
        console.print("[bold]3[/]  Attaching the clients of two volunteers …")
        members = {
            name: kind(folder / name.lower(), ncpus=1) for name, kind in zip(VOLUNTEERS, kinds, strict=True)
        }
        for name, client in members.items():
            stack.enter_context(member(name, url, client))
            console.print(f"   {name}: {client.kind}")
        computers = {f"{name}'s computer": client for name, client in members.items()}
        refuse_failures(follow(console, [batch], computers, [url]))
        _report(console, project_folder, members, url)
        finish(console, begin, keep=keep, addresses={"The project's page": url})


def _kinds(*, own_client: bool) -> tuple[type[StockClient | OwnClient], ...]:
    """Return which client each volunteer runs."""
    if not own_client:
        return (StockClient, StockClient)
    return (OwnClient if missing_programs() else StockClient, OwnClient)


def submit_sunspots(
    project: Project, project_folder: Path, inputs: Path, *, jobs: int, n_bootstrap: int, quorum: int = 2
) -> Batch:
    """Add the app with its checks, and one job per band of the spectrum."""
    example = examples_folder() / APP
    run_command(
        *("app", "create", APP, "--project", str(project_folder)),
        *("--title", "Periods of the sunspot numbers"),
        *("--command", "python3 period.py {input} {output:band.json}"),
        *("--files", str(example / "period.py")),
        *("--quorum", str(quorum), "--compare", "numeric:rtol=1e-6", "--flops-est", "2e10"),
        "--assimilate",
        f"{example / 'assimilate.py'}:assimilate",
        "--function-files",
        *(str(example / name) for name in ("merge.py", "picture.py", "make_inputs.py", "sunspots.csv")),
    )
    files = make_inputs(APP, inputs, "--bands", str(jobs), "--n-bootstrap", str(n_bootstrap))
    return project.submit(APP, files, name="Sunspots 1700-2008")


def account_key(url: str, name: str, email: str) -> str:
    """Return the key of a volunteer's account at a project, as a client gets it; creates the account if there is none."""
    reply = httpx.get(
        f"{url}create_account.php",
        params={"email_addr": email, "passwd_hash": passwd_hash(PASSWORD, email), "user_name": name},
        trust_env=False,
    ).text
    _, _, rest = reply.partition("<authenticator>")
    authenticator = rest.partition("</authenticator>")[0].strip()
    if len(authenticator) != 32:
        raise CobblestoneError(f"The account of {name} could not be created: {reply}")
    return authenticator


@contextlib.contextmanager
def member(name: str, url: str, client: StockClient | OwnClient) -> Generator[None]:
    """Run the client of a new volunteer while the block runs."""
    authenticator = account_key(url, name, f"{name.lower()}@example.org")
    try:
        client.start()
        client.attach(url, authenticator)
        yield
    finally:
        client.stop()


def follow(
    console: Console,
    batches: Sequence[Batch],
    clients: Mapping[str, Followed],
    urls: Sequence[str],
    *,
    seconds: float = TIMEOUT_SECONDS,
    enough: int = 2,
    watch: Callable[[float], tuple[str, bool]] = lambda finished: ("", True),
) -> int:
    """Show progress until the batches are complete; return how many jobs failed.

    A client with fewer than ``enough`` tasks to compute is asked to contact a project, one of ``urls`` after the other.

    Args:
        watch: Given when the last job was finished (Unix seconds, 0: not yet), returns a line to show beside the jobs, and
            whether there is nothing else to wait for.

    Raises:
        CobblestoneError: the time limit is over.
    """
    n_jobs, next_update, finished = sum(batch.status().njobs for batch in batches), 0.0, 0.0
    end, turn = time.monotonic() + seconds, itertools.cycle(urls)
    with BatchDisplay(console, n_jobs) as display:
        while True:
            states = [batch.status() for batch in batches]
            done = sum(state.n_success + state.n_error for state in states)
            if done >= n_jobs and not finished:
                finished = time.time()
            note, complete = watch(finished)
            volunteers = {name: tasks_of(client) for name, client in clients.items()}
            display.update(done, volunteers, note)
            if finished and complete:
                return sum(state.n_error for state in states)
            if time.monotonic() > end:
                raise CobblestoneError(
                    f"After {seconds / 60:g} minutes {done} of {n_jobs} jobs are done; see the logs beside the projects."
                )
            if time.monotonic() > next_update:
                # The client's own pauses between requests are minutes long; a volunteer's "update" button does the same.
                url = next(turn)
                for name, client in clients.items():
                    if sum(1 for task in volunteers[name] if task.fraction_done < 1) < enough:
                        client.update(url)
                next_update = time.monotonic() + UPDATE_SECONDS
            time.sleep(0.5)


def refuse_failures(n_failed: int) -> None:
    """Raise CobblestoneError if jobs failed."""
    if n_failed:
        raise CobblestoneError(f"Failed jobs: {n_failed}; see the project's pages.")


def tasks_of(client: Followed) -> list[ClientTask]:
    """Return the client's tasks; none when it is too busy to answer."""
    with contextlib.suppress(ClientError):
        return client.tasks()
    return []


def _report(
    console: Console, project_folder: Path, members: Mapping[str, StockClient | OwnClient], url: str
) -> None:
    """Print the scientific answer, and the credit of all volunteers."""
    (batch,) = (project_folder / "results" / APP).glob("batch-*")
    facts = json.loads((batch / "answer.json").read_text(encoding="utf-8"))
    console.print("\n[bold]The answer[/]")
    console.print(facts["answer"], highlight=False)
    files = f"Picture: {batch / 'spectrum.svg'}\nTable:   {batch / 'spectrum.csv'}\n"
    console.print(files, highlight=False, markup=False, soft_wrap=True)
    whose = ("user total", "user average", "computer total", "computer average")
    table = figures("Credit", "volunteer", *whose, right=whose)
    for client in members.values():
        client.update(url)
    for name, client in members.items():
        client.wait_for(
            lambda client=client: float(client.project_status().get("user_total_credit", "0")) > 0,
            seconds=60,
            what="credit",
        )
        status = client.project_status()
        names = ("user_total_credit", "user_expavg_credit", "host_total_credit", "host_expavg_credit")
        table.add_row(name, *(f"{float(status.get(each, '0')):.2f}" for each in names))
    console.print(table)
