"""Server processes on one PostgreSQL: ``python -m tests.bench.bench_processes``.

The whole way of a job, over HTTP, with as many connections in all.  Prints jobs per second, CPU time per job of the servers and
of the database, requests for work that got none, how many connections waited for a lock, on average, and how many cores were
idle.  ``--picture FILE`` draws the rate against the number of processes.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
import psycopg
from tests.bench.bench_server import check_pipeline
from tests.bench.load import Plan, together
from tests.bench.project import BenchProject, make_project
from tests.bench.served import LoadProcess, serving
from tests.helpers.postgres_server import PostgresServer

from cobblestone.demo.processes import free_port
from cobblestone.simulator.report.picture import load_matplotlib

SAMPLE_SECONDS = 0.02
_WAITING = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'cobblestone'"


class Row(NamedTuple):
    """What some processes did together; CPU in microseconds a job."""

    processes: int
    jobs_per_second: float
    servers_cpu: float
    database_cpu: float
    empty: int
    lock_waits: float
    deadlocks: int
    idle_cores: float

    def __str__(self) -> str:
        return (
            f"{self.processes:9} {self.jobs_per_second:7.0f} {self.servers_cpu:9.0f} {self.database_cpu:9.0f} {self.empty:7}"
            f" {self.lock_waits:10.3f} {self.deadlocks:9} {self.idle_cores:10.2f}"
        )


@contextlib.contextmanager
def lock_waits(postgres: PostgresServer) -> Generator[list[float]]:
    """Look again and again while the block runs: how many connections wait for a lock."""
    seen: list[float] = []
    over = threading.Event()

    def look() -> None:
        with psycopg.connect(postgres.address("postgres"), autocommit=True) as connection:
            while not over.wait(SAMPLE_SECONDS):
                seen.extend(float(row[0]) for row in connection.execute(_WAITING))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def measure(
    postgres: PostgresServer, project: BenchProject, n: int, *, seconds: float, connections: int
) -> Row:
    """Let ``n`` processes serve."""
    parts = [
        replace(project, url=f"http://127.0.0.1:{free_port()}/", volunteers=project.volunteers[place::n])
        for place in range(n)
    ]
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(part, postmaster=postgres.pid)) for part in parts]
        loads = [stack.enter_context(contextlib.closing(LoadProcess(part))) for part in parts]
        pool = stack.enter_context(ThreadPoolExecutor(n))
        run = partial(LoadProcess.run, seconds=seconds, connections=connections // n)
        first = Plan(keep_signatures=True, once=True, may_be_empty=True)
        given = together(list(pool.map(partial(run, plan=first), loads)))
        begin = sum(server.cpu_seconds() for server in servers), servers[0].database_cpu_seconds()
        idle = psutil.cpu_times().idle
        with lock_waits(postgres) as seen:
            plan = Plan(report=True, upload=True, may_be_empty=True)
            counts = together(list(pool.map(partial(run, plan=plan), loads)))
        idle = psutil.cpu_times().idle - idle
        here = (sum(server.cpu_seconds() for server in servers) - begin[0]) / counts.reports
        there = (servers[0].database_cpu_seconds() - begin[1]) / counts.reports
        check_pipeline(project, sent=given.jobs + counts.jobs, reported=counts.reports)
    name = urlsplit(str(project.location)).path.removeprefix("/")
    deadlocks = postgres.execute(f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'")[0][0]
    return Row(
        n,
        counts.reports / counts.seconds * n,
        here * 1e6,
        there * 1e6,
        counts.empty,
        sum(seen) / max(len(seen), 1),
        int(str(deadlocks)),
        idle / counts.seconds * n,
    )


def draw(rows: list[Row], file: Path) -> None:
    """Draw the rate against the number of processes: each turn, the median, and as many times the first."""
    numbers = sorted({row.processes for row in rows})
    rates = [median(row.jobs_per_second for row in rows if row.processes == n) for n in numbers]
    pyplot = load_matplotlib()
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    axes.plot(
        numbers,
        [rates[0] / numbers[0] * n for n in numbers],
        ":",
        color="grey",
        label="as many times the first",
    )
    axes.plot(
        [row.processes for row in rows],
        [row.jobs_per_second for row in rows],
        ".",
        color="tab:blue",
        label="each turn",
    )
    axes.plot(numbers, rates, color="tab:blue", label="median")
    axes.set_xticks(numbers)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("server processes")
    axes.set_ylabel("jobs per second")
    axes.legend()
    figure.savefig(file, dpi=100)
    pyplot.close(figure)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--connections", type=int, default=12)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--processes", type=lambda text: [int(word) for word in text.split(",")], default=[1, 2, 4]
    )
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cobblestone-bench-")))
        postgres = PostgresServer(durable=True, settings={"shared_buffers": "1GB"})
        stack.callback(postgres.close)
        rows: list[Row] = []
        print("processes  jobs/s  CPU/us    database   empty lock waits deadlocks idle cores")
        for turn in range(arguments.turns):
            for n in arguments.processes:
                project = make_project(
                    folder / f"{turn}-{n}",
                    n_jobs=int(2000 * arguments.seconds) + 2000,
                    hosts_per_user=1,
                    in_batch=False,
                    database=postgres.empty_database(),
                )
                rows.append(
                    measure(
                        postgres, project, n, seconds=arguments.seconds, connections=arguments.connections
                    )
                )
                print(rows[-1], flush=True)
        if arguments.picture:
            draw(rows, arguments.picture)


if __name__ == "__main__":
    main()
