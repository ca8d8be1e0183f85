"""A data directory with one project, and the client's runner of tasks on it, for tests with real processes."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import textwrap
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from cobblestone.client.sandbox.processes import marked_processes
from cobblestone.client.sandbox.sandbox import Sandbox, SandboxChoice, detect_sandbox
from cobblestone.client.tasks.description import Ended, TaskEvent, TaskLimits, TaskOutput, TaskSpec
from cobblestone.client.tasks.runner import Runner
from cobblestone.client.tasks.task import Timing
from cobblestone.wire.client.task_messages import InitData

E = TypeVar("E")
FAST = Timing(poll=0.05, measure=0.3, grace=3.0, linger=1.0, deaf=0.6)
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
URL = "http://example.invalid/project/"

#: A job in Python's standard library that speaks the segment by itself: lines below are appended to it.
APP = """\
#!/usr/bin/python3
import mmap, os, re, sys, time
with open("boinc_mmap_file", "r+b") as file:
    memory = mmap.mmap(file.fileno(), 8192)
def receive(channel):
    start = 1024 * channel
    if not memory[start]:
        return ""
    text = memory[start + 1 : start + 1024].split(b"\\0")[0].decode()
    memory[start] = 0
    return text
def send(channel, text):
    start = 1024 * channel
    memory[start] = 0
    memory[start + 1 : start + 2 + len(text)] = text.encode() + b"\\0"
    memory[start] = 1
def status(cpu, checkpoint, fraction):
    send(5, "<current_cpu_time>%e</current_cpu_time>\\n<checkpoint_cpu_time>%e</checkpoint_cpu_time>\\n"
            "<fraction_done>%e</fraction_done>\\n" % (cpu, checkpoint, fraction))
def resolve(name):
    text = open(name).read(1000) if os.path.exists(name) else ""
    found = re.match("<soft_link>(.*)</soft_link>", text)
    return found.group(1) if found else name
def finish():
    with open("boinc_finish_called", "w") as file:
        file.write("0\\n")
"""


class World:
    """The runner, its events, and what a test needs to give it work."""

    def __init__(self, data_dir: Path, sandbox: Sandbox, timing: Timing) -> None:
        self.data_dir = data_dir
        self.project_dir = data_dir / "projects" / "example.invalid_project"
        self.project_dir.mkdir(parents=True, exist_ok=True)
        self.sandbox = sandbox
        self.events: list[TaskEvent] = []
        self._news = asyncio.Event()
        self.runner = Runner(data_dir, sandbox, self._take, environment=ENVIRONMENT, timing=timing)

    def _take(self, event: TaskEvent) -> None:
        self.events.append(event)
        self._news.set()

    def spec(
        self, program: str, name: str = "job_1_0", *, limits: TaskLimits | None = None, **more: Any
    ) -> TaskSpec:
        """A job whose main program is Python that speaks the segment; its output is ``out``."""
        main = f"app_{name}"
        path = self.project_dir / main
        path.write_text(APP + textwrap.dedent(program))
        outputs = more.pop(
            "outputs", (TaskOutput(open_name="out", physical_name=f"{name}_r0", max_nbytes=1e6),)
        )
        return TaskSpec(
            name=name,
            result_name=name,
            project_url=URL,
            project_dir=self.project_dir,
            main_program=main,
            outputs=outputs,
            init=replace(InitData(), authenticator="secret", wu_name="job_1", checkpoint_period=1.0),
            limits=limits or TaskLimits(),
            **more,
        )

    async def until(
        self, kind: type[E], enough: Callable[[E], bool] = lambda _: True, seconds: float = 60.0
    ) -> E:
        """The first event of a kind, waiting for it; fails after a while and shows what came instead."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    for event in self.events:
                        if isinstance(event, kind) and enough(event):
                            return event
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"no {kind.__name__} within {seconds} s, but {self.events}") from None

    async def run(self, spec: TaskSpec, slot: int = 0) -> Ended:
        """Start a job and wait for its end."""
        await self.runner.start(spec, slot)
        return await self.until(Ended, lambda event: event.name == spec.name)

    async def until_true(self, look: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait for what no event tells."""
        async with asyncio.timeout(seconds):
            while not look():  # noqa: ASYNC110  # of another process
                await asyncio.sleep(0.02)

    def slot(self, number: int = 0) -> Path:
        return self.data_dir / "slots" / str(number)

    def living(self, number: int = 0) -> set[int]:
        return {
            pid for pid in marked_processes(self.slot(number)) if process_state(pid) not in ("Z", "X", "")
        }

    def read(self, name: str, number: int = 0) -> str:
        path = self.slot(number) / name
        return path.read_text(errors="replace") if path.exists() else ""


@asynccontextmanager
async def open_world(
    data_dir: Path, *, bubblewrap: str = "always", timing: Timing = FAST, choice: SandboxChoice | None = None
) -> AsyncIterator[World]:
    """A world whose runner runs; at the end no process of it is left."""
    data_dir.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240  # nothing else runs yet
    found = detect_sandbox(choice or SandboxChoice(bubblewrap=bubblewrap), data_dir, environment=ENVIRONMENT)
    world = World(data_dir, found, timing)
    running = asyncio.create_task(world.runner.run())
    try:
        yield world
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        await world.runner.close()
        kill_all(data_dir)


def open_to_other_accounts(folder: Path) -> None:
    """Without bubblewrap the jobs' account must be able to reach the data directory; pytest closes its own folders."""
    temporary = Path(tempfile.gettempdir())
    for each in (folder, *folder.parents):
        if each.is_relative_to(temporary) and each != temporary:
            each.chmod(each.stat().st_mode | 0o055)


def kill_all(data_dir: Path) -> None:
    slots = data_dir / "slots"
    for path in slots.iterdir() if slots.exists() else ():
        for pid in marked_processes(path):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def process_state(pid: int) -> str:
    """The letter of a process's state; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return ""


def programs(pids: Sequence[int] | set[int]) -> list[str]:
    """Command lines, for messages of failed tests."""
    found: list[str] = []
    for pid in pids:
        with suppress(OSError):
            found.append(
                Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
    return found
