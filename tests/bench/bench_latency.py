"""Latency of requests while the whole pipeline runs, and who holds the writer meanwhile: ``python -m tests.bench.bench_latency``.

Volunteers upload, report and ask for one job on six connections, as in the row ``pipeline`` of bench_server.py; the server notes
how long each write held the writer (holds.py).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from pathlib import Path

from tests.bench import holds
from tests.bench.bench_server import check_pipeline
from tests.bench.load import Plan
from tests.bench.project import make_project
from tests.bench.served import LoadProcess, serving
from tests.helpers.postgres_server import PostgresServer


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--connections", type=int, default=6)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--bare", action="store_true", help="without notes, which cost some CPU time")
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cobblestone-bench-")))
        postgres = None
        if arguments.database == "postgresql":
            postgres = PostgresServer(durable=True, settings={"shared_buffers": "1GB"})
            stack.callback(postgres.close)
        project = make_project(
            folder / "project",
            n_jobs=int(3000 * arguments.seconds + 1000),
            hosts_per_user=1,
            in_batch=False,
            database="" if postgres is None else postgres.empty_database(),
        )
        noted = folder / "holds.json"
        launcher = () if arguments.bare else (sys.executable, "-m", holds.__name__, str(noted))
        with serving(project, launcher=launcher, postmaster=postgres and postgres.pid) as server:
            with contextlib.closing(LoadProcess(project)) as load:
                given = load.run(Plan(keep_signatures=True, once=True), seconds=0, connections=6)
                begin, cpu = time.monotonic(), server.cpu_seconds()
                counts = load.run(
                    Plan(report=True, upload=True),
                    seconds=arguments.seconds,
                    connections=arguments.connections,
                )
                end, cpu = time.monotonic(), server.cpu_seconds() - cpu
            check_pipeline(project, sent=given.jobs + counts.jobs, reported=counts.reports)
        for name, times in (("requests", counts.scheduler_latencies), ("uploads", counts.upload_latencies)):
            p50, p99 = (sorted(times)[int(len(times) * part)] * 1000 for part in (0.5, 0.99))
            print(
                f"{name:10} {len(times):7,} p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {max(times) * 1000:.1f} ms"
            )
        print(
            f"{counts.reports / counts.seconds:,.0f} jobs/s, {cpu / counts.reports * 1e6:,.0f} µs of CPU a job"
        )
        if noted.exists():
            print("\n".join(holds.table(noted, begin, end)))


if __name__ == "__main__":
    main()
