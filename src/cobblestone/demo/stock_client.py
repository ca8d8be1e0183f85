"""Runs Debian's unmodified BOINC client in a separate folder, and controls it with ``boinccmd``.

Nothing of the system's own client is touched: other data directory, other port, and no service.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cobblestone.demo.processes import end_tree, free_port, start_apart
from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.ops.environment import run_and_read

PROGRAMS = ("boinc", "boinccmd")
START_SECONDS = 30.0

#: Jobs do not give way to other programs: somebody waits for them.
_CC_CONFIG = """<cc_config>
  <log_flags>
    <unparsed_xml>1</unparsed_xml>
    <task>1</task>
    <file_xfer>1</file_xfer>
    <sched_ops>1</sched_ops>
    <sched_op_debug>1</sched_op_debug>
  </log_flags>
  <options>
    <skip_cpu_benchmarks>1</skip_cpu_benchmarks>
    <dont_contact_ref_site>1</dont_contact_ref_site>
    <report_results_immediately>1</report_results_immediately>
    <no_priority_change>1</no_priority_change>
    <max_file_xfers>20</max_file_xfers>
    <max_file_xfers_per_project>10</max_file_xfers_per_project>
    <ncpus>{ncpus}</ncpus>
  </options>
</cc_config>
"""
_PREFERENCES = """<global_preferences>
  <run_if_user_active>1</run_if_user_active>
  <run_on_batteries>1</run_on_batteries>
  <suspend_cpu_usage>0</suspend_cpu_usage>
  <niu_suspend_cpu_usage>0</niu_suspend_cpu_usage>
  <niu_max_ncpus_pct>100</niu_max_ncpus_pct>
  <work_buf_min_days>{buffer_days}</work_buf_min_days>
  <work_buf_additional_days>0.01</work_buf_additional_days>
  <disk_min_free_gb>0.01</disk_min_free_gb>
  <disk_max_used_pct>90</disk_max_used_pct>
  <ram_max_used_busy_pct>90</ram_max_used_busy_pct>
  <ram_max_used_idle_pct>90</ram_max_used_idle_pct>
  <disk_interval>1</disk_interval>
  <leave_apps_in_memory>1</leave_apps_in_memory>
</global_preferences>
"""


def write_wishes(folder: Path, *, ncpus: int, buffer_days: float = 0.01) -> None:
    """Write the settings and preferences of a client that computes at once, regardless of other activity."""
    (folder / "cc_config.xml").write_text(_CC_CONFIG.format(ncpus=ncpus), encoding="ascii")
    (folder / "global_prefs_override.xml").write_text(
        _PREFERENCES.format(buffer_days=buffer_days), encoding="ascii"
    )


class ClientError(CobblestoneError):
    """The client did not do what it was asked."""


@dataclass(frozen=True, slots=True)
class ClientTask:
    """A task as ``boinccmd --get_tasks`` shows it."""

    name: str
    state: str
    active_task_state: str
    fraction_done: float
    cpu_time: float = 0.0
    checkpoint_cpu_time: float = 0.0
    suspended: bool = False


def missing_programs() -> list[str]:
    """Return the programs of Debian's client that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def require_programs(otherwise: str = "") -> None:
    """Raise ConfigError if Debian's client is not installed; ``otherwise``: what would do without it."""
    if missing := missing_programs():
        raise ConfigError(
            f"The demonstration needs {' and '.join(missing)}, the BOINC client. On Debian and Ubuntu:"
            f" apt-get install boinc-client (make demo does that for you when it may). {otherwise}".rstrip()
        )


