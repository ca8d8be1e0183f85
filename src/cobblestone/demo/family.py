"""``cobblestone demo --whole-family``: two projects, an account manager, a statistics site, three clients of two volunteers."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console

from cobblestone.demo import services
from cobblestone.demo.own_client import OwnClient
from cobblestone.demo.run import account_key, follow, submit_sunspots
from cobblestone.demo.stock_client import StockClient, require_programs
from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.ops.files import write_private
from cobblestone.sdk.api.batch import Batch
from cobblestone.sdk.project import Project

#: Exports are made, collected and drawn so often here; elsewhere once a day.
STEP_SECONDS = 15
TIMEOUT_SECONDS = 900.0
ALICE, BOB = "alice@example.org", "bob@example.org"
ENVIRONMENT = {
    "COBBLESTONE_ACCOUNTS__COMPUTERS": "shown",
    "COBBLESTONE_EXPORT__EVERY_SECONDS": str(STEP_SECONDS),
}
CPID = re.compile(r"<cpid>([0-9a-f]{32})</cpid>")
WEAK_KEY = re.compile(r"\b[0-9]+_[0-9a-f]{32}\b")


_SERVICES = (
    ("sunspots", "Sunspots", "run"),
    ("primes", "Primes", "run"),
    ("manager", "Account manager", "manager run"),
    ("statistics", "Statistics", "statistics run"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoService:
    """A service of the demonstration."""

    name: str
    title: str
    command: str  #: of ours, that runs it
    folder: Path
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditHistory:
    """The statistics site's data about a volunteer."""

    address: str  #: of the page
    totals: Mapping[str, float]  #: credit, by title of the project
    n_steps: int  #: in the history


def run_family(folder: Path, *, jobs: int, keep: bool = False) -> None:
    """Run the whole family in ``folder``, which is emptied first; ``jobs``: of the first project.

    On a terminal it keeps running at the end, elsewhere with ``keep``.

    Raises:
        ConfigError: something that it needs is missing; the text says how to get it.
        CobblestoneError: a part did not do its part.
    """
    console = Console()
    require_programs()
    if any(importlib.util.find_spec(name) is None for name in ("duckdb", "numba", "pyarrow")):
        raise ConfigError("A statistics site needs more libraries: pip install 'cobblestone[lab]'")
    begin = time.monotonic()
    places = _places(folder)
    sunspots, primes, manager, statistics = places
    with services.stage(console, folder, {place.folder: place.command for place in places}) as stack:
        console.print("[bold]1[/]  Two projects, each with its program and its inputs …")
        batches = _projects(stack, (sunspots, primes), jobs)
        console.print("[bold]2[/]  An account manager that knows both …")
        _manager(stack, manager, (sunspots, primes))
        console.print(
            "[bold]3[/]  Alice joins both projects with one client, and agrees to be shown by statistics sites …"
        )
        clients = {"Alice's first computer": _alone(stack, folder, (sunspots, primes))}
        console.print(
            "[bold]4[/]  Then she joins the account manager, and so does Bob, who leaves the rest to it …"
        )
        _join(manager, (sunspots, primes))
        console.print("[bold]5[/]  A statistics site, which collects what both projects export …")
        _statistics(stack, statistics, (sunspots, primes))
        console.print("[bold]6[/]  Three clients ask the account manager what to work for …")
        _clients(stack, folder, manager, clients)
        for name, client in clients.items():
            console.print(f"   {name}: {client.kind}")
        curve = _follow(stack, console, batches, clients, (sunspots, primes), statistics)
        _report(console, curve)
        services.finish(
            console,
            begin,
            keep=keep or console.is_terminal,
            addresses={**{place.title: place.url for place in places}, "Alice's curves": curve.address},
            notes=(
                f"Log in as {ALICE} or {BOB}, password {services.PASSWORD} (Bob only at the account manager).",
            ),
        )


def _places(folder: Path) -> list[DemoService]:
    """Return the paths of everything."""
    return [
        DemoService(name=name, title=title, command=command, folder=folder / name, url=services.free_url())
        for name, title, command in _SERVICES
    ]


def _projects(stack: contextlib.ExitStack, projects: Sequence[DemoService], jobs: int) -> list[Batch]:
    """Start two projects with work; return the work."""
    sunspots, primes = (
        stack.enter_context(
            services.running_project(place.folder, name=place.title, url=place.url, environment=ENVIRONMENT)
        )
        for place in projects
    )
    inputs = projects[0].folder.parent / "inputs"
    return [
        submit_sunspots(
            sunspots, projects[0].folder, inputs / "sunspots", jobs=jobs, n_bootstrap=1000, quorum=1
        ),
        submit_primes(primes, projects[1].folder, inputs / "primes"),
    ]


