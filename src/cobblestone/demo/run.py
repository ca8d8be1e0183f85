"""``cobblestone demo``: a project, two volunteers, and the sunspot example to its end."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import httpx
from rich.console import Console
from rich.table import Table

import cobblestone
from cobblestone.demo.display import Display, Volunteer
from cobblestone.demo.examples import examples_folder
from cobblestone.demo.own_client import OwnClient
from cobblestone.demo.stock_client import ClientError, ClientTask, StockClient, free_port, missing_programs
from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.ops.environment import environment_without_proxies
from cobblestone.sdk import Batch, Project

MARKER = ".cobblestone-demo"
APP = "sunspots"
TIMEOUT_SECONDS = 600.0
UPDATE_SECONDS = 4.0
VOLUNTEERS = ("Alice", "Bob")


@dataclass(slots=True)
class _Member:
    name: str
    client: StockClient | OwnClient


def run_demo(
    folder: Path,
    *,
    jobs: int = 12,
    keep: bool = False,
    quick: bool = False,
    own_client: bool = False,
    console: Console | None = None,
) -> None:
    """Run the demonstration in ``folder``, which is made anew.

    With ``own_client`` the last volunteer has cobblestone's own client, and all have it where BOINC's is not installed.

    Raises:
        ConfigError: something that it needs is missing; the text says how to get it.
        ClientError: a client did not do its part.
    """
    console = console or Console()
    missing = missing_programs()
    if missing and not own_client:
        raise ConfigError(
            f"The demonstration needs {' and '.join(missing)}, the BOINC client. On Debian and Ubuntu:"
            " apt-get install boinc-client (make demo does that for you when it may). Without it: --own-client."
        )
    example = examples_folder() / APP
    begin = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_interruptible())
        _prepare(folder)
        console.print("[bold]1[/]  Creating a project on SQLite …")
        project_folder = folder / "project"
        port = free_port()
        url = f"http://127.0.0.1:{port}/"
        _cli(
            "project", "create", str(project_folder), "--name", "Sunspots", "--url", url, "--port", str(port)
        )
        stack.enter_context(_server(project_folder, url, folder / "server.log"))
        project = stack.enter_context(cobblestone.connect(project_folder))
        console.print(f"[bold]2[/]  It runs at {url}. Adding the program and {jobs} inputs …")
        batch = _submit(project, project_folder, example, folder / "inputs", jobs=jobs, quick=quick)
        kinds = _kinds(own_client=own_client, stock_client=not missing)
        console.print("[bold]3[/]  Attaching the clients of two volunteers …")
        members = [
            stack.enter_context(_member(name, url, kind(folder / name.lower(), ncpus=1)))
            for name, kind in zip(VOLUNTEERS, kinds, strict=True)
        ]
        for each in members:
            console.print(f"   {each.name}: {each.client.kind}")
        _follow(console, batch, members, url, jobs)
        _report(console, project_folder, members, url)
        console.print(f"\nDone in {time.monotonic() - begin:.0f} s. The project's page: [link={url}]{url}[/]")
        if keep:
            console.print("It keeps running. Stop it with Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt):
                signal.pause()


def _kinds(*, own_client: bool, stock_client: bool) -> tuple[type[StockClient | OwnClient], ...]:
    """Return what each volunteer runs."""
    if not own_client:
        return (StockClient, StockClient)
    return (StockClient if stock_client else OwnClient, OwnClient)


def _prepare(folder: Path) -> None:
    """Empty the folder; refuses one that is not ours."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise ConfigError(
            f"{folder} is not empty and was not made by this demonstration. Give another --folder."
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER).touch()


