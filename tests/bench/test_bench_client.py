"""What our client costs a computer with 2,000 queued jobs, beside the stock client in the same state (by ``export``).

Once computing is switched off in both, so that keeping the queue is measured; once 64 jobs run, whose program only sleeps.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from tests.helpers.gui_rpc_peer import Peer
from tests.helpers.own_client import OwnClient
from tests.helpers.stock_client import StockClient

from cobblestone.client.records.state import ClientDatabase
from cobblestone.wire.client.records import ClientJobState, JobRecord, ProjectContent, ProjectRecord
from cobblestone.wire.scheduler.job import AppBlock, AppVersionBlock, ResultBlock, WorkunitBlock

URL = "http://127.0.0.1:9/"
PLATFORM = "x86_64-pc-linux-gnu"
QUEUED = 2000
RUNNING = 64
APP_INFO = """<app_info>
    <app><name>sky</name></app>
    <file_info><name>sleeper</name><executable/></file_info>
    <app_version>
        <app_name>sky</app_name><version_num>100</version_num>
        <file_ref><file_name>sleeper</file_name><main_program/></file_ref>
    </app_version>
</app_info>
"""
SECONDS = 20.0
SETTLED = 300.0
"""Within so many seconds all processors must have got a job."""
ASKED = 20
GET_STATE_SECONDS = 0.05
"""Of CPU time, which other programs on the machine disturb less than the time on the clock."""
CPU_SHARE = 0.02
"""Of one core, while nothing happens; the aim with 64 running jobs is 0.005 on a quiet machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Figures of one client."""

    start_seconds: float  #: until its first answer
    start_cpu_seconds: float
    megabytes: float
    get_state_seconds: float  #: median
    get_state_cpu_seconds: float  #: mean
    cpu_share: float  #: of one core, without questions

    def line(self, name: str) -> str:
        asked = f"get_state {1000 * self.get_state_seconds:.1f} ms ({1000 * self.get_state_cpu_seconds:.1f} ms CPU)"
        return (
            f"{name:14} start {self.start_seconds:.2f} s ({self.start_cpu_seconds:.2f} s CPU), {self.megabytes:.0f} MB,"
            f" {asked}, idle {100 * self.cpu_share:.2f} % of a core"
        )


def fill(folder: Path, *, computes: bool) -> None:
    """A data directory with a project and its jobs, none of which has begun."""
    if computes:
        program = folder / "projects" / "127.0.0.1_9" / "sleeper"
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\nexec sleep 100000\n")
        program.chmod(0o755)
        (program.parent / "app_info.xml").write_text(APP_INFO)
    state = ClientDatabase(folder)
    project = ProjectRecord(
        master_url=URL, authenticator="0" * 32, project_name="Bench", scheduler_urls=(f"{URL}cgi",),
        master_url_fetch_pending=False, anonymous_platform=True, dont_request_more_work=True,
    )  # fmt: skip
    state.contents[URL] = ProjectContent(project=project)
    state.put_project(project)
    state.put("app", URL, "sky", AppBlock(name="sky"))
    version = AppVersionBlock(app_name="sky", version_num=100, platform=PLATFORM, file_refs=())
    state.put("version", URL, f"sky|100|{PLATFORM}|", version)
    now = time.time()
    for n in range(QUEUED):
        workunit = WorkunitBlock(
            name=f"sky_{n}", app_name="sky", rsc_fpops_est=3.6e12, rsc_fpops_bound=3.6e14, rsc_memory_bound=1e8,
            rsc_disk_bound=1e8,
        )  # fmt: skip
        state.put("workunit", URL, workunit.name, workunit)
        result = ResultBlock(
            name=f"sky_{n}_0",
            wu_name=workunit.name,
            platform=PLATFORM,
            version_num=100,
            report_deadline=now + 1e6 + n,
        )
        state.put_job(
            JobRecord(project=URL, result=result, received_time=now, state=ClientJobState.DOWNLOADED)
        )
    state.notes.network_mode.permanent = 3  # never
    state.notes.run_mode.permanent = 1 if computes else 3
    state.keep_notes()
    state.flush()
    state.close()


def measure(client: OwnClient | StockClient, *, running: int = 0) -> Cost:
    begin = time.monotonic()
    client.start()
    ready = time.monotonic() - begin
    assert client.process is not None
    process = psutil.Process(client.process.pid)
    start_cpu = sum(process.cpu_times()[:2])
    with Peer(client.port) as peer:
        peer.log_in(client.folder)
        deadline = time.monotonic() + SETTLED
        while (now := peer.ask("<get_results/>").count("<active_task_state>1<")) != running:
            assert time.monotonic() < deadline, f"{now} of {running} tasks run"
            time.sleep(1.0)
        took: list[float] = []
        answer = peer.ask("<get_state/>")
        before = sum(process.cpu_times()[:2])
        for _ in range(ASKED):
            begin = time.perf_counter()
            answer = peer.ask("<get_state/>")
            took.append(time.perf_counter() - begin)
            assert answer.count("<result>") == QUEUED
        asked_cpu = (sum(process.cpu_times()[:2]) - before) / ASKED
    before = sum(process.cpu_times()[:2])
    time.sleep(SECONDS)
    share = (sum(process.cpu_times()[:2]) - before) / SECONDS
    memory = process.memory_info().rss / 2**20
    client.stop()
    return Cost(
        start_seconds=ready,
        start_cpu_seconds=start_cpu,
        megabytes=memory,
        get_state_seconds=statistics.median(took),
        get_state_cpu_seconds=asked_cpu,
        cpu_share=share,
    )


@pytest.mark.parametrize("running", [0, RUNNING])
def test_a_long_queue_costs_little(tmp_path: Path, running: int) -> None:
    ours = OwnClient(tmp_path / "own", ncpus=RUNNING)
    fill(ours.folder, computes=running > 0)
    ours.cli("export", str(tmp_path / "stock"))
    found = measure(ours, running=running)
    print(f"\n{QUEUED} queued jobs, {running} run")
    print(found.line("our client"))
    print(measure(StockClient(tmp_path / "stock", ncpus=RUNNING), running=running).line("stock client"))
    assert found.get_state_cpu_seconds < GET_STATE_SECONDS
    assert found.cpu_share < CPU_SHARE
