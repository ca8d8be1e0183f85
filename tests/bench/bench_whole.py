"""What goes over a whole project, at two sizes: ``python -m tests.bench.bench_whole``.

Start of the server, doctor, export and purge over a project of finished results, five for each computer, where everything
agrees with the ledger: what they take in CPU time (PostgreSQL's is not counted) and in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from tests.bench.project import BenchProject, fill, make_project
from tests.helpers.postgres_server import PostgresServer

from cobblestone.domain.apps import generalised_version_id
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.domain.values import AppId, HostId, ResultId, WorkunitId
from cobblestone.domain.work import FileDeleteState
from cobblestone.ops.files import write_private
from cobblestone.policy.credit.book import CreditBook, GrantTerms, ResultsJudged
from cobblestone.policy.credit.claims import ClaimInput, CreditUnit, PlatformKind, WorkunitFacts
from cobblestone.policy.credit.history import day_of
from cobblestone.policy.credit.rac import CreditTotals
from cobblestone.server.credit.systems import find_system
from cobblestone.server.daemons.file_deleter import BATCH, purge
from cobblestone.server.run import open_project
from cobblestone.store.credit.credit_facts import write_facts
from cobblestone.store.engine.database import Transaction

EACH = 5  #: results of a computer
BASE = 1_000_000_000  #: ids of finished results and their workunits begin here
OWNERS = 10_000_000  #: ids of computers and their owners begin here
DAY = 86400.0
PURGED = 10_000  #: workunits at most
VERSION = generalised_version_id(AppId(1), "CPU")
NOT_OF_ROWS = (
    "disk",
    "export",
    "daemons",
    "keys",
    "liars",
    "output_files",
)  #: checks whose findings are expected


@dataclass(frozen=True, kw_only=True)
class Story:
    """What every computer has done: a job a day, five days long."""

    begin: float
    facts: tuple[str, ...]  #: of its entries
    record: tuple[float, ...]  #: of its elapsed times: samples, mean, variance and q; of its turnarounds
    credit: CreditStatement


def _story() -> Story:
    begin = float(int(time.time() - 40 * DAY))
    book, totals, facts = CreditBook(), CreditTotals(), list[str]()
    totals.rows["host"][1] = CreditStatement(0.0, RecentAverage(0.0, begin))
    for k in range(EACH):
        now = begin + (k + 1) * DAY
        claim = ClaimInput(
            result_id=ResultId(1),
            host_id=HostId(1),
            app_version_id=VERSION,
            platform=PlatformKind.ANONYMOUS,
            canonical=True,
            elapsed_time=10.0,
            cpu_time=10.0,
            sent_time=now - 1000,
            received_time=now - 10,
        )
        event = ResultsJudged(
            terms=GrantTerms(system=find_system("fixed"), unit=CreditUnit(200.0), max_granted=1e6),
            app_id=AppId(1),
            workunit_id=WorkunitId(1),
            workunit=WorkunitFacts(rsc_fpops_est=1e9, rsc_fpops_bound=1e12, fixed_credit=1.0),
            valid=[claim],
            now=now,
        )
        (entry,) = book.apply(event)
        facts.append(write_facts(entry.facts))
        totals.credit([((1, None, None, None), 1.0, now - 1000)], now=now)
    means = (book.hosts[HostId(1), VERSION].elapsed, book.hosts[HostId(1), VERSION].turnaround)
    return Story(
        begin=begin,
        facts=tuple(facts),
        record=tuple(part for mean in means for part in (mean.n, mean.mean, mean.variance, mean.q)),
        credit=totals.rows["host"][1],
    )


def _add_owners(tx: Transaction, many: str, *, story: Story) -> None:
    recent = story.credit.recent
    credit = f"{story.credit.total!r}, {recent.value!r}, {recent.time!r}"
    tx.execute(
        "INSERT INTO user_account (id, name, email_addr, authenticator, weak_authenticator, cross_project_id, create_time,"
        f" total_credit, expavg_credit, expavg_time) {many} SELECT {OWNERS} + i, 'n' || i, 'e' || i, 'a' || i, 'w' || i,"
        f" 'c' || i, {story.begin}, {credit} FROM n"
    )
    tx.execute(
        "INSERT INTO consent (user_id, kind, agreed, time, source)"
        f" {many} SELECT {OWNERS} + i, 'statistics', 1, {story.begin}, 'bench' FROM n"
    )
    tx.execute(
        "INSERT INTO host (id, user_id, host_cpid, domain_name, create_time, rpc_time, description, total_credit, expavg_credit,"
        f" expavg_time) {many} SELECT {OWNERS} + i, {OWNERS} + i, 'h' || i, 'volunteer-host', {story.begin}, {recent.time},"
        f' \'{{"p_fpops": 1e9, "p_model": "Model"}}\', {credit} FROM n'
    )
    numbers = ", ".join(repr(part) for part in story.record)
    tx.execute(
        "INSERT INTO host_app_version (host_id, app_version_id, et_n, et_avg, et_var, et_q, turnaround_n, turnaround_avg,"
        f" turnaround_var, turnaround_q) {many} SELECT {OWNERS} + i, {VERSION}, {numbers} FROM n"
    )
    for owner in ("user", "host"):
        tx.execute(
            "INSERT INTO credit_day (owner, owner_id, day, granted, n_results, total, total_results)"
            f" {many} SELECT '{owner}', {OWNERS} + i, {day_of(story.begin) + EACH}, {EACH}, {EACH}, {EACH}, {EACH} FROM n"
        )


def _add_results(tx: Transaction, many: str, *, story: Story, n_hosts: int) -> None:
    """Let results have been finished long ago: half in a batch that nobody has retired, half in none."""
    owner, now = f"{OWNERS} + 1 + (i - 1) % {n_hosts}", f"{story.begin} + ((i - 1) / {n_hosts} + 1) * {DAY}"
    tx.execute(
        "INSERT INTO workunit (id, name, app_id, batch_id, create_time, min_quorum, target_nresults, output_specs,"
        " canonical_result_id, assimilate_state, file_delete_state, completed_seq, completed_time, canonical_credit)"
        f" {many} SELECT {BASE} + i, 'old_' || i, 1, CASE WHEN i % 2 = 0 THEN 1 END, {now}, 1, 1,"
        f' \'[{{"open_name": "out"}}]\', {BASE} + i, 2, {FileDeleteState.DONE}, {BASE} + i, {now}, 1.0 FROM n'
    )
    tx.execute(
        "INSERT INTO result (id, name, workunit_id, app_id, server_state, outcome, client_state, validate_state,"
        " file_delete_state, host_id, user_id, app_version_id, create_time, sent_time, received_time, cpu_time, elapsed_time,"
        " claimed_credit, granted_credit)"
        f" {many} SELECT {BASE} + i, 'old_' || i || '_0', {BASE} + i, 1, 5, 1, 5, 1,"
        f" CASE WHEN i % 2 = 0 THEN {FileDeleteState.INIT} ELSE {FileDeleteState.DONE} END,"
        f" {owner}, {owner}, {VERSION}, {now} - 1000, {now} - 1000, {now} - 10, 10, 10, 1.0, 1.0 FROM n"
    )
    tx.execute(
        "INSERT INTO upload (name, result_id, nbytes, md5, time)"
        f" {many} SELECT 'old_' || i || '_0_0', {BASE} + i, 10, 'x', {now} FROM n WHERE i % 2 = 0"
    )
    tx.execute(f"INSERT INTO result_text (result_id) {many} SELECT {BASE} + i FROM n")
    places = " ".join(f"WHEN {k} THEN '{facts}'" for k, facts in enumerate(story.facts))
    tx.execute(
        "INSERT INTO credit_entry (time, result_id, workunit_id, host_id, user_id, app_version_id, kind, system, claimed,"
        " granted, unit, work_start, facts)"
        f" {many} SELECT {now}, {BASE} + i, {BASE} + i, {owner}, {owner}, {VERSION}, 'grant', 'fixed', 1, 1, 200.0,"
        f" {now} - 1000, CASE (i - 1) / {n_hosts} {places} END FROM n"
    )


def _finish(tx: Transaction, *, n: int) -> None:
    tx.execute("UPDATE batch SET n_success = ? WHERE id = 1", (n // 2,))
    last = str(tx.value("SELECT max(id) FROM credit_entry"))
    for mark in (
        "app_credit_entry",
        "credit_day_entry",
        "transfer_entry",
    ):  # sums that follow have taken all of that in
        tx.execute(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (mark, last),
        )


def make_whole(folder: Path, n: int, *, database: str = "") -> BenchProject:
    """Make a project with ``n`` finished results, which all agrees with its ledger; only the outputs are not on the disk."""
    project = make_project(folder, n_jobs=0, hosts_per_user=1, database=database)
    story, n_hosts = _story(), n // EACH
    with open_project(folder) as ctx:
        fill(ctx.store, n_hosts, partial(_add_owners, story=story))
        fill(ctx.store, n, partial(_add_results, story=story, n_hosts=n_hosts))
        ctx.store.write(partial(_finish, n=n))
        write_private(
            ctx.folder.admin_token_file, project.token.encode()
        )  # for the commands that are measured
    return project


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What a program took."""

    seconds: float
    cpu_seconds: float
    rss_mb: float  #: at most
    output: str


