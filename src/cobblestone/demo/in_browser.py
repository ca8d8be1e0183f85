"""``cobblestone demo --browser``: a visitor's tab and a volunteer's client confirm each other, bit by bit."""

from __future__ import annotations

import contextlib
import importlib.util
import platform
import shutil
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from cobblestone.demo.chromium import Tab, chromium
from cobblestone.demo.run import SHOWN, follow, member, refuse_failures
from cobblestone.demo.services import (
    examples_folder,
    figures,
    finish,
    free_url,
    make_inputs,
    run_command,
    running_project,
    stage,
)
from cobblestone.demo.stock_client import StockClient, require_programs
from cobblestone.domain.apps import BROWSER_PLATFORM
from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.domain.values import ResultId
from cobblestone.sdk.api.batch import Batch
from cobblestone.sdk.project import Project
from cobblestone.server.core.project import ProjectFolder
from cobblestone.store.engine.database import Store
from cobblestone.store.work.uploads import outputs_of_results

APP = "orbits"
YEARS = 10_000
#: Instructions, as `cobblestone app try` counts them.
FLOPS_PER_YEAR = 3.3e6
#: Else only one answer of each job stays, and nothing could be compared at the end.
KEEP_OUTPUTS = {"COBBLESTONE_FILES__DELETE_DELAY": "86400"}
_PLATFORMS = {"x86_64": "x86_64-pc-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoComputer:
    """A computer of the project."""

    title: str
    is_browser: bool
    credit: float  #: granted in all


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserAnswer:
    """One computer's answer for one job."""

    computer: int
    seconds: float  #: that it took
    credit: float  #: granted for it
    valid: bool
    nbytes: int
    md5: str


def run_browser_demo(folder: Path, *, jobs: int, keep: bool = False) -> None:
    """Run the demonstration with a browser in ``folder``, which is emptied first.

    Raises:
        ConfigError: something that it needs is missing; the text says how to get it.
        CobblestoneError: a part did not do its part, or two answers differ.
    """
    console = Console()
    require_programs()
    chromium()
    if importlib.util.find_spec("websockets") is None:
        raise ConfigError("Controlling Chromium needs one more library: pip install 'cobblestone[client]'")
    begin = time.monotonic()
    project_folder, url = folder / "project", free_url()
    with stage(console, folder, {project_folder: "run"}) as stack:
        console.print("[bold]1[/]  Creating a project, and compiling a C program to WebAssembly …")
        kept = {**SHOWN, **KEEP_OUTPUTS}
        project = stack.enter_context(
            running_project(project_folder, name="Orbits", url=url, environment=kept)
        )
        _create_app(project_folder, folder / "program")
        console.print(f"[bold]2[/]  It runs at {url}. Adding {jobs} inputs, each for two computers …")
        options = ("--systems", str(jobs), "--years", str(YEARS))
        files = make_inputs("wasm", folder / "inputs", *options)
        batch = project.submit(APP, files, name=f"{YEARS} years")
        console.print(f"[bold]3[/]  Alice attaches her client; a visitor opens {url}compute …")
        alice = StockClient(folder / "alice", ncpus=1)
        stack.enter_context(member("Alice", url, alice))
        tab = Tab(folder / "chromium")
        stack.callback(tab.stop)
        tab.start()
        tab.compute(url)
        for name, kind in (("Alice", alice.kind), ("The visitor", tab.kind)):
            console.print(f"   {name}: {kind}")
        computers = {"Alice's computer": alice, "The visitor's tab": tab}
        refuse_failures(follow(console, [batch], computers, [url]))
        answers = read_answers(project, project_folder, batch)
        _report(console, answers, read_computers(project, answers))
        finish(console, begin, keep=keep, addresses={"The project's page": url})


def _create_app(project_folder: Path, program: Path) -> None:
    """Create the app, for this kind of computer and for browsers."""
    program.mkdir()
    source = Path(shutil.copy(examples_folder() / "wasm" / "orbits.c", program))
    run_command(
        *("app", "create", APP, "--project", str(project_folder), "--title", "The Earth's orbit"),
        *("--source", str(source), "--command", "orbits {input} {output}", "--browser"),
        *("--platform", native_platform(platform.machine())),
        *("--quorum", "2", "--compare", "bitwise", "--flops-est", str(YEARS * FLOPS_PER_YEAR)),
    )


def native_platform(machine: str) -> str:
    """Return BOINC's platform name of a processor.  Raises ConfigError if the launcher does not support it."""
    if machine not in _PLATFORMS:
        raise ConfigError(
            f"WebAssembly apps run on Linux on {' and '.join(_PLATFORMS)}, and this is {machine}."
        )
    return _PLATFORMS[machine]


def read_answers(project: Project, project_folder: Path, batch: Batch) -> dict[str, list[BrowserAnswer]]:
    """Return the answers for each job, by its name; the bytes are identified by the server's own size and MD5 of them."""
    tasks = {
        job.name: [
            task
            for task in project.operation.workunit(job.workunit).tasks
            if task.computer is not None and task.reported is not None
        ]
        for job in batch.jobs()
    }
    ids = [ResultId(task.id) for each in tasks.values() for task in each]
    with contextlib.closing(Store(ProjectFolder(project_folder).database, readers=1)) as store:
        outputs = store.read(lambda db: outputs_of_results(db, ids, with_data=False))
    return {
        name: [
            BrowserAnswer(
                computer=task.computer,
                seconds=task.run_time,
                credit=task.credit,
                valid=task.state == "valid",
                nbytes=output.nbytes,
                md5=output.md5,
            )
            for task in each
            if task.computer is not None
            for output in outputs[ResultId(task.id)]
        ]
        for name, each in tasks.items()
    }


def read_computers(project: Project, answers: dict[str, list[BrowserAnswer]]) -> dict[int, DemoComputer]:
    """Return the computers that sent answers, by number."""
    found: dict[int, DemoComputer] = {}
    for number in sorted({answer.computer for each in answers.values() for answer in each}):
        host = project.operation.host(number)
        is_browser = BROWSER_PLATFORM in host.platforms
        title = f"{host.name}, {'in a browser' if is_browser else host.platforms[0]}"
        found[number] = DemoComputer(title=title, is_browser=is_browser, credit=host.total_credit)
    return found


def disagreements(answers: dict[str, list[BrowserAnswer]], computers: dict[int, DemoComputer]) -> list[str]:
    """Return the jobs for which a browser's and a client's valid answers differ."""
    found: list[str] = []
    for name, each in answers.items():
        valid = [answer for answer in each if answer.valid]
        kinds = {computers[answer.computer].is_browser for answer in valid}
        if kinds != {True, False}:
            found.append(f"{name}: not confirmed by a browser and a client")
        elif len({(answer.nbytes, answer.md5) for answer in valid}) != 1:
            found.append(f"{name}: the bytes differ")
    return found


def _report(
    console: Console, answers: dict[str, list[BrowserAnswer]], computers: dict[int, DemoComputer]
) -> None:
    """Print who computed what, whether the bytes agree, and the credit.

    Raises:
        CobblestoneError: they do not agree.
    """
    columns = ("job", "computer", "took", "bytes", "MD5 begins with", "credit")
    table = figures("Answers", *columns, right=("took", "bytes", "credit"))
    for name, each in answers.items():
        for answer in sorted(each, key=lambda answer: answer.computer):
            facts = (f"{answer.seconds:.1f} s", str(answer.nbytes), answer.md5[:16], f"{answer.credit:.2f}")
            table.add_row(Path(name).stem, f"#{answer.computer}", *facts)
        table.add_section()
    console.print(table)
    tasks = Counter(answer.computer for each in answers.values() for answer in each)
    totals = figures("Computers", "", "computer", "tasks", "credit", right=("tasks", "credit"))
    for number, computer in computers.items():
        totals.add_row(f"#{number}", computer.title, str(tasks[number]), f"{computer.credit:.2f}")
    console.print(totals)
    if wrong := disagreements(answers, computers):
        raise CobblestoneError("The answers do not agree: " + "; ".join(wrong) + ".")
    console.print(f"The browser and the client sent the same bytes for all {len(answers)} jobs.")
