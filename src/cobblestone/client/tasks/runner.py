"""All tasks in memory: started, watched, measured, ended, and cleaned up after a crash; or a single one as a trial.

All jobs in memory: started, watched once a second, measured every ten seconds, ended, and cleaned up after a crash.

The runner decides nothing about which job runs: it is told, and tells what has happened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cobblestone.client.sandbox.containers import empty_home, open_home
from cobblestone.client.sandbox.processes import (
    NOTHING,
    TreeUsage,
    marked_processes,
    processes_by_slot,
    read_processes,
    send,
    usage_by_root,
)
from cobblestone.client.sandbox.sandbox import Sandbox, SandboxChoice, detect_sandbox
from cobblestone.client.sandbox.slot_files import SlotFolder
from cobblestone.client.tasks import slot
from cobblestone.client.tasks.description import Ended, ProducedFile, TaskEvent, TaskSpec
from cobblestone.client.tasks.slot import SharedSegment
from cobblestone.client.tasks.task import RunningTask, Surroundings, Timing
from cobblestone.domain.errors import CobblestoneError, words_of
from cobblestone.domain.values import form_of
from cobblestone.ops.environment import Clock, environment_without_proxies
from cobblestone.policy.client.host.tasks import (
    ERR_NOT_STARTED,
    FULL,
    AbortOrder,
    Ending,
    ExitVerdict,
    ProcessEnd,
    judge_exit,
    throttle_second,
)
from cobblestone.wire.client.task_messages import SEGMENT_FILE, TaskOrders

#: Pause before a job that ended too early is started again.
RESTART_SECONDS = 1.0
LEFTOVER_GRACE_SECONDS = 5.0
MAX_SLOTS = 100_000


class Runner:
    """The tasks of one client.  Call all methods in the loop's thread; ``emit`` must not block."""

    def __init__(
        self,
        data_dir: Path,
        sandbox: Sandbox,
        emit: Callable[[TaskEvent], None],
        *,
        environment: Mapping[str, str],
        clock: Clock = time.time,
        timing: Timing | None = None,
    ) -> None:
        self.around = Surroundings(
            data_dir=data_dir, sandbox=sandbox, clock=clock, emit=emit, timing=timing or Timing()
        )
        self._environment = dict(environment)
        self.tasks: dict[str, RunningTask] = {}  #: all in memory, by their names
        self._premature_ends: dict[str, int] = {}
        self._finishing: set[asyncio.Task[None]] = set()
        self._slot_locks: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._changing: set[str] = set()
        """Tasks that are being started, or whose outputs are being taken."""
        self._ended_cpu_seconds = 0.0
        self._throttle_percent = FULL
        self._throttle_level = 0.0

    # -- start

    async def clean_up(self, known: Mapping[int, str]) -> None:
        """End processes left by a killed client, and empty the slots of unknown tasks."""
        root = self.around.data_dir / "slots"
        root.mkdir(parents=True, exist_ok=True)
        folders = {
            int(path.name): path for path in root.iterdir() if path.name.isdecimal() and len(path.name) < 7
        }
        await asyncio.gather(*(_end_leftovers(path) for path in folders.values()))
        for number, path in folders.items():
            if number not in known:
                await asyncio.to_thread(shutil.rmtree, path, True)

    async def start(self, spec: TaskSpec, number: int) -> None:
        """Start a job, from its last checkpoint if it has one.  Errors arrive as `Ended`."""
        if spec.name in self.tasks or spec.name in self._changing:
            raise ValueError(f"the task {spec.name} is already in memory")
        if not 0 <= number < MAX_SLOTS:
            raise ValueError(f"there is no slot {number}")
        self._changing.add(spec.name)
        # Whoever had the slot before may still be having it emptied.
        async with self._slot_locks[number]:
            await self._start(spec, number)

    async def _start(self, spec: TaskSpec, number: int) -> None:
        folder = SlotFolder(self.around.data_dir / "slots" / str(number), self.around.sandbox.account)
        try:
            resumed = slot.is_set_up_for(folder, spec.result_name) or await asyncio.to_thread(
                slot.take_over, folder, spec
            )
            if not resumed:
                await asyncio.to_thread(slot.set_up, folder, spec)
            task = RunningTask(spec, number, self.around)
            finish = slot.read_finish(folder) if resumed else None
            if finish and finish.status == 0:
                # It finished just before the client was killed: its outputs are taken without computing again.
                await self._close(task, ProcessEnd(finish=finish))
                return
            await asyncio.to_thread(_make_executable, spec)
            task.start(self._environment, resumed=resumed)
        except (OSError, CobblestoneError) as error:
            text = f"the job could not be started: {words_of(error)}"
            self.around.emit(
                Ended(name=spec.name, ending=Ending.FAILED, exit_status=ERR_NOT_STARTED, text=text)
            )
            return
        finally:
            self._changing.discard(spec.name)
        self.tasks[spec.name] = task
        asyncio.get_running_loop().add_reader(task.process.pidfd, self._process_ended, task)

    # -- orders

    def suspend(self, name: str) -> None:
        """Suspend a job; it stays in memory."""
        if task := self.tasks.get(name):
            task.suspended = True
            task.poll()

    def resume(self, name: str) -> None:
        """Resume a job."""
        if task := self.tasks.get(name):
            task.suspended = False
            task.poll()

    def quit(self, name: str, patience: float = 0.0) -> None:
        """Remove a job from memory, after its next checkpoint if that comes within ``patience`` seconds."""
        if task := self.tasks.get(name):
            task.quit(patience)

    def abort(self, name: str, exit_status: int, text: str) -> None:
        """Have a job end for good."""
        if task := self.tasks.get(name):
            task.end_for_good(AbortOrder(exit_status=exit_status, text=text))

    def deliver_trickle(self, name: str, text: str) -> None:
        """Give a job a message of its project."""
        if task := self.tasks.get(name):
            task.announce_trickle(text)

    def upload_done(self, name: str, open_name: str, status: int) -> None:
        """Tell a job that an upload which it wanted is done; 0 is success."""
        if task := self.tasks.get(name):
            task.announce_upload(open_name, status)

    def set_throttle(self, percent: float) -> None:
        """Have all jobs run for this part of the time."""
        self._throttle_percent = percent

    def set_network(self, *, suspended: bool) -> None:
        """Tell jobs whether they may use the network."""
        self.around.network_suspended = suspended

    def set_allowed_memory(self, ram_bytes: float) -> None:
        """Tell jobs how much memory all of them may use together."""
        self.around.ram_allowed = ram_bytes

    async def stop_all(self) -> None:
        """Have all jobs leave memory, and wait until the last of them has."""
        tasks = list(self.tasks.values())
        for task in tasks:
            task.quit(0.0)
        await asyncio.gather(*(task.ended.wait() for task in tasks), *self._finishing)

    async def discard(self, number: int) -> None:
        """Empty the slot of a finished task, unless another one has started in it."""
        async with self._slot_locks[number]:
            if all(task.number != number for task in self.tasks.values()):
                folder = self.around.data_dir / "slots" / str(number)
                await asyncio.to_thread(shutil.rmtree, folder, True)

    # -- watching

    def cpu_seconds(self) -> float:
        """Return the CPU time that the system has counted for all jobs since this start, including ended ones."""
        usage = self._usage() if self.tasks else {}
        return self._ended_cpu_seconds + sum(each.cpu_seconds for each in usage.values())

    def _usage(self) -> dict[int, TreeUsage]:
        """Return the usage of the jobs, by their main processes; orphans are found by their mark."""
        marked = processes_by_slot()
        roots = {task.process.pid: marked.get(str(task.folder.path), set()) for task in self.tasks.values()}
        return usage_by_root(read_processes(), roots)

    async def run(self) -> None:
        """Watch all jobs until cancelled."""
        loop = asyncio.get_running_loop()
        timing = self.around.timing
        next_measure = loop.time() + timing.poll
        while True:
            began = loop.time()
            runs, self._throttle_level = throttle_second(
                self._throttle_level, limit_percent=self._throttle_percent
            )
            self.around.throttled = not runs
            for task in list(self.tasks.values()):
                task.poll()
            if began >= next_measure:
                next_measure = began + timing.measure
                await self.measure()
            await asyncio.sleep(max(0.01, timing.poll - (loop.time() - began)))

    async def measure(self) -> None:
        """Measure memory, CPU time and disk space of all jobs, and end those over their limits."""
        tasks = list(self.tasks.values())
        if not tasks:
            return
        usage = self._usage()
        for task in tasks:
            disk = await asyncio.to_thread(task.folder.disk_usage)
            if task.spec.name in self.tasks:
                task.measured(usage.get(task.process.pid, NOTHING), disk)

    def _process_ended(self, task: RunningTask) -> None:
        asyncio.get_running_loop().remove_reader(task.process.pidfd)
        end = task.bury()
        self._ended_cpu_seconds += task.used_cpu_seconds()
        # Nothing more is to be done with the process: its number may be given to another one.
        del self.tasks[task.spec.name]
        self._changing.add(task.spec.name)
        closing = asyncio.create_task(self._close(task, end))
        self._finishing.add(closing)
        closing.add_done_callback(self._finishing.discard)

    async def _close(self, task: RunningTask, end: ProcessEnd) -> None:
        name = task.spec.name
        if task.checkpoint_at:
            self._premature_ends.pop(name, None)
        before = self._premature_ends.get(name, 0)
        verdict = judge_exit(end, premature_ends=before)
        if verdict.counts_as_premature:
            self._premature_ends[name] = before + 1
        else:
            self._premature_ends.pop(name, None)
        outputs: tuple[ProducedFile, ...] = ()
        stderr = b""
        try:
            if verdict.ending is Ending.FINISHED:
                outputs = await asyncio.to_thread(slot.collect_outputs, task.folder, task.spec)
        except slot.OutputProblem as problem:
            verdict = ExitVerdict(ending=Ending.FAILED, exit_status=problem.exit_status, text=str(problem))
        except OSError as error:  # the finish file stays: it is tried again at the next start
            text = f"its outputs could not be moved: {words_of(error)}"
            verdict = ExitVerdict(ending=Ending.POSTPONED, text=text, delay_seconds=60.0, as_notice=True)
        if verdict.ending in (Ending.FINISHED, Ending.FAILED, Ending.ABORTED):
            stderr = await asyncio.to_thread(slot.read_stderr, task.folder, head=task.spec.stderr_head)
        self._changing.discard(name)
        task.ended.set()
        self.around.emit(
            form_of(
                Ended,
                verdict,
                task,
                name=name,
                stderr=stderr,
                outputs=outputs,
                delay_seconds=verdict.delay_seconds
                or (RESTART_SECONDS if verdict.ending is Ending.RESTART else 0.0),
            )
        )

    async def close(self) -> None:
        """Stop everything at once, when the client ends with jobs still in memory."""
        for task in list(self.tasks.values()):
            task.quit(0.0)
            task.kill()
        await asyncio.gather(*(task.ended.wait() for task in list(self.tasks.values())), *self._finishing)
        if self.around.sandbox.control_groups:
            await asyncio.to_thread(self.around.sandbox.control_groups.remove)


