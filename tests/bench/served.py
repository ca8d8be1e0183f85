"""A server in a process of its own: started, watched and counted."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import psutil
from tests.bench import load
from tests.bench.load import Counts, Plan, Volunteer
from tests.bench.project import BenchProject

from cobblestone.store.engine.database import Database, Store

START_SECONDS = 60.0
DRAIN_SECONDS = 120.0
DRAIN_POLL_SECONDS = 0.25

ROWS = {
    "workunits": "SELECT COUNT(*) FROM workunit",
    "sent": "SELECT COUNT(*) FROM result WHERE server_state >= 4",
    "reported": "SELECT COUNT(*) FROM result WHERE server_state = 5",
    "valid": "SELECT COUNT(*) FROM result WHERE validate_state = 1",
    "assimilated": "SELECT COUNT(*) FROM workunit WHERE assimilate_state = 2",
    "deleted": "SELECT COUNT(*) FROM result WHERE file_delete_state = 2",
    "ledger": "SELECT COUNT(*) FROM credit_entry",
    "uploads": "SELECT COUNT(*) FROM upload",
    "granted": "SELECT COALESCE(SUM(granted), 0) FROM credit_entry",
    "host_credit": "SELECT COALESCE(SUM(total_credit), 0) FROM host",
    "user_credit": "SELECT COALESCE(SUM(total_credit), 0) FROM user_account",
}


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What the server used in a time."""

    seconds: float
    cpu_seconds: float
    database_cpu_seconds: float  #: of PostgreSQL's processes
    rss_bytes: int  #: the largest that was seen


class Server:
    """A running server of a project."""

    def __init__(
        self, project: BenchProject, process: subprocess.Popen[bytes], postmaster: int | None
    ) -> None:
        self.project = project
        self.process = psutil.Process(process.pid)
        self.postmaster = None if postmaster is None else psutil.Process(postmaster)

    def cpu_seconds(self) -> float:
        """User and system time so far, of all threads and of ended children."""
        return cpu_seconds(self.process)

    def database_cpu_seconds(self) -> float:
        """The same of PostgreSQL's processes."""
        if self.postmaster is None:
            return 0.0
        total = cpu_seconds(self.postmaster)
        for each in self.postmaster.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += cpu_seconds(each)
        return total

    @contextlib.contextmanager
    def watch(self) -> Generator[list[Usage], None, None]:
        """What the server uses while the block runs; the list has it afterwards."""
        found: list[Usage] = []
        stop = threading.Event()
        largest = 0

        def look() -> None:
            nonlocal largest
            while True:
                largest = max(largest, rss_bytes(self.process))
                if stop.wait(0.5):
                    return

        thread = threading.Thread(target=look)
        begin, cpu_begin = time.perf_counter(), self.cpu_seconds()
        database_begin = self.database_cpu_seconds()
        thread.start()
        try:
            yield found
        finally:
            stop.set()
            thread.join()
            found.append(
                Usage(
                    seconds=time.perf_counter() - begin,
                    cpu_seconds=self.cpu_seconds() - cpu_begin,
                    database_cpu_seconds=self.database_cpu_seconds() - database_begin,
                    rss_bytes=largest,
                )
            )


def cpu_seconds(process: psutil.Process) -> float:
    """User and system time of a process and of its ended children."""
    times = process.cpu_times()
    return times.user + times.system + times.children_user + times.children_system


def rss_bytes(process: psutil.Process) -> int:
    """Resident memory of a process and its children."""
    total = 0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += each.memory_info().rss
    return total


@contextlib.contextmanager
def serving(
    project: BenchProject, *, launcher: tuple[str, ...] = (), postmaster: int | None = None
) -> Generator[Server, None, None]:
    """Run the project's server while the block runs; ``launcher`` goes before the command (a profiler)."""
    port = int(project.url.rstrip("/").rpartition(":")[2])
    process = subprocess.Popen(
        [*launcher, sys.executable, "-m", "cobblestone", "run", str(project.root), "--port", str(port)],
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_until_open(port)
        yield Server(project, process, postmaster)
    finally:
        process.terminate()
        process.wait(60)


def _wait_until_open(port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise SystemExit("the server did not start")


class LoadProcess:
    """The load generator, in a process of its own; the volunteers live there between the runs."""

    def __init__(self, project: BenchProject) -> None:
        self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        self._project = project
        self._pool.submit(_keep, project.volunteers).result()

    def run(self, plan: Plan, *, seconds: float, connections: int = 6, job_seconds: float = 1.0) -> Counts:
        """Let the volunteers call."""
        return self._pool.submit(
            partial(
                _run,
                self._project.url,
                plan,
                code_sign_key=self._project.code_sign_key,
                seconds=seconds,
                connections=connections,
                job_seconds=job_seconds,
            )
        ).result()

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown()


_volunteers: list[Volunteer] = []


def _keep(volunteers: list[Volunteer]) -> None:
    _volunteers[:] = volunteers


def _run(
    url: str, plan: Plan, *, code_sign_key: str, seconds: float, connections: int, job_seconds: float
) -> Counts:
    return load.run(
        url,
        _volunteers,
        plan,
        code_sign_key=code_sign_key,
        job_seconds=job_seconds,
        seconds=seconds,
        connections=connections,
    )


def count_rows(project: BenchProject) -> dict[str, float]:
    """What the database says."""
    store = Store(project.location, readers=1)
    try:
        return {name: store.read(partial(_count, sql=sql)) for name, sql in ROWS.items()}
    finally:
        store.close()


def _count(db: Database, *, sql: str) -> float:
    return db.value(sql)


def drained(project: BenchProject, *, n_reported: float) -> dict[str, float]:
    """Wait until the daemons have done all that was reported; the rows then."""
    end = time.monotonic() + DRAIN_SECONDS
    while True:
        rows = count_rows(project)
        if min(rows["assimilated"], rows["deleted"]) >= n_reported:
            return count_rows(project)  # again: each kind was counted at a moment of its own
        if time.monotonic() > end:
            raise SystemExit(
                f"after {DRAIN_SECONDS:g} s not all of {n_reported:,.0f} results are done: {rows}"
            )
        time.sleep(DRAIN_POLL_SECONDS)