def run_measured(*arguments: str) -> Cost:
    """Run a command of cobblestone, and wait for its end."""
    return _run_module("cobblestone", *arguments)


def _run_module(*arguments: str) -> Cost:
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read().decode()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return _cost(begin, used, output)


def _cost(begin: float, used: resource.struct_rusage, output: str) -> Cost:
    return Cost(
        seconds=time.perf_counter() - begin,
        cpu_seconds=used.ru_utime + used.ru_stime,
        rss_mb=used.ru_maxrss / 1024,
        output=output,
    )


def _start(project: BenchProject) -> Cost:
    """Start the server, until it answers, and stop it."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "cobblestone", "run", "--project", str(project.root)])
    answered = 0.0
    while not answered and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            httpx.get(f"{project.url}healthz", timeout=2.0)
            answered = time.perf_counter() - begin
        time.sleep(0.05)
    process.terminate()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return Cost(
        seconds=answered, cpu_seconds=used.ru_utime + used.ru_stime, rss_mb=used.ru_maxrss / 1024, output=""
    )


def _doctor(project: BenchProject, check: str) -> Cost:
    cost = run_measured("doctor", "--project", str(project.root), "--check", check, "--json")
    found = json.loads(cost.output)["checks"][0]["diagnosis"]
    assert check in NOT_OF_ROWS or not found["findings"], found["findings"][:3]
    return cost


def purge_some(folder: Path) -> int:
    """Let the purger work as it does in a server, for `PURGED` workunits; return how many it moved."""

    async def rounds() -> int:
        return sum([await purge(ctx) for _ in range(PURGED // BATCH)])

    with open_project(folder) as ctx:
        return asyncio.run(rounds())


def _purge(project: BenchProject) -> Cost:
    cost = _run_module("tests.bench.bench_whole", "--purge", str(project.root))
    assert int(cost.output) == PURGED
    return cost


def _costs(project: BenchProject, only: Sequence[str]) -> dict[str, Cost]:
    checks = json.loads(
        run_measured("doctor", "--project", str(project.root), "--check", "schema", "--json").output
    )
    assert checks["sound"]
    from cobblestone.server.operation.doctor import CHECKS

    todo: dict[str, Callable[[], Cost]] = {
        "start": partial(_start, project),
        **{f"doctor {name}": partial(_doctor, project, name) for name in CHECKS},
        "export": lambda: run_measured("export", "--project", str(project.root)),
        f"purge of {PURGED:,}": partial(_purge, project),
    }
    found: dict[str, Cost] = {}
    for name, run in todo.items():
        if not only or name in only:
            found[name] = cost = run()
            print(
                f"{name:24} {cost.seconds:8.1f} s {cost.cpu_seconds:8.1f} s CPU {cost.rss_mb:7.0f} MB",
                flush=True,
            )
    return found


def main() -> None:
    """Measure twice and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--few", type=int, default=100_000)
    parser.add_argument("--many", type=int, default=5_000_000)
    parser.add_argument("--rows", default="", help="only these, separated by commas")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument(
        "--purge", type=Path, help="only move jobs of the project in this folder to its archive"
    )
    arguments = parser.parse_args()
    if arguments.purge:
        print(purge_some(arguments.purge))
        return
    rows = [row for row in arguments.rows.split(",") if row]
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cobblestone-bench-")))
        server = None
        if arguments.database == "postgresql":
            server = PostgresServer(durable=True, settings={"shared_buffers": "1GB"})
            stack.callback(server.close)
        found: list[dict[str, Cost]] = []
        for n in (arguments.few, arguments.many):
            database = "" if server is None else server.empty_database()
            begin = time.perf_counter()
            project = make_whole(folder / str(n), n, database=database)
            if server is not None:
                server.execute("VACUUM ANALYZE", database=urlsplit(database).path.removeprefix("/"))
            print(f"{n:,} finished results: filled in {time.perf_counter() - begin:.0f} s", flush=True)
            found.append(_costs(project, rows))
    print("| | CPU s | CPU s | MB | MB |\n| --- | ---: | ---: | ---: | ---: |")
    for name, few in found[0].items():
        many = found[1][name]
        print(
            f"| {name} | {few.cpu_seconds:.1f} | {many.cpu_seconds:.1f} | {few.rss_mb:.0f} | {many.rss_mb:.0f} |"
        )


if __name__ == "__main__":
    main()
