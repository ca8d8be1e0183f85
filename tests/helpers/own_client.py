"""Our own client as a process in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from tests.helpers.client_tasks import open_to_other_accounts
from tests.helpers.command_line import run_here

from cobblestone.client.remote.access import Access, ask, local_address, read_access
from cobblestone.demo.processes import free_port
from cobblestone.demo.stock_client import parse_tasks
from cobblestone.domain.errors import CobblestoneError
from cobblestone.ops.environment import environment_without_proxies

PREFERENCES = """<global_preferences>
  <run_if_user_active>1</run_if_user_active>
  <run_on_batteries>1</run_on_batteries>
  <suspend_cpu_usage>0</suspend_cpu_usage>
  <niu_suspend_cpu_usage>0</niu_suspend_cpu_usage>
  <work_buf_min_days>0.01</work_buf_min_days>
  <work_buf_additional_days>0.01</work_buf_additional_days>
  <disk_min_free_gb>0.01</disk_min_free_gb>
  <ram_max_used_busy_pct>90</ram_max_used_busy_pct>
  <ram_max_used_idle_pct>90</ram_max_used_idle_pct>
  <disk_interval>1</disk_interval>
  <leave_apps_in_memory>1</leave_apps_in_memory>
</global_preferences>
"""
CONFIG = """<cc_config>
  <options>
    <skip_cpu_benchmarks>1</skip_cpu_benchmarks>
    <report_results_immediately>1</report_results_immediately>
    <no_priority_change>1</no_priority_change>
    <fetch_on_update>1</fetch_on_update>
    <ncpus>{ncpus}</ncpus>
  </options>
</cc_config>
"""


class OwnClient:
    """One client process in one data directory."""

    def __init__(self, folder: Path, *, ncpus: int = 1) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        open_to_other_accounts(folder)
        (folder / "cc_config.xml").write_text(CONFIG.format(ncpus=ncpus))
        (folder / "global_prefs_override.xml").write_text(PREFERENCES)

    def start(self, *arguments: str) -> None:
        (self.folder / "control.json").unlink(missing_ok=True)
        with (self.folder / "client.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "cobblestone", "client", "run", str(self.folder), "--gui-port", str(self.port),
                    *arguments,
                ],
                stdout=log,
                stderr=log,
                env=environment_without_proxies(),
                start_new_session=True,
            )  # fmt: skip
        self.wait_for(
            lambda: (self.folder / "control.json").exists() and self._answers(), seconds=180, what="start"
        )

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        with contextlib.suppress(CobblestoneError):
            ask(local_address(self.folder), "status")
            return True
        return False

    def stop(self) -> None:
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(90)
        self.process = None

    def kill(self) -> None:
        """As a crash would: the client alone, at once."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def cli(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = run_here("client", *arguments, "--dir", str(self.folder), check=False)
        if check:
            assert done.returncode == 0, done.stdout + done.stderr + self.log()[-3000:]
        return done

    def access(self) -> Access:
        return read_access(self.folder)

    def cli_alone(self, verb: str) -> Any:
        """A command on the directory of a stopped client."""
        return json.loads(run_here("client", verb, str(self.folder), "--json").stdout)

    def ask(self, *arguments: str) -> Any:
        return json.loads(self.cli(*arguments, "--json").stdout)

    def boinccmd(self, *arguments: str, password: str = "") -> str:
        password = password or (self.folder / "gui_rpc_auth.cfg").read_text().strip()
        done = subprocess.run(
            ["boinccmd", "--host", f"127.0.0.1:{self.port}", "--passwd", password, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.folder,
        )
        return done.stdout + done.stderr

    def tasks(self) -> Any:
        """As Debian's tool sees them."""
        return parse_tasks(self.boinccmd("--get_tasks"))

    def update(self, url: str) -> None:
        with contextlib.suppress(CobblestoneError):
            ask(local_address(self.folder), "update", project=url)

    def log(self) -> str:
        return (self.folder / "client.log").read_text(errors="replace")

    def job_processes(self) -> list[psutil.Process]:
        """Processes that work in our slots."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if f"{self.folder}/slots" in " ".join(process.cmdline()) or process.cwd().startswith(
                    f"{self.folder}/slots"
                ):
                    found.append(process)
        return found

    def wait_for(self, condition: Callable[[], bool], *, seconds: float, what: str) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited {seconds:g} s for {what}\n{self.log()[-4000:]}"
            time.sleep(0.2)
