"""One and two server processes on one PostgreSQL: ``python -m tests.bench.bench_processes``.

The whole way of a job, over HTTP, with as many connections in all.  Prints jobs per second, CPU time per job of the servers and
of the database, requests for work that got none, and how many connections waited for a lock, on average.
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
from urllib.parse import urlsplit

import psycopg
from tests.bench.bench_server import check_pipeline
from tests.bench.load import Plan, together
from tests.bench.project import BenchProject, make_project
from tests.bench.served import LoadProcess, serving
from tests.helpers.postgres_server import PostgresServer

from cobblestone.demo.processes import free_port

SAMPLE_SECONDS = 0.02
_WAITING = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND application_name = 'cobblestone'"


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
) -> str:
    """Let ``n`` processes serve; a line with what they did."""
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
        with lock_waits(postgres) as seen:
            plan = Plan(report=True, upload=True, may_be_empty=True)
            counts = together(list(pool.map(partial(run, plan=plan), loads)))
        here = (sum(server.cpu_seconds() for server in servers) - begin[0]) / counts.reports
        there = (servers[0].database_cpu_seconds() - begin[1]) / counts.reports
        check_pipeline(project, sent=given.jobs + counts.jobs, reported=counts.reports)
    name = urlsplit(str(project.location)).path.removeprefix("/")
    deadlocks = postgres.execute(f"SELECT deadlocks FROM pg_stat_database WHERE datname = '{name}'")[0][0]
    return (
        f"{n:9} {counts.reports / counts.seconds * n:7.0f} {here * 1e6:9.0f} {there * 1e6:9.0f} {counts.empty:7}"
        f" {sum(seen) / max(len(seen), 1):10.3f} {deadlocks:9}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--connections", type=int, default=12)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cobblestone-bench-")))
        postgres = PostgresServer(durable=True, settings={"shared_buffers": "1GB"})
        stack.callback(postgres.close)
        print("processes  jobs/s  CPU/us    database   empty lock waits deadlocks")
        for turn in range(arguments.turns):
            for n in (1, 2):
                project = make_project(
                    folder / f"{turn}-{n}",
                    n_jobs=int(2000 * arguments.seconds) + 2000,
                    hosts_per_user=1,
                    in_batch=False,
                    database=postgres.empty_database(),
                )
                print(
                    measure(
                        postgres, project, n, seconds=arguments.seconds, connections=arguments.connections
                    ),
                    flush=True,
                )


if __name__ == "__main__":
    main()
