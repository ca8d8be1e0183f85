"""Islands in earnest: ``python -m tests.bench.bench_islands`` (trial and figures; some five minutes).

*Trial*: a centre and two islands, each with a PostgreSQL server of its own, and volunteers who know one address. The follower is
killed again and again, an island's database loses its power for a while, then the centre's. In the end the ledgers are
compared entry by entry.

*Figures*: the whole pipeline on one PostgreSQL server, then on two at once, and what the follower costs for each entry. All
servers share this machine, so what tells is the CPU time of the databases for each job, not the rate.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import math
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import psutil
from tests.bench.load import Plan
from tests.bench.project import BenchProject, make_project
from tests.bench.served import LoadProcess, cpu_seconds, drained, serving
from tests.helpers.killed_project import work
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import SimHost, World
from tests.helpers.server_process import Server
from tests.helpers.wire_elements import read_elements

from cobblestone.demo.stock_client import StockClient, free_port
from cobblestone.domain.work import JobLimits
from cobblestone.server.core.islands import Islands, islands_text, made_island
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.server.daemons.island_follower import IslandFollower
from cobblestone.server.operation.create_project import NewProject, create_project
from cobblestone.server.operation.islands import add_island
from cobblestone.server.run import open_project
from cobblestone.store.catalog import apps
from cobblestone.store.credit.follower import SETTLED_SECONDS
from cobblestone.store.engine.database import Store
from cobblestone.store.operation.island_accounts import Identity, found_island
from cobblestone.wire.signatures import decode_private_key

NAMES = ("north", "south")
N_USERS, N_HOSTS = 6, 12
N_JOBS = 4000
CGI = "/cgi-bin/cgi"
CARRIED = 20_000  #: entries at the least, when that is measured
MORE_ENTRIES = (
    "INSERT INTO credit_entry (time, result_id, workunit_id, host_id, user_id, kind, system, claimed, granted, unit,"
    " work_start, reasons, facts, app_version_id) SELECT time, result_id + {}, workunit_id, host_id, user_id, kind, system,"
    " claimed, granted, unit, work_start, reasons, facts, app_version_id FROM credit_entry ORDER BY id LIMIT {}"
)


def say(text: str) -> None:
    """Tell how far it is."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
    sys.stdout.flush()


# -- the trial -----------------------------------------------------------------


class OneAddress:
    """A computer that knows the project's address alone, and uploads where its island says."""

    def __init__(self, url: str) -> None:
        self.http = httpx.Client(base_url=url, timeout=15, follow_redirects=True)
        self.home = ""

    def post(self, path: str, **options: Any) -> httpx.Response:
        """Post; that a server is busy or away is an exception, after which a client comes again."""
        reply = self.http.post(path if path == CGI else f"{self.home}{path}", **options)
        reply.raise_for_status()
        if path == CGI:
            self.home = str(reply.url).removesuffix(CGI)
        return reply


@dataclass
class Work:
    """What was acknowledged to volunteers."""

    at: list[tuple[float, str, int]] = field(
        default_factory=list[tuple[float, str, int]]
    )  #: when, where, how many
    names: set[str] = field(default_factory=set[str])
    ended: threading.Event = field(default_factory=threading.Event)

    def rate(self, home: str, begin: float, end: float) -> float:
        """Results a second that an island acknowledged in a time."""
        found = sum(n for when, where, n in self.at if where == home and begin <= when < end)
        return found / (end - begin)