def _make_executable(spec: TaskSpec) -> None:
    main = spec.project_dir / spec.main_program
    if not main.is_file():
        raise FileNotFoundError(f"the main program {spec.main_program} is missing")
    mode = main.stat().st_mode
    if mode & 0o555 != 0o555:
        main.chmod(mode | 0o555)


async def _end_leftovers(path: Path) -> None:
    """End what still runs for a slot: first with the order to quit, so that it can save its work, then by force."""
    if not marked_processes(path):
        return
    try:
        segment = SharedSegment(
            os.open(path / SEGMENT_FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        )
    except OSError:
        segment = None
    pids = marked_processes(path)
    send(pids, signal.SIGCONT)
    deadline = time.monotonic() + LEFTOVER_GRACE_SECONDS
    if segment:
        segment.order(TaskOrders.QUIT)
    while (pids := marked_processes(path)) and time.monotonic() < deadline:
        if segment:
            segment.deliver(time.monotonic())
        await asyncio.sleep(0.1)
    if segment:
        segment.close()
    for _ in range(50):
        if not (pids := marked_processes(path)):
            return
        send(pids, signal.SIGKILL)
        await asyncio.sleep(0.1)


TIMING = Timing(poll=0.2, measure=0.2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The outcome of a trial."""

    end: Ended
    peak_memory: float  #: bytes, resident, of all its processes
    peak_disk: float  #: bytes in its slot
    outputs: Mapping[str, Path]  #: by the names under which the job wrote them; none if it failed
    surroundings: Sequence[str]  #: what keeps it within bounds, in sentences

    @property
    def succeeded(self) -> bool:
        """Return whether a client would report success."""
        return self.end.ending is Ending.FINISHED


async def run_trial(spec: TaskSpec, data_dir: Path) -> Trial:
    """Run a job in a slot below ``data_dir`` until its process ends in any way.

    Raises:
        ConfigError: jobs cannot be run here.
    """
    environment = environment_without_proxies()
    sandbox = await asyncio.to_thread(detect_sandbox, SandboxChoice(), data_dir, environment=environment)
    ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    def take(event: TaskEvent) -> None:
        if isinstance(event, Ended) and not ended.done():
            ended.set_result(event)

    home = open_home(data_dir, sandbox.account) if spec.in_container else None
    runner = Runner(data_dir, sandbox, take, environment=environment, timing=TIMING)
    watching = asyncio.create_task(runner.run())
    peak_memory = peak_disk = 0.0
    try:
        await runner.start(spec, 0)
        while not ended.done():
            await asyncio.wait([ended], timeout=0.2)
            for task in runner.tasks.values():
                peak_memory = max(peak_memory, task.usage.resident)
                peak_disk = max(peak_disk, task.disk_usage)
    finally:
        if home is not None:
            await asyncio.to_thread(empty_home, home, sandbox.account, environment)
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await runner.close()
    end = ended.result()
    return Trial(
        end=end,
        peak_memory=max(peak_memory, end.peak_working_set),
        peak_disk=peak_disk,
        outputs={
            output.open_name: file.path
            for file in end.outputs
            for output in spec.outputs
            if output.physical_name == file.physical_name
        },
        surroundings=[each.text() for each in sandbox.report],
    )
