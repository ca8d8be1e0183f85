"""The server's speed over real HTTP, with durable commits: ``python -m tests.bench.bench_server``.

Each group of rows gets a project of its own (see project.py), a server process, and a load process that sends the bytes of
the family's client (see load.py and README.md).  Every run ends with a count of rows, so that nothing that was not done
is counted.  ``--long`` fills the tables with a million results and watches the rate for ten minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import psutil
from tests.bench import bench_validator, figures
from tests.bench.crowd import CrowdCounts, CrowdProcess, visiting
from tests.bench.figures import Figure, Report
from tests.bench.load import Counts, Plan, together
from tests.bench.project import (
    BenchProject,
    add_exported_hosts,
    add_hosts,
    make_project,
    report_all,
    run_transitioner,
)
from tests.bench.served import LoadProcess, Server, Usage, count_rows, drained, serving
from tests.helpers.nginx import Nginx
from tests.helpers.postgres_server import PostgresServer

from cobblestone.server.daemons.housekeeping import NICENESS
from cobblestone.server.run import open_project
from cobblestone.service.serving import tune_gc

SLICE_SECONDS = 15.0
CROWD_CONNECTIONS = 64  #: that let the server do as much as it can
CROWD_HOSTS = 300_000


class Bench:
    """One run: its conditions, and where projects and databases come from."""

    def __init__(
        self, folder: Path, *, seconds: float, connections: int, postgres: PostgresServer | None
    ) -> None:
        self._folder = folder
        self._postgres = postgres
        self._n_projects = 0
        self.seconds = seconds
        self.connections = connections

    def project(
        self, *, n_jobs: float, hosts_per_user: int = 5, in_batch: bool = True, n_finished: int = 0
    ) -> BenchProject:
        """A fresh project."""
        self._n_projects += 1
        return make_project(
            self._folder / f"project{self._n_projects}",
            n_jobs=int(n_jobs),
            n_finished=n_finished,
            hosts_per_user=hosts_per_user,
            in_batch=in_batch,
            database="" if self._postgres is None else self._postgres.empty_database(),
        )

    @contextlib.contextmanager
    def served(self, project: BenchProject) -> Generator[tuple[Server, LoadProcess], None, None]:
        """A server and a load process for a project."""
        postmaster = None if self._postgres is None else self._postgres.pid
        with serving(project, postmaster=postmaster) as server:
            load = LoadProcess(project)
            try:
                yield server, load
            finally:
                load.close()

    def measured(
        self, server: Server, load: LoadProcess, plan: Plan, *, job_seconds: float = 1.0, seconds: float = 0.0
    ) -> tuple[Counts, Usage]:
        """Run a plan while the server is watched."""
        with server.watch() as usages:
            counts = load.run(
                plan, seconds=seconds or self.seconds, connections=self.connections, job_seconds=job_seconds
            )
        return counts, usages[0]


def figure(name: str, counts: Counts, usage: Usage, *, units: float, note: str = "") -> Figure:
    """A row from what was counted."""
    latencies = sorted(counts.scheduler_latencies or counts.upload_latencies)
    if not latencies or not units:
        raise SystemExit(f"{name}: nothing was done")
    return Figure(
        name=name,
        rate=units / counts.seconds,
        p50_ms=latencies[len(latencies) // 2] * 1000,
        p99_ms=latencies[int(len(latencies) * 0.99)] * 1000,
        cpu_us=usage.cpu_seconds / units * 1e6,
        database_cpu_us=usage.database_cpu_seconds / units * 1e6,
        load_cpu_us=counts.cpu_seconds / units * 1e6,
        rss_mb=usage.rss_bytes / 1e6,
        note=note,
    )


def expect(name: str, found: float, wanted: float) -> None:
    """Stop when the database does not hold what was counted."""
    if abs(found - wanted) > 1e-9 * abs(wanted):
        raise SystemExit(f"{name}: the database says {found:,.6g}, but {wanted:,.6g} were counted")


# -- groups of rows ---------------------------------------------------------------------------------------------


def asking(bench: Bench) -> Iterator[Figure]:
    """Requests that ask for nothing, and for one job."""
    project = bench.project(n_jobs=6000 * bench.seconds)
    with bench.served(project) as (server, load):
        counts, usage = bench.measured(server, load, Plan(ask=False))
        yield figure("empty", counts, usage, units=counts.requests)
        counts, usage = bench.measured(server, load, Plan())
        yield figure("one", counts, usage, units=counts.requests)
        expect("one job: results sent", count_rows(project)["sent"], counts.jobs)


def asking_for_ten(bench: Bench) -> Iterator[Figure]:
    """Requests for ten jobs."""
    project = bench.project(n_jobs=20_000 * bench.seconds)
    with bench.served(project) as (server, load):
        counts, usage = bench.measured(server, load, Plan(), job_seconds=10)
        note = f"{counts.jobs / counts.requests:.1f} jobs a request"
        yield figure("ten", counts, usage, units=counts.jobs, note=note)
        expect("ten jobs: results sent", count_rows(project)["sent"], counts.jobs)


CROWD_FACTOR = 10
CROWD_TURNS = 3
LEAST_GOODPUT = 0.8
PAGE_P99_SECONDS = 1.0


def crowd(bench: Bench) -> Iterator[Figure]:
    """Ten times as many computers as can be served, through the documented proxy, while somebody looks at the status page."""
    project = bench.project(n_jobs=1000)
    with open_project(project.root) as ctx:
        add_hosts(ctx.store, CROWD_HOSTS)
    place = int(project.url.rstrip("/").rpartition(":")[2])
    with contextlib.closing(Nginx(place)) as nginx:
        # The server's own address is in its settings; computers and visitors know the proxy's.
        through_proxy = replace(project, url=f"http://127.0.0.1:{nginx.port}/")
        with serving(project) as server, CrowdProcess(through_proxy) as callers:
            load = LoadProcess(through_proxy)
            turns = [_crowd_turn(bench, server, load, callers) for _ in range(CROWD_TURNS)]
            load.close()
    ordinary = together([turn.ordinary for turn in turns])
    maximum = ordinary.requests / ordinary.seconds
    seconds = sum(turn.crowd.seconds for turn in turns)
    served = sum(turn.crowd.served for turn in turns)
    offered = sum(turn.crowd.calls for turn in turns) / seconds
    pages = sorted(page for turn in turns for page in turn.pages)
    page_p99 = pages[int(len(pages) * 0.99)]
    usage = Usage(
        seconds=seconds,
        cpu_seconds=sum(turn.usage.cpu_seconds for turn in turns),
        database_cpu_seconds=0.0,
        rss_bytes=max(turn.usage.rss_bytes for turn in turns),
    )
    counts = Counts(
        seconds=seconds,
        cpu_seconds=sum(turn.crowd.cpu_seconds for turn in turns),
        scheduler_latencies=[each for turn in turns for each in turn.crowd.served_latencies],
    )
    ordinary_cpu = sum(turn.ordinary_usage.cpu_seconds for turn in turns) / ordinary.requests
    goodput, by_cpu = served / seconds / maximum, ordinary_cpu / (usage.cpu_seconds / served)
    problems: list[str] = []
    if max(goodput, by_cpu) < LEAST_GOODPUT:
        problems.append(f"a crowd: {goodput:.0%} of the maximum are served, must be {LEAST_GOODPUT:.0%}")
    if page_p99 > PAGE_P99_SECONDS:
        problems.append(f"a crowd: 1 % of the looks at the status page take more than {page_p99:.1f} s")
    note = (
        f"{offered:,.0f} calls/s; {goodput:.0%} of the {maximum:,.0f}/s without them, {by_cpu:.0%} by CPU time;"
        f" {sum(turn.crowd.sent_away for turn in turns):,} sent away, {sum(turn.crowd.failed for turn in turns):,} failed;"
        f" status page p99 {page_p99 * 1000:.0f} ms of {len(pages)}"
    )
    yield replace(figure("crowd", counts, usage, units=served, note=note), problems=tuple(problems))


@dataclass(frozen=True)
class _Turn:
    ordinary: Counts
    ordinary_usage: Usage
    crowd: CrowdCounts
    usage: Usage
    pages: list[float]


def _crowd_turn(bench: Bench, server: Server, load: LoadProcess, callers: CrowdProcess) -> _Turn:
    """As many calls as the server can take, then ten times as many: in turns, for what else the machine does to meet both."""
    with visiting(callers.url), server.watch() as usages:
        ordinary = load.run(Plan(ask=False), seconds=bench.seconds / 2, connections=CROWD_CONNECTIONS)
    rate = CROWD_FACTOR * ordinary.requests / ordinary.seconds
    with visiting(callers.url) as pages, server.watch() as crowd_usages:
        found = callers.run(rate=rate, seconds=bench.seconds / 2)
    return _Turn(ordinary, usages[0], found, crowd_usages[0], pages)


def uploading_and_reporting(bench: Bench) -> Iterator[Figure]:
    """Uploads, then reports of one and of ten results, with the daemons behind them."""
    hosts = 5 if bench.seconds > 2 else 1
    project = bench.project(n_jobs=10 * hosts * 1000 + 1000, hosts_per_user=hosts)
    with bench.served(project) as (server, load):
        given = load.run(Plan(keep_signatures=True, once=True), seconds=0, connections=6, job_seconds=10)
        counts, usage = bench.measured(server, load, Plan(only_upload=True))
        yield figure("upload", counts, usage, units=counts.uploads)
        expect("uploads", count_rows(project)["uploads"], counts.uploads)
        few, usage = bench.measured(server, load, Plan(ask=False, report=True, report_at_most=1))
        yield figure("report", few, usage, units=few.reports)
        many, usage = bench.measured(server, load, Plan(ask=False, report=True, report_at_most=10))
        yield figure("report_ten", many, usage, units=many.reports)
        rows = count_rows(project)
        expect("results sent", rows["sent"], given.jobs)
        expect("results reported", rows["reported"], few.reports + many.reports)


def pipeline(bench: Bench) -> Iterator[Figure]:
    """The whole way of a job, one a request."""
    yield from _pipeline(bench, "pipeline", jobs=1, rate=3000)


def pipeline_of_ten(bench: Bench) -> Iterator[Figure]:
    """The whole way of a job, ten a request."""
    yield from _pipeline(bench, "pipeline_ten", jobs=10, rate=6000)


def _pipeline(bench: Bench, name: str, *, jobs: int, rate: float) -> Iterator[Figure]:
    project = bench.project(n_jobs=rate * bench.seconds + 1000 * jobs, hosts_per_user=1, in_batch=False)
    with bench.served(project) as (server, load):
        given = load.run(Plan(keep_signatures=True, once=True), seconds=0, connections=6, job_seconds=jobs)
        counts, usage = bench.measured(server, load, Plan(report=True, upload=True), job_seconds=jobs)
        rows = count_rows(project)
        done = min(rows["assimilated"], rows["deleted"])
        note = f"{counts.reports - done:,.0f} of {counts.reports:,} under way at the end"
        yield figure(name, counts, usage, units=done, note=note)
        check_pipeline(project, sent=given.jobs + counts.jobs, reported=counts.reports)


def check_pipeline(project: BenchProject, *, sent: float, reported: float, before: float = 0.0) -> None:
    """Every report was validated, credited once, assimilated, and its output deleted; ``before`` results were done before."""
    rows = drained(project, n_reported=reported + before)
    expect("results sent", rows["sent"], sent + before)
    expect("results reported", rows["reported"], reported + before)
    expect("valid results", rows["valid"], reported + before)
    expect("ledger entries", rows["ledger"], reported)
    expect("assimilated", rows["assimilated"], reported + before)
    expect("outputs left over", rows["uploads"], 0)
    expect("credit of hosts", rows["host_credit"], rows["granted"])
    expect("credit of users", rows["user_credit"], rows["granted"])


def submitting(bench: Bench) -> Iterator[Figure]:
    """Jobs in requests of 1,000 through the API."""
    project = bench.project(n_jobs=0)
    with (
        bench.served(project) as (server, _),
        httpx.Client(
            base_url=f"{project.url}api/v1", headers={"Authorization": f"Bearer {project.token}"}, timeout=60
        ) as api,
    ):
        batch = _good(api.post("/batches", json={"app": "bench", "open": True}))["id"]
        jobs = json.dumps({"name": "job"}).encode()
        listed = b",".join([jobs] * 1000)
        n, latencies = 0, list[float]()
        end = time.perf_counter() + bench.seconds
        with server.watch() as usages:
            begin = time.perf_counter()
            while (now := time.perf_counter()) < end:
                body = b'{"first":%d,"jobs":[%b]}' % (n, listed)
                _good(
                    api.post(
                        f"/batches/{batch}/jobs", content=body, headers={"Content-Type": "application/json"}
                    )
                )
                latencies.append(time.perf_counter() - now)
                n += 1000
            seconds = time.perf_counter() - begin
        counts = Counts(seconds=seconds, scheduler_latencies=latencies)
        yield figure("submission", counts, usages[0], units=n, note="the transitioner works meanwhile")
        expect("jobs submitted", count_rows(project)["workunits"], n)


def _good(reply: httpx.Response) -> dict[str, int]:
    if not reply.is_success:
        raise SystemExit(f"the API answered {reply.status_code}: {reply.text[:500]}")
    return reply.json()


def transitioning(bench: Bench) -> Iterator[Figure]:
    """The transitioner alone, within one process: making results, and after reports."""
    n_jobs = 40_000
    project = bench.project(n_jobs=n_jobs)
    yield Figure(name="transition", rate=project.transition_rate)
    with open_project(project.root) as ctx:
        n = report_all(ctx)
        tune_gc()  # as the server does
        cpu_begin, begin = time.process_time(), time.perf_counter()
        done = run_transitioner(ctx)
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu_begin
    expect("workunits after reports", done, n)
    yield Figure(name="transition_reports", rate=done / seconds, cpu_us=cpu / done * 1e6)


def validating(bench: Bench) -> Iterator[Figure]:
    """The validator alone, within one process."""
    rate, cpu_rate = bench_validator.measure(workunits=20_000, system="creditnew-deployed")
    yield Figure(name="validation", rate=rate, cpu_us=1e6 / cpu_rate)


EXPORTED_HOSTS = 200_000
EXPORT_TURNS = 4


def exporting(bench: Bench) -> Iterator[Figure]:
    """The export for statistics sites alone, and requests for one job while one runs after the other."""
    project = bench.project(n_jobs=10_000 * bench.seconds)
    add_exported_hosts(project, EXPORTED_HOSTS)
    command = [sys.executable, "-m", "cobblestone", "export", "--project", str(project.root), "--json"]
    made = psutil.Popen([*command], stdout=subprocess.PIPE)
    most, cpu = 0, 0.0
    while made.poll() is None:
        with contextlib.suppress(psutil.Error):
            most, cpu = max(most, made.memory_info().rss), sum(made.cpu_times()[:2])
        time.sleep(0.05)
    report = json.loads(made.stdout.read())["export"]
    expect("hosts exported", report["records"]["host"], EXPORTED_HOSTS)
    records = sum(report["records"].values())
    yield Figure(
        name="export", rate=records / report["seconds"], cpu_us=cpu / records * 1e6, rss_mb=most / 1e6
    )
    with bench.served(project) as (server, load):
        # In turns, for what else the machine does to meet both alike.
        alone, beside, used = list[Counts](), list[Counts](), list[Usage]()
        for _ in range(EXPORT_TURNS):
            seconds = bench.seconds / EXPORT_TURNS
            alone.append(bench.measured(server, load, Plan(), seconds=seconds)[0])
            with _again_and_again([*("nice", "-n", str(NICENESS)), *command]):
                counts, usage = bench.measured(server, load, Plan(), seconds=seconds)
            beside.append(counts)
            used.append(usage)
        without, with_export = together(alone), together(beside)
        rate = without.requests / without.seconds
        note = f"{with_export.requests / with_export.seconds / rate - 1:+.1%} beside {rate:,.0f} without an export"
        usage = Usage(
            seconds=with_export.seconds,
            cpu_seconds=sum(each.cpu_seconds for each in used),
            database_cpu_seconds=sum(each.database_cpu_seconds for each in used),
            rss_bytes=max(each.rss_bytes for each in used),
        )
        yield figure("one_exporting", with_export, usage, units=with_export.requests, note=note)


@contextlib.contextmanager
def _again_and_again(command: list[str]) -> Generator[None]:
    """Run a command over and over while the block runs."""
    over = threading.Event()
    running: list[subprocess.Popen[bytes]] = []

    def run_on() -> None:
        while not over.is_set():
            running[:] = [subprocess.Popen(command, stdout=subprocess.DEVNULL)]
            running[0].wait()

    thread = threading.Thread(target=run_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        for process in running:
            process.terminate()
        thread.join()


GROUPS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "submission": submitting,
    "transition": transitioning,
    "validation": validating,
    "one": asking,
    "ten": asking_for_ten,
    "crowd": crowd,
    "upload": uploading_and_reporting,
    "pipeline": pipeline,
    "pipeline_ten": pipeline_of_ten,
    "export": exporting,
}


# -- the long run -----------------------------------------------------------------------------------------------


def long_run(bench: Bench, *, minutes: float, n_finished: int) -> bool:
    """The whole pipeline over a million results: rate, latency and memory over time; whether it kept its pace."""
    slices = max(3, round(60 * minutes / SLICE_SECONDS))
    print(f"filling the tables: {n_finished:,} finished results and work for {slices} x {SLICE_SECONDS:g} s")
    project = bench.project(
        n_jobs=1500 * SLICE_SECONDS * slices + 1000, hosts_per_user=1, in_batch=False, n_finished=n_finished
    )
    rates: list[float] = []
    with bench.served(project) as (server, load):
        given = load.run(Plan(keep_signatures=True, once=True), seconds=0, connections=6)
        sent, reported, most = given.jobs, 0, 0.0
        print(f"{'minute':>7} {'jobs/s':>7} {'p50 ms':>7} {'p99 ms':>7} {'CPU µs':>7} {'MB':>5}")
        for place in range(slices):
            counts, usage = bench.measured(
                server, load, Plan(report=True, upload=True), seconds=SLICE_SECONDS
            )
            row = figure("pipeline", counts, usage, units=counts.reports)
            sent, reported = sent + counts.jobs, reported + counts.reports
            rates.append(row.rate)
            most = max(most, row.rss_mb)
            minute = (place + 1) * SLICE_SECONDS / 60
            print(
                f"{minute:7.2f} {row.rate:7,.0f} {row.p50_ms:7.1f} {row.p99_ms:7.1f} {row.cpu_us:7,.0f} {row.rss_mb:5.0f}",
                flush=True,
            )
        check_pipeline(project, sent=sent, reported=reported, before=n_finished)
    third = len(rates) // 3
    first, last = sum(rates[:third]) / third, sum(rates[-third:]) / third
    print(
        f"first third {first:,.0f} jobs/s, last third {last:,.0f} ({last / first - 1:+.0%}); at most {most:.0f} MB"
    )
    return last >= 0.9 * first and most < figures.RSS_MB


# -- the program --------------------------------------------------------------------------------------------------


def run(bench: Bench, names: list[str], database: str) -> Report:
    """Measure some groups, and print the table as it grows."""
    report = Report(database=database)
    print(report.heading())
    for name in names:
        report.add(GROUPS[name](bench))
    print(f"history: {figures.keep(report, {'seconds': bench.seconds, 'connections': bench.connections})}")
    return report


def main() -> None:
    """Measure, print, and say which floors were missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0, help="length of each measured run")
    parser.add_argument("--connections", type=int, default=6)
    parser.add_argument("--rows", default=",".join(GROUPS), help=f"groups of rows: {', '.join(GROUPS)}")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument(
        "--long", type=float, metavar="MINUTES", help="watch the pipeline over many results instead"
    )
    parser.add_argument(
        "--finished", type=int, default=300_000, help="finished results in the tables of the long run"
    )
    arguments = parser.parse_args()
    names = arguments.rows.split(",")
    if unknown := [name for name in names if name not in GROUPS]:
        parser.error(f"no rows are called {', '.join(unknown)}")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cobblestone-bench-")))
        postgres = None
        if arguments.database == "postgresql":
            postgres = PostgresServer(durable=True, settings={"shared_buffers": "1GB"})
            stack.callback(postgres.close)
            names = [
                name for name in names if name != "validation"
            ]  # a measurement of SQLite within one process
        bench = Bench(folder, seconds=arguments.seconds, connections=arguments.connections, postgres=postgres)
        if arguments.long is not None:
            raise SystemExit(
                0 if long_run(bench, minutes=arguments.long, n_finished=arguments.finished) else 1
            )
        missed = run(bench, names, arguments.database).missed()
    for text in missed:
        print(f"missed: {text}")


if __name__ == "__main__":
    main()