def volunteer(seed: int, url: str, key: str, done: Work) -> None:
    """Work on two computers until the end."""
    rng = random.Random(seed)
    hosts = [
        SimHost(OneAddress(url), key, f"{seed * 10 + each:032x}", {"domain_name": f"h{seed}-{each}"})
        for each in range(N_HOSTS // N_USERS)
    ]
    while not done.ended.is_set():
        host = rng.choice(hosts)
        mine: set[str] = set()
        try:
            work(host, rng, mine, lies=seed == 1)
        except (httpx.HTTPError, AssertionError):  # AssertionError: an upload is put off, too
            time.sleep(0.2)
        done.at.append((time.monotonic(), host.world.home, len(mine)))  # type: ignore[attr-defined]  # `world` is the address above
        done.names |= mine


class Follower:
    """The process that carries credit and accounts, apart from those that clients call."""

    def __init__(self, root: Path) -> None:
        self._words = (sys.executable, "-m", "cobblestone", "run", str(root), "--role", "statistics")
        self._process: subprocess.Popen[bytes] | None = None
        self.kills = 0

    def start(self) -> None:
        self._process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.kills += 1


@dataclass
class Trial:
    """A centre with islands."""

    root: Path
    servers: dict[str, PostgresServer]
    addresses: dict[str, str]
    urls: dict[str, str]

    def make(self) -> None:
        now = time.time()
        create_project(
            self.root / "centre",
            NewProject(
                url=self.urls["centre"], port=_port(self.urls["centre"]), database=self.addresses["centre"]
            ),
            now=now,
        )
        centre = ProjectFolder(self.root / "centre")
        toml = self.root / "centre" / "cobblestone.toml"
        toml.write_text(
            toml.read_text()
            .replace('level = "info"', 'level = "error"')
            .replace("daily_result_quota = 500", "daily_result_quota = 100000")
            .replace('confirmed_email = "asked"', 'confirmed_email = "off"')
        )
        islands = [
            made_island(
                name=name, number=number, url=self.urls[name], database=self.addresses[name], share=1.0
            )
            for number, name in enumerate(NAMES, start=1)
        ]
        for island in islands:
            add_island(centre, self.root / island.name, island, now=now)
        text = islands_text(Islands(centre_share=0.0, island=tuple(islands)))
        (self.root / "centre" / "islands.toml").write_text(text)
        for name in ("centre", *NAMES):
            key = decode_private_key((self.root / name / "keys" / "code_sign_private").read_text())
            world = World(self.root / name, made_with=key)
            world.now = time.time()
            app = world.add_app(quorum=2, limits=JobLimits(rsc_fpops_est=1e10))
            app = replace(app, credit_system="creditnew-deployed", partial_credit=True)
            world.write(lambda tx, app=app: apps.update_app(tx, app))
            if name != "centre":
                world.add_jobs(app, n=N_JOBS)
            world.close()

    def ledger(self, name: str, where: str = "") -> list[tuple[Any, ...]]:
        with contextlib.closing(Store(self.addresses[name], readers=1)) as store:
            sql = f"SELECT id, granted, result_id, kind, user_id, host_id, facts FROM credit_entry {where} ORDER BY id"
            return store.read(lambda db: db.query(sql))


def _port(url: str) -> int:
    return int(url.rstrip("/").rpartition(":")[2])


@contextlib.contextmanager
def trial_servers(root: Path) -> Generator[Trial, None, None]:
    """A PostgreSQL server each for a centre and two islands."""
    with contextlib.ExitStack() as stack:
        servers = {name: PostgresServer(durable=True) for name in ("centre", *NAMES)}
        for server in servers.values():
            stack.callback(server.close)
        yield Trial(
            root=root,
            servers=servers,
            addresses={name: server.empty_database() for name, server in servers.items()},
            urls={name: f"http://127.0.0.1:{free_port()}/" for name in servers},
        )


def run_trial(root: Path, *, stock: bool) -> None:
    """Kill, cut off, compare."""
    with trial_servers(root) as trial, contextlib.ExitStack() as stack:
        trial.make()
        say("made a centre and two islands, a PostgreSQL server each")
        programs = {
            "centre": Server(root / "centre", trial.urls["centre"], "--role", "web,scheduler,upload"),
            **{name: Server(root / name, trial.urls[name]) for name in NAMES},
        }
        for program in programs.values():
            program.start()
            stack.callback(program.stop)
        follower = Follower(root / "centre")
        follower.start()
        stack.callback(follower.kill)
        keys = [_account(trial.urls["centre"], f"user{number}") for number in range(N_USERS)]
        client = StockClient(root / "stock")
        if stock:
            stack.callback(client.stop)
            client.start()
            client.attach(trial.urls["centre"], keys[0])
        done = Work()
        threads = [
            threading.Thread(target=volunteer, args=(seed, trial.urls["centre"], key, done))
            for seed, key in enumerate(keys)
        ]
        for thread in threads:
            thread.start()
        _disturb(trial, follower, done)
        if stock:
            client.wait_for(lambda: "Scheduler request completed" in client.log(), seconds=60, what="a reply")
        done.ended.set()
        for thread in threads:
            thread.join()
        say(f"{len(done.names):,} results were acknowledged; waiting until all credit has settled")
        _compare(trial, follower, client if stock else None)


def _account(url: str, name: str) -> str:
    email = f"{name}@example.org"
    passwd_hash = hashlib.md5(f"secret{email}".encode()).hexdigest()
    parameters = {"email_addr": email, "passwd_hash": passwd_hash, "user_name": name}
    reply = httpx.get(f"{url}create_account.php", params=parameters, timeout=30)
    return read_elements(reply.content).get("authenticator")


def _disturb(trial: Trial, follower: Follower, done: Work) -> None:
    rng = random.Random(1)
    homes = {name: trial.urls[name].rstrip("/") for name in NAMES}

    def phase(what: str, seconds: float) -> None:
        begin = time.monotonic()
        time.sleep(seconds)
        end = time.monotonic()
        rates = ", ".join(f"{name} {done.rate(home, begin, end):.1f}/s" for name, home in homes.items())
        say(f"{what}: {rates}")

    phase("until all computers are known", 15)
    phase("nothing disturbed", 15)
    trial.servers["north"].stop(abruptly=True)
    phase("north's PostgreSQL is away", 15)
    trial.servers["north"].start()
    phase("it is back", 15)
    trial.servers["centre"].stop(abruptly=True)
    phase("the centre's PostgreSQL is away", 10)
    trial.servers["centre"].start()
    phase("it is back", 10)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        follower.kill()
        follower.start()
        time.sleep(rng.uniform(2.0, 6.0))
    say(f"the follower was killed {follower.kills} times within a minute")


def _compare(trial: Trial, follower: Follower, stock: StockClient | None) -> None:
    end = time.monotonic() + SETTLED_SECONDS + 120
    kills = follower.kills
    while True:
        islands = {name: trial.ledger(name) for name in NAMES}
        centre = trial.ledger("centre")
        n_there = sum(len(rows) for rows in islands.values())
        if len(centre) == n_there or time.monotonic() > end:
            break
        if follower.kills < kills + 5:  # while the last entries travel, too
            follower.kill()
            follower.start()
        time.sleep(4)
    found = {msgspec.json.decode(row[6])["entry"]: row for row in centre}
    expected = {row[0]: row for rows in islands.values() for row in rows}
    assert len(found) == len(centre), "an entry was entered twice"
    assert found.keys() == expected.keys(), (
        f"{len(expected.keys() ^ found.keys())} entries are on one side only"
    )
    assert all(found[id_][1:6] == row[1:6] for id_, row in expected.items()), "entries differ"
    sums = {name: math.fsum(row[1] for row in rows) for name, rows in islands.items()}
    total = math.fsum(row[1] for row in centre)
    assert total == math.fsum(row[1] for row in expected.values())
    kinds = Counter(row[3] for row in centre)
    with contextlib.closing(Store(trial.addresses["centre"], readers=1)) as store:
        differences = store.read(recompute).differences
        users, hosts = (
            float(store.read(lambda db, table=table: db.value(f"SELECT SUM(total_credit) FROM {table}")))
            for table in ("user_account", "host")
        )
    assert not differences, differences
    assert math.isclose(users, total, rel_tol=1e-9)
    assert math.isclose(hosts, total, rel_tol=1e-9)
    for name in NAMES:
        with contextlib.closing(Store(trial.addresses[name], readers=1)) as store:
            assert not store.read(recompute).differences
    say(f"ledgers: {', '.join(f'{name} {len(islands[name]):,} entries, {sums[name]!r}' for name in NAMES)}")
    say(f"centre: {len(centre):,} entries {dict(kinds)}, {total!r}; the same, entry by entry")
    say(
        f"totals of accounts {users:.6f}, of computers {hosts:.6f}; the follower was killed {follower.kills} times"
    )
    if stock is not None:
        state = (stock.folder / "client_state.xml").read_text()
        say(f"Debian's client has number {re.findall('<hostid>([0-9]+)', state)}")


# -- figures -------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Carried:
    """What a pipeline did."""

    jobs: int
    seconds: float
    database_cpu: float
    program_cpu: float


def database_cpu(postmaster: int) -> float:
    """CPU time of a PostgreSQL server so far, in seconds."""
    process = psutil.Process(postmaster)
    total = cpu_seconds(process)
    for child in process.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            total += cpu_seconds(child)
    return total


def pipelines(projects: Sequence[tuple[BenchProject, PostgresServer]], *, seconds: float) -> list[Carried]:
    """Run the whole pipeline on several projects at once; each has its own load."""
    with contextlib.ExitStack() as stack:
        running = [stack.enter_context(serving(project, postmaster=pg.pid)) for project, pg in projects]
        loads = [LoadProcess(project) for project, _ in projects]
        for load in loads:
            stack.callback(load.close)
            load.run(Plan(keep_signatures=True, once=True), seconds=0, job_seconds=1)
        found: list[Carried | None] = [None] * len(projects)

        def run(place: int) -> None:
            project, postgres = projects[place]
            server, cpu = running[place].cpu_seconds(), database_cpu(postgres.pid)
            counts = loads[place].run(Plan(report=True, upload=True), seconds=seconds, job_seconds=1)
            drained(project, n_reported=counts.reports)  # what was reported is paid for to its end
            found[place] = Carried(
                jobs=counts.reports,
                seconds=counts.seconds,
                database_cpu=database_cpu(postgres.pid) - cpu,
                program_cpu=running[place].cpu_seconds() - server,
            )

        threads = [threading.Thread(target=run, args=(place,)) for place in range(len(projects))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [each for each in found if each is not None]


def told(what: str, done: Sequence[Carried]) -> None:
    """Print what was carried."""
    jobs = sum(each.jobs for each in done)
    rate = sum(each.jobs / each.seconds for each in done)
    database = 1000 * sum(each.database_cpu for each in done) / jobs
    program = 1000 * sum(each.program_cpu for each in done) / jobs
    say(
        f"{what}: {rate:.0f} jobs/s together; a job takes {database:.2f} ms of database CPU, {program:.2f} ms of the server's"
    )


def run_figures(root: Path, *, seconds: float, rounds: int, flush: bool) -> None:
    """One server against two, in turns, and the cost of an entry that is carried."""
    with contextlib.ExitStack() as stack:
        servers = [PostgresServer(durable=flush) for _ in range(3)]
        for server in servers:
            stack.callback(server.close)
        made: list[BenchProject] = []
        for number in range(rounds):
            made = [
                make_project(
                    root / f"{number}-{place}",
                    n_jobs=int(400 * seconds) + 1000,
                    hosts_per_user=1,
                    in_batch=False,
                    database=servers[place].project_database(),
                )
                for place in range(3)
            ]
            told("one PostgreSQL server ", pipelines([(made[0], servers[0])], seconds=seconds))
            pair = [(made[1], servers[1]), (made[2], servers[2])]
            told("two PostgreSQL servers", pipelines(pair, seconds=seconds))
        carry(made[0], servers[0], made[1], servers[1])


def carry(
    centre: BenchProject, centre_server: PostgresServer, island: BenchProject, server: PostgresServer
) -> None:
    """Let the centre take the ledger of a project that ran before, as if that were its first island."""
    with contextlib.closing(Store(island.location, readers=1)) as store:
        store.write(lambda tx: found_island(tx, Identity(number=1, master_url=centre.url)))
        n_there = int(store.read(lambda db: db.value("SELECT COUNT(*) FROM credit_entry")))
        for number in range(1, 1 + CARRIED // n_there):  # the same again, for results of other numbers
            store.write(lambda tx, number=number: tx.execute(MORE_ENTRIES.format(10**7 * number, n_there)))
        entries = int(store.read(lambda db: db.value("SELECT COUNT(*) FROM credit_entry")))
    entry = made_island(name="north", number=1, url=island.url, database=str(island.location), share=1.0)
    with open_project(centre.root, clock=lambda: time.time() + 3600) as ctx:
        ctx.store.write(lambda tx: tx.execute("DELETE FROM credit_entry"))  # of the same numbers
        follower = IslandFollower(ctx, entry)
        own, here, there = time.process_time(), database_cpu(centre_server.pid), database_cpu(server.pid)

        async def follow() -> int:
            found = 0
            while done := await follower.step():
                found += done
            return found

        taken = asyncio.run(follow())
        follower.close()
        costs: Mapping[str, float] = {
            "of the centre's database": database_cpu(centre_server.pid) - here,
            "of the island's": database_cpu(server.pid) - there,
            "of the follower": time.process_time() - own,
        }
    assert taken == entries
    told_costs = ", ".join(f"{1e6 * cost / taken:.0f} µs {whose}" for whose, cost in costs.items())
    say(f"carried {taken:,} entries to the centre: for each {told_costs}")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=("trial", "figures"), help="run a part")
    parser.add_argument("--stock", action="store_true", help="attach Debian's client besides, in the trial")
    parser.add_argument("--seconds", type=float, default=10.0, help="length of a pipeline")
    parser.add_argument("--rounds", type=int, default=3, help="pairs of pipelines")
    parser.add_argument(
        "--no-flush", action="store_true", help="where others keep the disk busy: commits stay in memory"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.only != "figures":
            run_trial(Path(folder) / "trial", stock=chosen.stock)
        if chosen.only != "trial":
            run_figures(
                Path(folder) / "figures",
                seconds=chosen.seconds,
                rounds=chosen.rounds,
                flush=not chosen.no_flush,
            )


if __name__ == "__main__":
    main()