@contextlib.contextmanager
def _interruptible() -> Generator[None, None, None]:
    """Let SIGTERM end the demonstration as Ctrl-C does, so that nothing is left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _cli(*arguments: str) -> None:
    """Run one of our own commands, as a user would."""
    done = subprocess.run(
        [sys.executable, "-m", "cobblestone", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CobblestoneError(f"cobblestone {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")


@contextlib.contextmanager
def _server(project_folder: Path, url: str, log: Path) -> Generator[None, None, None]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "cobblestone", "run", str(project_folder)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # its volunteers join by their clients, which do not ask; who watches wants to see their computers
            env={**environment_without_proxies(), "COBBLESTONE_ACCOUNTS__COMPUTERS": "shown"},
            start_new_session=True,  # it is stopped last, after the clients
        )
    try:
        _wait_for(lambda: _answers(url, process, log), seconds=60, what=f"the server at {url}")
        yield
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    if process.poll() is not None:
        raise CobblestoneError(f"The server ended at once:\n{log.read_text(errors='replace')[-3000:]}")
    try:
        return httpx.get(f"{url}healthz", timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _wait_for(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise CobblestoneError(f"Waited {seconds:g} s in vain for {what}.")
        time.sleep(0.1)


def _submit(
    project: Project, project_folder: Path, example: Path, inputs: Path, *, jobs: int, quick: bool
) -> Batch:
    """Add the app with its checks, and one job per band of the spectrum."""
    make_inputs = [
        sys.executable,
        str(example / "make_inputs.py"),
        "--folder",
        str(inputs),
        "--bands",
        str(jobs),
    ]
    if quick:
        make_inputs.append("--quick")
    subprocess.run(make_inputs, check=True, capture_output=True)
    _cli(
        "app",
        "create",
        APP,
        "--project",
        str(project_folder),
        "--title",
        "Periods of the sunspot numbers",
        "--command",
        "python3 period.py {input} {output:band.json}",
        "--files",
        str(example / "period.py"),
        "--quorum",
        "2",
        "--compare",
        "numeric:rtol=1e-6",
        "--flops-est",
        "2e10",
        "--assimilate",
        f"{example / 'assimilate.py'}:assimilate",
        "--function-files",
        *(str(example / name) for name in ("merge.py", "picture.py", "make_inputs.py", "sunspots.csv")),
    )
    return project.submit(APP, sorted(inputs.glob("*.json")), name="Sunspots 1700-2008")


@contextlib.contextmanager
def _member(name: str, url: str, client: StockClient | OwnClient) -> Generator[_Member, None, None]:
    """Yield a volunteer with an account and a running client."""
    email = f"{name.lower()}@example.org"
    password_hash = hashlib.md5(f"demonstration{email}".encode(), usedforsecurity=False).hexdigest()
    reply = httpx.get(
        f"{url}create_account.php",
        params={"email_addr": email, "passwd_hash": password_hash, "user_name": name},
        trust_env=False,
    ).text
    _, _, rest = reply.partition("<authenticator>")
    authenticator = rest.partition("</authenticator>")[0].strip()
    if len(authenticator) != 32:
        raise CobblestoneError(f"The account of {name} could not be made: {reply}")
    try:
        client.start()
        client.attach(url, authenticator)
        yield _Member(name, client)
    finally:
        client.stop()


def _follow(console: Console, batch: Batch, members: list[_Member], url: str, jobs: int) -> None:
    """Show progress until the batch is complete."""
    end = time.monotonic() + TIMEOUT_SECONDS
    next_update = 0.0
    with Display(console, jobs) as display:
        while True:
            status = batch.status()
            done = status.n_success + status.n_error
            volunteers = [Volunteer(each.name, _tasks(each.client)) for each in members]
            display.update(done, volunteers)
            if done >= jobs:
                break
            if time.monotonic() > end:
                raise ClientError("The jobs did not finish in ten minutes.")
            if time.monotonic() > next_update:
                # The client's own pauses between requests are minutes long; a volunteer's "update" button does the same.
                for each, volunteer in zip(members, volunteers, strict=True):
                    if sum(1 for task in volunteer.tasks if task.fraction_done < 1) < 2:
                        each.client.update(url)
                next_update = time.monotonic() + UPDATE_SECONDS
            time.sleep(0.5)
    if status.n_error:
        raise CobblestoneError(f"{status.n_error} of {jobs} jobs failed; see the project's pages.")


def _tasks(client: StockClient | OwnClient) -> list[ClientTask]:
    """Return the client's tasks; none when it is too busy to answer."""
    with contextlib.suppress(ClientError):
        return client.tasks()
    return []


def _report(console: Console, project_folder: Path, members: list[_Member], url: str) -> None:
    """Print the scientific answer, and everybody's credit."""
    (batch,) = (project_folder / "results" / APP).glob("batch-*")
    facts = json.loads((batch / "answer.json").read_text(encoding="utf-8"))
    console.print("\n[bold]The answer[/]")
    console.print(facts["answer"], highlight=False)
    console.print(f"Picture: {batch / 'spectrum.svg'}\nTable:   {batch / 'spectrum.csv'}\n", highlight=False)
    table = Table(title="Credit", title_justify="left")
    for column in ("volunteer", "user total", "user average", "computer total", "computer average"):
        table.add_column(column, justify="left" if column == "volunteer" else "right")
    for each in members:
        each.client.update(url)
    for each in members:
        each.client.wait_for(
            lambda client=each.client: float(client.project_status().get("user_total_credit", "0")) > 0,
            seconds=60,
            what="credit",
        )
        status = each.client.project_status()
        names = ("user_total_credit", "user_expavg_credit", "host_total_credit", "host_expavg_credit")
        table.add_row(each.name, *(f"{float(status.get(name, '0')):.2f}" for name in names))
    console.print(table)