def submit_primes(project: Project, folder: Path, inputs: Path) -> Batch:
    """Add the test of Lucas and Lehmer, and exponents around 10,000."""
    example = services.examples_folder() / "mersenne"
    services.run_command(
        *("app", "create", "lucas-lehmer", "--project", str(folder), "--title", "Which 2^p - 1 are prime?"),
        *("--command", "python3 lucas_lehmer.py {input} {output}"),
        *("--files", str(example / "lucas_lehmer.py"), "--quorum", "1", "--flops-est", "2e10"),
    )
    files = services.make_inputs("mersenne", inputs, "--per-file", "6", "--last", "11200")
    return project.submit("lucas-lehmer", files, name="Exponents around 10,000")


def _manager(stack: contextlib.ExitStack, manager: DemoService, projects: Sequence[DemoService]) -> None:
    folder = str(manager.folder)
    named = ("--name", "One account", "--url", manager.url, "--port", services.port_of(manager.url))
    services.run_command("manager", "create", folder, *named)
    for place in projects:
        services.run_command("manager", "add", folder, place.url)
        token = manager.folder / "keys" / f"{services.port_of(place.url)}.token"
        made = services.run_command(
            *("token", "create", "One account", "--scope", "accounting"),
            *("--project", str(place.folder), "--quiet"),
        )
        write_private(token, made.encode())
        services.run_command(
            "manager", "accounting", folder, place.url, "--token-file", str(token), "--vouch"
        )
    # Computers call, and projects are asked, each minute rather than once or twice a day: a demonstration is short.
    names = ("CONTACTS__REPEAT_SECONDS", "ACCOUNTING__ASK_SECONDS")
    often = {f"COBBLESTONE_MANAGER_{name}": "60" for name in names}
    stack.enter_context(
        services.service(*manager.command.split(), folder=manager.folder, url=manager.url, environment=often)
    )


def _alone(
    stack: contextlib.ExitStack, folder: Path, projects: Sequence[DemoService]
) -> StockClient | OwnClient:
    """Let Alice join the projects and attach a client, until both know her by one cross-project id.

    Her client carries the id from one project to the other, but only with the account's own key: what comes with the weak
    keys that account managers use is not believed.
    """
    client = _start(stack, StockClient(folder / "alices-first-computer", ncpus=1))
    for place in projects:
        with services.Browser(services.visitor(place.url)) as alice:
            alice.join("Alice", ALICE, statistics="on", show_hosts="on")
        client.attach(place.url, account_key(place.url, "Alice", ALICE))
    pages = [stack.enter_context(services.visitor(place.url)) for place in projects]

    turn = itertools.cycle(projects)

    def agreed() -> bool:
        client.update(next(turn).url)  # the others wait for the one whose update was asked for
        time.sleep(4)
        said = {CPID.search(page.get("show_user.php?format=xml&userid=1").text) for page in pages}
        return None not in said and len({found[1] for found in said if found}) == 1

    services.wait_for(agreed, seconds=180, what="one cross-project id of Alice at both projects")
    return client


def _start(stack: contextlib.ExitStack, client: StockClient | OwnClient) -> StockClient | OwnClient:
    stack.callback(client.stop)
    client.start()
    return client


def _join(manager: DemoService, projects: Sequence[DemoService]) -> None:
    """Let Alice give the account manager the weak keys of her accounts; Bob lets it create his."""
    keys: list[str] = []
    for place in projects:
        with services.Browser(services.visitor(place.url)) as alice:
            login = {"email_addr": ALICE, "passwd": services.PASSWORD}
            found = WEAK_KEY.search(alice.send("login.php", login))
        if found is None:
            raise CobblestoneError(f"The weak key of Alice's account is not on {place.url}home.php.")
        keys.append(found[0])
    shares = {f"share_{number}": "1" for number in range(1, len(projects) + 1)}
    with (
        services.Browser(services.visitor(manager.url)) as alice,
        services.Browser(services.visitor(manager.url)) as bob,
    ):
        alice.join("Alice", ALICE)
        bob.join("Bob", BOB)
        for number, key in enumerate(keys, 1):
            fields = {"project_id": str(number), "weak_key": key}
            alice.send("choices.php", fields, to="project_key.php")
        for each in (alice, bob):
            each.send("choices.php", {"mode": "classic", "preset": "maximum", **shares})
        services.wait_for(
            lambda: "being created" not in bob.read("home.php"), seconds=90, what="Bob's accounts"
        )


