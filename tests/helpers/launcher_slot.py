"""A slot of the client, played by the test: mapped file, ``init_data.xml`` and the launcher as a process."""

from __future__ import annotations

import json
import mmap
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from cobblestone import launcher

CONTROL, HEARTBEAT, STATUS, TRICKLE_UP, TRICKLE_DOWN = 0, 4, 5, 6, 7
T = TypeVar("T")
LAUNCHER_FILE = Path(launcher.__file__).parent / "cobblestone_runtime.py"

INIT_DATA = """<app_init_data>
<app_name>{app}</app_name>
<user_name>&lt;Ada &amp; Co&gt;</user_name>
<authenticator>secret-of-the-user</authenticator>
<wu_name>wu_1</wu_name>
<result_name>wu_1_0</result_name>
<shm_key>-1</shm_key>
<client_pid>{client_pid}</client_pid>
<wu_cpu_time>{cpu_time:f}</wu_cpu_time>
<checkpoint_period>{checkpoint_period:f}</checkpoint_period>
<ncpus>2.000000</ncpus>
<rsc_memory_bound>{memory_bound:f}</rsc_memory_bound>
<rsc_disk_bound>{disk_bound:f}</rsc_disk_bound>
<computation_deadline>1800000000.000000</computation_deadline>
</app_init_data>
"""


def until(look: Callable[[], T], *, seconds: float = 60.0) -> T:
    """Look again and again until something is there; fail after a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"nothing came within {seconds} s")


def process_state(pid: int) -> str:
    """Return the letter of a process state (``T`` stopped, ``S`` sleeping, …), or nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return ""


def is_gone(pid: int) -> bool:
    return process_state(pid) in ("", "Z", "X")


class Slot:
    """One slot; ``start`` runs the launcher in it as the client would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "boinc_mmap_file").write_bytes(bytes(8192))
        with (folder / "boinc_mmap_file").open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 8192)
        self.write_init_data()

    def write_init_data(
        self,
        *,
        client_pid: int | None = None,
        cpu_time: float = 0.0,
        checkpoint_period: float = 60.0,
        memory_bound: float = 1e9,
        disk_bound: float = 1e9,
    ) -> None:
        text = INIT_DATA.format(
            app="sums",
            client_pid=client_pid or os.getpid(),
            cpu_time=cpu_time,
            checkpoint_period=checkpoint_period,
            memory_bound=memory_bound,
            disk_bound=disk_bound,
        )
        self.write("init_data.xml", text)

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    def read(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def exists(self, name: str) -> bool:
        return (self.folder / name).exists()

    def start(
        self,
        program: str,
        options: Sequence[str] = (),
        *,
        change: str = "",
        launcher: Sequence[str] = (sys.executable, "-I", str(LAUNCHER_FILE)),
        **description: object,
    ) -> subprocess.Popen[bytes]:
        """Run the launcher on a Python program; ``change`` is code that alters the launcher first."""
        self.write("program.py", program)
        self.write("cobblestone_app.json", json.dumps({"command": ["python3", "program.py"], **description}))
        words = [*launcher, *options]
        if change:
            folder = str(LAUNCHER_FILE.parent)
            load = f"import sys; sys.path.insert(0, {folder!r}); import cobblestone_runtime as r"
            words = [sys.executable, "-c", f"{load}; {change}; sys.exit(r.main(sys.argv[1:]))", *options]
        with (self.folder / "stderr.txt").open("ab") as stderr:
            self.process = subprocess.Popen(
                words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
            )
        return self.process

    def run(self, program: str, options: Sequence[str] = (), **more: object) -> int:
        """Run the launcher to its end; return its exit status."""
        self.start(program, options, **more)  # type: ignore[arg-type]  # keys of the description
        return self.wait()

    def wait(self, seconds: float = 120.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout=seconds)

    def send(self, channel: int, text: str) -> None:
        """Leave a message for the app, as soon as the last one has been read."""
        start = 1024 * channel
        until(lambda: self.memory[start] == 0)
        self.memory[start + 1 : start + 2 + len(text)] = text.encode() + b"\0"
        self.memory[start] = 1

    def receive(self, channel: int) -> str:
        """Take the app's message; empty if there is none."""
        start = 1024 * channel
        if not self.memory[start]:
            return ""
        text = self.memory[start + 1 : start + 1024].split(b"\0")[0].decode()
        self.memory[start] = 0
        return text

    def status(self, enough: Callable[[dict[str, float]], bool] = bool) -> dict[str, float]:
        """Wait for a status message that is ``enough``; return its figures."""

        def look() -> dict[str, float] | None:
            figures = {
                tag: float(value) for tag, value in re.findall(r"<(\w+)>([^<]*)</", self.receive(STATUS))
            }
            return figures if figures and enough(figures) else None

        found = until(look)
        assert found
        return found

    def pid(self, name: str = "pid") -> int:
        """Wait for a program to write its process id into a file of the slot."""
        return int(until(lambda: self.read(name).strip()))


@contextmanager
def open_slot(folder: Path) -> Iterator[Slot]:
    """Make a slot; at the end its processes are killed, whatever happened."""
    slot = Slot(folder)
    try:
        yield slot
    finally:
        if slot.process and slot.process.poll() is None:
            slot.process.kill()
            slot.process.wait()
        mark = f"COBBLESTONE_FOLDER={folder}\0".encode()
        for environment in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in environment.read_bytes():
                    os.kill(int(environment.parent.name), 9)
            except OSError:
                continue
        slot.memory.close()