class LoggedClient:
    """A client process that writes a log into its data directory."""

    stop_seconds = 20.0  #: until it is killed

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def launch(self, *words: str) -> None:
        """Start the program of the client."""
        self.process = start_apart(words, self.folder / "client.log")

    def check_alive(self) -> None:
        """Raise ClientError if the client has ended."""
        if self.process is None or self.process.poll() is not None:
            raise ClientError(f"The client ended:\n{self.log()[-2000:]}")

    def stop(self) -> None:
        """Stop the client, and make sure that no process of it is left."""
        process, self.process = self.process, None
        if process is not None:
            end_tree(process, self.stop_seconds)

    def log(self) -> str:
        """Return everything that the client has written."""
        return (self.folder / "client.log").read_text(encoding="utf-8", errors="replace")

    def wait_for(self, condition: Callable[[], bool], *, seconds: float, what: str) -> None:
        """Poll until ``condition`` holds.

        Raises:
            ClientError: it does not within ``seconds``, or the client ends; the text holds the end of the client's log.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.check_alive()
            if condition():
                return
            time.sleep(0.25)
        raise ClientError(f"Waited {seconds:g} s without success for: {what}.\n{self.log()[-4000:]}")


#: No graphics, no benchmarks, and short pauses after failures.
OPTIONS = (
    *("--allow_multiple_clients", "--no_gpus", "--skip_cpu_benchmarks"),
    *("--sched_retry_delay_min", "1", "--sched_retry_delay_max", "3"),
    *("--pers_retry_delay_min", "1", "--pers_retry_delay_max", "3"),
)


class StockClient(LoggedClient):
    """One client process in one data directory."""

    kind = "Debian's unmodified BOINC client"

    def __init__(
        self, folder: Path, *, ncpus: int = 1, buffer_days: float = 0.01, arguments: Sequence[str] = ()
    ) -> None:
        """Prepare ``folder``; no other client may use it, since two clients in one folder destroy each other's state.

        Raises:
            ConfigError: the client is not installed.
        """
        require_programs()
        super().__init__(folder)
        self.port = free_port()
        self.arguments = tuple(arguments)
        write_wishes(folder, ncpus=ncpus, buffer_days=buffer_days)

    def start(self) -> None:
        """Start the client and wait until it answers.

        Raises:
            ClientError: it does not come up.
        """
        place = ("--dir", str(self.folder), "--gui_rpc_port", str(self.port))
        self.launch("boinc", *place, *OPTIONS, *self.arguments)
        self.wait_for(self._answers, seconds=START_SECONDS, what="start")

    def _answers(self) -> bool:
        if not (self.folder / "gui_rpc_auth.cfg").exists():
            return False
        return self._run("--client_version").returncode == 0

    def command(self, *arguments: str) -> str:
        """Run ``boinccmd`` and return what it prints.

        Raises:
            ClientError: it fails.
        """
        done = self._run(*arguments)
        if done.returncode != 0:
            raise ClientError(f"boinccmd {' '.join(arguments)} failed: {done.stdout}{done.stderr}")
        return done.stdout

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        password = (self.folder / "gui_rpc_auth.cfg").read_text(encoding="ascii").strip()
        words = ["boinccmd", "--host", f"127.0.0.1:{self.port}", "--passwd", password, *arguments]
        return run_and_read(words, timeout=60, cwd=self.folder)

    def attach(self, url: str, authenticator: str) -> None:
        """Attach to a project."""
        self.command("--project_attach", url, authenticator)

    def attach_manager(self, url: str, email: str, password: str) -> None:
        """Attach to an account manager, which chooses the projects."""
        self.command("--acct_mgr", "attach", url, email, password)

    def update(self, url: str) -> None:
        """Request a scheduler RPC soon; the request is lost if one is in progress."""
        with contextlib.suppress(ClientError):
            self.command("--project", url, "update")

    def tasks(self) -> list[ClientTask]:
        """Return all tasks."""
        return parse_tasks(self.command("--get_tasks"))

    def project_status(self) -> dict[str, str]:
        """Return the first project in ``--get_project_status``."""
        return parse_fields(self.command("--get_project_status"))


def parse_fields(text: str) -> dict[str, str]:
    """Return the ``name: value`` lines of one block that boinccmd printed."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.strip().partition(": ")
        if colon and name not in found:
            found[name] = value.strip()
    return found


def parse_tasks(text: str) -> list[ClientTask]:
    """Return tasks from the output of ``boinccmd --get_tasks``."""
    tasks: list[ClientTask] = []
    for block in re.split(r"^\d+\) -+\s*$", text, flags=re.MULTILINE)[1:]:
        values = parse_fields(block)
        tasks.append(
            ClientTask(
                name=values.get("name", ""),
                state=values.get("state", ""),
                active_task_state=values.get("active_task_state", ""),
                fraction_done=float(values.get("fraction done", "0")),
                cpu_time=float(values.get("current CPU time", "0")),
                checkpoint_cpu_time=float(values.get("CPU time at last checkpoint", "0")),
                suspended=values.get("suspended via GUI") == "yes",
            )
        )
    return tasks