def _statistics(
    stack: contextlib.ExitStack, statistics: DemoService, projects: Sequence[DemoService]
) -> None:
    services.run_command("statistics", "create", str(statistics.folder))
    tables = "".join(
        f'\n[[project]]\nname = "{place.name}"\ntitle = "{place.title}"\nurl = "{place.url}stats/"\n'
        for place in projects
    )
    (statistics.folder / "statistics.toml").write_text(
        f'[site]\nname = "Statistics"\nurl = "{statistics.url}"\n\n[server]\nport = {services.port_of(statistics.url)}\n\n'
        f"[collect]\nevery_seconds = {STEP_SECONDS}\nstep_seconds = {STEP_SECONDS}\nretry_seconds = {STEP_SECONDS}\n"
        f"pause_seconds = 0\n{tables}",
        encoding="utf-8",
    )
    stack.enter_context(
        services.service(*statistics.command.split(), folder=statistics.folder, url=statistics.url)
    )


def _clients(
    stack: contextlib.ExitStack,
    folder: Path,
    manager: DemoService,
    clients: dict[str, StockClient | OwnClient],
) -> None:
    """Start the other clients, and attach all to the account manager; it takes over the projects of the first."""
    clients["Alice's second computer"] = _start(stack, OwnClient(folder / "alices-second-computer", ncpus=1))
    clients["Bob's computer"] = _start(stack, StockClient(folder / "bobs-computer", ncpus=1))
    for name, client in clients.items():
        client.attach_manager(manager.url, BOB if name.startswith("Bob") else ALICE, services.PASSWORD)


def _follow(
    stack: contextlib.ExitStack,
    console: Console,
    batches: Sequence[Batch],
    clients: Mapping[str, StockClient | OwnClient],
    projects: Sequence[DemoService],
    statistics: DemoService,
) -> CreditHistory:
    """Show progress until all jobs are done and the statistics site has read the later exports; return Alice's credit history."""
    site = stack.enter_context(services.visitor(statistics.url))
    curve, known = CreditHistory(address="", totals={}, n_steps=0), "none yet"

    def watch(finished: float) -> tuple[str, bool]:
        nonlocal curve, known
        found = read_curve(site, "Alice", since=finished)
        if found is not None:
            curve = found
            known = " · ".join(f"{title} {total:.2f}" for title, total in curve.totals.items())
        complete = found is not None and len(curve.totals) == len(projects) and curve.n_steps > 1
        return f"Alice's statistics: {known}", complete

    urls = [place.url for place in projects]
    failed = follow(console, batches, clients, urls, seconds=TIMEOUT_SECONDS, enough=3, watch=watch)
    if failed:
        console.print(f"Failed jobs: {failed}; the projects' pages say why.")
    return curve


def read_curve(http: httpx.Client, name: str, *, since: float = 0.0) -> CreditHistory | None:
    """Return the statistics site's history of a volunteer, from exports after ``since`` (Unix seconds); None: not yet."""

    def ask(page: str) -> list[dict[str, object]]:
        answer = http.get(page, params={"format": "json"})
        return answer.json() if answer.status_code == 200 else []

    if any(float(str(row["exported"])) < since for row in ask("collection")):
        return None
    people = [row for row in ask("ranking/user") if row["name"] == name]
    if len(people) != 1:  # the projects have not heard of each other's number of the person yet
        return None
    page = f"user/{people[0]['key']}"
    totals: dict[str, float] = {}
    days: set[str] = set()
    for row in ask(page):
        totals[str(row["project"])] = float(str(row["total_credit"]))
        days.add(str(row["day"]))
    return CreditHistory(address=str(http.base_url.join(page)), totals=totals, n_steps=len(days))


def _report(console: Console, curve: CreditHistory) -> None:
    """Print the figures."""
    table = services.figures("Alice, one account over two projects", "project", "credit", right=("credit",))
    for title, total in curve.totals.items():
        table.add_row(title, f"{total:.2f}")
    table.add_row("all", f"{sum(curve.totals.values()):.2f}", style="bold")
    console.print(table)
    console.print(f"The statistics site has {curve.n_steps} steps of her history.")
    console.print("Bob is not on the statistics site: he was not asked whether he wants to be shown there.")
