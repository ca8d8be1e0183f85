"""What one job costs in the server, part by part: ``python -m tests.bench.bench_job``.

Volunteers call the two busy endpoints within this process, as a server calls them but without HTTP, six at a time; every few
jobs each daemon does what there is.  What is counted is CPU time, here and in PostgreSQL's process that writes; the least of
several rounds is shown, since busy neighbours only ever add to it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bench.load import SCHEDULER, UPLOAD, Counts, Messages, Plan, Volunteer, converse
from tests.bench.project import make_project
from tests.helpers.postgres_server import PostgresServer

from cobblestone.ops.logging import configure_logging
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.roles import ALL_ROLES
from cobblestone.server.daemons.workers import Workers
from cobblestone.server.files.uploads import UploadHandler
from cobblestone.server.run import _daemons, open_project
from cobblestone.server.scheduler.endpoint import SchedulerRpc
from cobblestone.service.serving import tune_gc
from cobblestone.wire.scheduler.request import parse_scheduler_request

CONNECTIONS = 6
DAEMONS = ("transitioner", "validator", "assimilator", "file_deleter")


@dataclass
class Cost:
    """CPU seconds that a part took."""

    here: float = 0.0
    in_database: float = 0.0


@dataclass
class Meter:
    """Counts by part, one part at a time."""

    database_processes: Sequence[int] = ()
    costs: dict[str, Cost] = field(default_factory=lambda: defaultdict[str, Cost](Cost))

    def _now(self) -> tuple[float, float]:
        of_database = sum(
            int(Path(f"/proc/{each}/schedstat").read_text().split()[0]) for each in self.database_processes
        )
        return time.process_time(), of_database / 1e9

    @contextlib.contextmanager
    def part(self, name: str) -> Generator[None]:
        """Count what the block does."""
        begin = self._now()
        yield
        end = self._now()
        cost = self.costs[name]
        cost.here += end[0] - begin[0]
        cost.in_database += end[1] - begin[1]


class Job:
    """The way of jobs through one project."""

    def __init__(self, ctx: ServerContext, meter: Meter) -> None:
        self._meter = meter
        self._scheduler = SchedulerRpc(ctx, ctx.offers)
        self._uploads = UploadHandler(ctx)
        self._ctx = ctx

    async def run(self, volunteers: Sequence[Volunteer], messages: Messages, *, every: int) -> int:
        """Let each volunteer upload and report what it has and ask for one job; return the number of reports."""
        counts = Counts()
        workers = Workers(self._ctx.settings.checks)
        daemons = {str(each.name): each for each in _daemons(self._ctx, workers, ALL_ROLES)}
        plan = Plan(report=True, upload=True, once=True)
        try:
            for start in range(0, len(volunteers), every):
                part = volunteers[start : start + every]
                await self._call(part, messages, plan, counts)
                for _ in range(2):
                    for name in DAEMONS:
                        with self._meter.part(name):
                            while await daemons[name].step():
                                pass
        finally:
            await asyncio.to_thread(workers.close)
        return counts.reports

    async def _call(
        self, volunteers: Sequence[Volunteer], messages: Messages, plan: Plan, counts: Counts
    ) -> None:
        for start in range(0, len(volunteers), CONNECTIONS):
            talks = [
                converse(messages, deque([each]), plan, counts, lambda: True)
                for each in volunteers[start : start + CONNECTIONS]
            ]
            waiting = [(talk, next(talk)) for talk in talks]
            while waiting:
                for path, app in ((UPLOAD, self._uploads), (SCHEDULER, self._scheduler)):
                    now = [each for each in waiting if path.encode() in each[1][:100]]
                    waiting = [each for each in waiting if each not in now]
                    bodies = [request.partition(b"\r\n\r\n")[2] for _, request in now]
                    with self._meter.part("upload" if path == UPLOAD else "scheduler"):
                        replies = await asyncio.gather(*(_post(app, body) for body in bodies))
                    if path == SCHEDULER:
                        with self._meter.part("  of which reading"):
                            for body in bodies:
                                parse_scheduler_request(body)
                    for (talk, _), reply in zip(now, replies, strict=True):
                        with contextlib.suppress(StopIteration):
                            waiting.append((talk, talk.send(reply)))


def _post(app: Any, body: bytes) -> Awaitable[bytes]:
    reply: list[bytes] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            reply.append(message.get("body", b""))

    async def post() -> bytes:
        await app({"type": "http", "headers": [], "client": ("127.0.0.1", 1)}, receive, send)
        return b"".join(reply)

    return post()


def measure(
    folder: Path, *, rounds: int, n_volunteers: int, every: int, server: PostgresServer | None = None
) -> dict[str, Cost]:
    """Return what a job costs, by part: the least of several rounds."""
    database = "" if server is None else server.empty_database()
    project = make_project(
        folder, n_jobs=2 * (rounds + 2) * n_volunteers, hosts_per_user=1, in_batch=False, database=database
    )
    # Somewhat less than a job takes: whoever is known to be a little faster would get two.
    messages = Messages(project.url, code_sign_key=project.code_sign_key, seconds=0.5)
    volunteers = project.volunteers[:n_volunteers]
    with open_project(folder) as ctx:
        meter = Meter()
        if server is not None:
            name = urlsplit(database).path.removeprefix("/")
            server.execute("VACUUM ANALYZE", database=name)
            server.execute("SELECT pg_stat_reset()", database=name)  # making the project changed rows, too
            rows: Any = server.execute(
                f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}' AND pid <> pg_backend_pid()"
                " AND backend_type = 'client backend' AND application_name = 'cobblestone'",
                database=name,
            )
            meter.database_processes = [row[0] for row in rows]
        found = asyncio.run(_rounds(ctx, meter, volunteers, messages, rounds=rounds, every=every))
    if server is not None:
        _show_updates(server, urlsplit(database).path.removeprefix("/"), (rounds + 2) * n_volunteers)
    return {
        name: Cost(min(each[name].here for each in found), min(each[name].in_database for each in found))
        for name in found[0]
    }


def _show_updates(server: PostgresServer, database: str, n: int) -> None:
    rows: Any = server.execute(
        "SELECT relname, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE n_tup_upd > 100 ORDER BY 2 DESC",
        database=database,
    )
    total = sum(row[1] for row in rows), sum(row[2] for row in rows)
    for name, updates, heap_only in (*rows, ("all", *total)):
        print(f"{name:20} {updates / n:5.1f} updates a job, {heap_only / updates:4.0%} of them heap-only")


async def _rounds(
    ctx: ServerContext,
    meter: Meter,
    volunteers: Sequence[Volunteer],
    messages: Messages,
    *,
    rounds: int,
    every: int,
) -> list[dict[str, Cost]]:
    ctx.signals.bind(asyncio.get_running_loop())
    await asyncio.to_thread(ctx.join_processes, ALL_ROLES)
    job = Job(ctx, meter)
    found: list[dict[str, Cost]] = []
    for number in range(rounds + 2):  # the first has nothing to report, the second warms up
        if number == 2:
            tune_gc()
        meter.costs.clear()
        n = await job.run(volunteers, messages, every=every)
        if number > 1:
            found.append(
                {name: Cost(cost.here / n, cost.in_database / n) for name, cost in meter.costs.items()}
            )
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--volunteers", type=int, default=300)
    parser.add_argument("--every", type=int, default=60, help="jobs between two steps of the daemons")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    arguments = parser.parse_args()
    configure_logging(level="warning")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cobblestone-bench-")))
        server = None
        if arguments.database == "postgresql":
            server = PostgresServer(settings={"shared_buffers": "512MB"})
            stack.callback(server.close)
        costs = measure(
            folder / "project",
            rounds=arguments.rounds,
            n_volunteers=arguments.volunteers,
            every=arguments.every,
            server=server,
        )
    of_whole = [cost for name, cost in costs.items() if not name.startswith(" ")]
    costs["all"] = Cost(sum(each.here for each in of_whole), sum(each.in_database for each in of_whole))
    print(f"{'part of a job':20} {'CPU us':>8} {'in the database':>16}")
    for name, cost in costs.items():
        print(f"{name:20} {cost.here * 1e6:8.0f} {cost.in_database * 1e6:16.0f}")


if __name__ == "__main__":
    main()
