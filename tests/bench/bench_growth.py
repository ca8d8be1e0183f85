"""Whether the work of a statement grows with the project: ``python -m tests.bench.bench_growth``.

The same day of a project is played twice, over a few finished results and over very many: computers ask, upload and report,
each daemon takes its steps, pages are looked at.  Every statement's work is counted where the database does it: on SQLite in
steps of its machine, on PostgreSQL in buffers touched.  Such counts are the same on a busy machine and on a quiet one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import httpx
from tests.bench.load import Messages, Volunteer
from tests.bench.project import BenchProject, add_hosts, fill, make_project
from tests.helpers.postgres_server import PostgresServer

from cobblestone.domain.work import FileDeleteState
from cobblestone.ops.logging import configure_logging
from cobblestone.server.app import create_app
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.roles import ALL_ROLES
from cobblestone.server.daemons.workers import Workers
from cobblestone.server.run import _daemons, open_project
from cobblestone.service.context import ServiceContext
from cobblestone.service.supervision import DaemonTask
from cobblestone.store.engine.database import Transaction

HOSTS = 100  #: that call in the day that is played
ROUNDS = 2  #: calls of each
MOST_GROWTH = 1.5
LITTLE = {"sqlite": 2_000.0, "postgresql": 40.0}
"""Work of one call that is no matter, whatever it was with fewer rows."""
_LIST = re.compile(r"\(\?(?:, ?\?)+\)")
PAGES = (
    "/",
    "/server_status.php",
    "/top_users.php",
    "/top_hosts.php",
    "/top_teams.php",
    "/apps.php",
    "/app.php?appid=1",
    "/show_user.php?userid=1",
    "/hosts_user.php?userid=1",
    "/show_host_detail.php?hostid=1",
    "/results.php?hostid=1",
    "/results.php?userid=1",
    "/result.php?resultid=1",
    "/workunit.php?wuid=1",
    "/credit.csv?userid=1",
    "/rss_main.php",
    "/api/v1/status",
    "/api/v1/batches",
    "/metrics",
)


@dataclass
class Work:
    """Calls and work of statements, by their text."""

    calls: dict[str, int] = field(default_factory=lambda: defaultdict[str, int](int))
    units: dict[str, float] = field(default_factory=lambda: defaultdict[str, float](float))

    def add(self, sql: str, *, calls: int, units: float) -> None:
        """Count calls of a statement."""
        text = _LIST.sub("(??)", " ".join(sql.split()))
        self.calls[text] += calls
        self.units[text] += units

    def per_call(self) -> dict[str, float]:
        """Return the mean work of one call."""
        return {sql: self.units[sql] / calls for sql, calls in self.calls.items()}


# -- the tables -------------------------------------------------------------------------------------------------


def _add_finished(tx: Transaction, many: str, *, n_hosts: int, n_users: int) -> None:
    """Let results have been finished long ago: half in a batch that nobody has retired, half in none."""
    long_ago = time.time() - 40 * 86400
    base = 1_000_000_000
    tx.execute(
        "INSERT INTO workunit (id, name, app_id, batch_id, create_time, min_quorum, target_nresults, output_specs,"
        " canonical_result_id, assimilate_state, file_delete_state, completed_seq, completed_time, canonical_credit)"
        f" {many} SELECT {base} + i, 'old_' || i, 1, CASE WHEN i % 2 = 0 THEN 1 END, {long_ago}, 1, 1,"
        ' \'[{"open_name": "out"}]\','
        f" {base} + i, 2, 2, {base} + i, {long_ago} + i * 0.1, 1.0 FROM n"
    )
    tx.execute(
        "INSERT INTO result (id, name, workunit_id, app_id, server_state, outcome, client_state, validate_state,"
        " file_delete_state, host_id, user_id, app_version_id, create_time, sent_time, received_time, cpu_time, elapsed_time,"
        " granted_credit)"
        f" {many} SELECT {base} + i, 'old_' || i || '_0', {base} + i, 1, 5, 1, 5, 1,"
        f" CASE WHEN i % 2 = 0 THEN {FileDeleteState.INIT} ELSE {FileDeleteState.DONE} END,"
        f" 1 + i % {n_hosts}, 1 + i % {n_users}, 1, {long_ago}, {long_ago}, {long_ago} + 1000, 10, 10, 1.0 FROM n"
    )
    tx.execute(
        "INSERT INTO upload (name, result_id, nbytes, md5, time)"
        f" {many} SELECT 'old_' || i || '_0_0', {base} + i, 10, 'x', {long_ago} FROM n WHERE i % 2 = 0"
    )
    tx.execute(
        "INSERT INTO credit_entry (time, result_id, workunit_id, host_id, user_id, app_version_id, kind, system, claimed,"
        " granted, work_start)"
        f" {many} SELECT {long_ago} + 2000, {base} + i, {base} + i, 1 + i % {n_hosts}, 1 + i % {n_users}, 1, 'grant',"
        f" 'benchmark', 1, 1, {long_ago} FROM n"
    )
    tx.execute(f"INSERT INTO result_text (result_id) {many} SELECT {base} + i FROM n")
    last = tx.value("SELECT max(id) FROM credit_entry")
    for mark in (
        "app_credit_entry",
        "credit_day_entry",
    ):  # sums that follow the ledger have taken all of that in
        tx.execute(
            "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
            (mark, str(last)),
        )


# -- the day ----------------------------------------------------------------------------------------------------


class Day:
    """What happens while statements are counted."""

    def __init__(self, ctx: ServerContext, project: BenchProject) -> None:
        self._ctx = ctx
        self._project = project
        self._messages = Messages(project.url, code_sign_key=project.code_sign_key, seconds=1.0)
        self._client = httpx.AsyncClient(
            transport=httpx.ASGITransport(create_app(ctx)),
            base_url=project.url,
            headers={"authorization": f"Bearer {project.token}"},
        )

    async def play(self) -> None:
        """Let everything happen."""
        self._ctx.signals.bind(asyncio.get_running_loop())
        await asyncio.to_thread(self._ctx.join_processes, ALL_ROLES)
        workers = Workers(self._ctx.settings.checks)
        try:
            for _ in range(ROUNDS + 1):
                for volunteer in self._project.volunteers[:HOSTS]:
                    await self._call(volunteer)
                for daemon in _daemons(self._ctx, workers, ALL_ROLES):
                    await _steps(daemon)
            for page in PAGES:
                reply = await self._client.get(page)
                assert reply.status_code == 200, f"{page}: {reply.status_code} {reply.text[:300]}"
        finally:
            await asyncio.to_thread(workers.close)
            await self._client.aclose()

    async def _call(self, volunteer: Volunteer) -> None:
        held = list(volunteer.held)
        for name in held:
            await self._post(self._messages.upload(name + b"_0", volunteer.signatures.pop(name + b"_0")))
        reply = await self._post(self._messages.scheduler(volunteer, ask=True, report=held))
        volunteer.held = re.findall(rb"<result>\s*<name>([^<]+)", reply)
        for name, signature in re.findall(
            rb"<name>([^<]+)</name>\s*<max_nbytes>\d+</max_nbytes>\s*<url>[^<]*</url>\s*<xml_signature>\n([^<]*)</xml_signature>",
            reply,
        ):
            volunteer.signatures[name] = signature
        assert volunteer.held, reply[:2000]

    async def _post(self, request: bytes) -> bytes:
        head, _, body = request.partition(b"\r\n\r\n")
        path = head.split(b" ", 2)[1].decode()
        reply = await self._client.post(path, content=body)
        return reply.content


async def _steps(daemon: DaemonTask) -> None:
    for _ in range(5):
        if not await daemon.step():
            return


# -- counting ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def counted_sqlite(ctx: ServiceContext) -> Generator[Work, None, None]:
    """Count what every connection of a project does."""
    work = Work()

    def note(event: dict[str, Any]) -> None:
        work.add(event["sql"], calls=1, units=event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"])

    store: Any = ctx.store
    connections = [store._write_connection, *store._all_readers]
    for connection in connections:
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    yield work
    for connection in connections:
        connection.trace_v2(0, None)


@contextlib.contextmanager
def counted_postgresql(server: PostgresServer, database: str) -> Generator[Work, None, None]:
    """Count what everybody does in a database."""
    work = Work()
    server.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements", database=database)
    server.execute("SELECT pg_stat_statements_reset()", database=database)
    yield work
    rows: Any = server.execute(
        "SELECT query, calls, shared_blks_hit + shared_blks_read + temp_blks_read FROM pg_stat_statements"
        f" WHERE dbid = (SELECT oid FROM pg_database WHERE datname = '{database}')",
        database=database,
    )
    for query, calls, blocks in rows:
        work.add(query, calls=calls, units=float(blocks))


def measure(folder: Path, *, n: int, n_hosts: int = 0, server: PostgresServer | None = None) -> Work:
    """Play the day over ``n`` finished results and ``n_hosts`` more computers."""
    database = "" if server is None else server.empty_database()
    name = urlsplit(database).path.removeprefix("/")
    project = make_project(
        folder, n_jobs=HOSTS * (ROUNDS + 2), in_batch=False, database=database, hosts_per_user=5
    )
    with open_project(folder) as ctx:
        begin = time.perf_counter()
        fill(ctx.store, n, partial(_add_finished, n_hosts=5000, n_users=1000))
        add_hosts(ctx.store, n_hosts)
        print(f"{n:,} finished results: filled in {time.perf_counter() - begin:.0f} s", flush=True)
        if server is not None:
            server.execute("VACUUM ANALYZE", database=name)
        with counted_sqlite(ctx) if server is None else counted_postgresql(server, name) as work:
            begin = time.perf_counter()
            asyncio.run(Day(ctx, project).play())
            print(f"the day took {time.perf_counter() - begin:.1f} s", flush=True)
    return work


def grown(few: Work, many: Work, *, little: float) -> list[tuple[float, float, int, str]]:
    """Return statements whose work grew: with few rows, with many, calls, text; the worst first."""
    before = few.per_call()
    found = [
        (before.get(sql, 0.0), units, many.calls[sql], sql)
        for sql, units in many.per_call().items()
        if units > little and units > MOST_GROWTH * before.get(sql, 0.0)
    ]
    return sorted(found, key=lambda each: -each[1] * each[2])


def main() -> None:
    """Measure twice and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--few", type=int, default=20_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--hosts", type=int, default=100_000, help="more computers with the many results")
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    arguments = parser.parse_args()
    configure_logging(level="warning")
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cobblestone-bench-")))
        server = None
        if arguments.database == "postgresql":
            server = PostgresServer(
                settings={"shared_buffers": "1GB", "shared_preload_libraries": "pg_stat_statements"}
            )
            stack.callback(server.close)
        few = measure(folder / "few", n=arguments.few, server=server)
        many = measure(folder / "many", n=arguments.many, n_hosts=arguments.hosts, server=server)
    found = grown(few, many, little=LITTLE[arguments.database])
    unit = "steps" if arguments.database == "sqlite" else "buffers"
    print(f"{len(many.calls)} statements, {len(found)} of which grew ({unit} a call):")
    for before, after, calls, sql in found:
        print(f"{before:12,.0f} {after:14,.0f}  {calls:6} calls  {sql[:400]}")


if __name__ == "__main__":
    main()
