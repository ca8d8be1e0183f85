"""What our client costs a computer with 2,000 queued jobs, beside the stock client in the same state (by ``export``).

Computing is switched off in both, so what is measured is keeping the queue, not starting programs.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from tests.helpers.gui_rpc_peer import Peer
from tests.helpers.own_client import OwnClient

from cobblestone.client.state import State
from cobblestone.demo.stock_client import StockClient
from cobblestone.wire.client_records import JobRecord, JobState, ProjectContent, ProjectRecord
from cobblestone.wire.job_description import AppBlock, AppVersionBlock, ResultBlock, WorkunitBlock

URL = "http://127.0.0.1:9/"
PLATFORM = "x86_64-pc-linux-gnu"
QUEUED = 2000
SECONDS = 20.0
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


def fill(folder: Path) -> None:
    """A data directory with a project and its jobs, none of which has begun."""
    state = State(folder)
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
        state.put_job(JobRecord(project=URL, result=result, received_time=now, state=JobState.DOWNLOADED))
    for mode in (state.notes.run_mode, state.notes.network_mode):
        mode.permanent = 3  # never
    state.keep_notes()
    state.flush()
    state.close()


def measure(client: OwnClient | StockClient) -> Cost:
    begin = time.monotonic()
    client.start()
    ready = time.monotonic() - begin
    assert client.process is not None
    process = psutil.Process(client.process.pid)
    start_cpu = sum(process.cpu_times()[:2])
    with Peer(client.port) as peer:
        peer.log_in(client.folder)
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


def test_a_long_queue_costs_little(tmp_path: Path) -> None:
    ours = OwnClient(tmp_path / "own")
    fill(ours.folder)
    ours.cli("export", str(tmp_path / "stock"))
    found = measure(ours)
    print(f"\n{QUEUED} queued jobs, nothing computes")
    print(found.line("our client"))
    print(measure(StockClient(tmp_path / "stock")).line("stock client"))
    assert found.get_state_cpu_seconds < GET_STATE_SECONDS
    assert found.cpu_share < CPU_SHARE
