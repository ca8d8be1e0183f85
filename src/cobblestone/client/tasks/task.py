"""One job in memory: its orders, its reports, its limits, and its end."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from cobblestone.client.sandbox.processes import (
    NOTHING,
    JobGroup,
    JobProcess,
    ProcessFacts,
    TreeUsage,
    files_in_memory,
    marked_processes,
    read_processes,
    send,
)
from cobblestone.client.sandbox.sandbox import (
    MEASURE_SECONDS,
    POLL_SECONDS,
    Room,
    Sandbox,
    Wrapped,
    bound_account,
    set_priority,
    set_resource_limits,
    set_session_priority,
)
from cobblestone.client.sandbox.slot_files import SlotFolder, checked_physical_name
from cobblestone.client.tasks import slot
from cobblestone.client.tasks.description import (
    Checkpointed,
    Notice,
    ProcessState,
    Started,
    TaskEvent,
    TaskSpec,
    TrickleUp,
    UploadWanted,
)
from cobblestone.client.tasks.slot import SharedSegment, job_environment, with_libraries
from cobblestone.domain.errors import words_of
from cobblestone.domain.values import form_of
from cobblestone.ops.environment import Clock
from cobblestone.policy.client.host.tasks import (
    EXIT_ABORTED_BY_CLIENT,
    EXIT_DISK_LIMIT,
    EXIT_MEMORY_LIMIT,
    EXIT_TIME_LIMIT,
    AbortOrder,
    ProcessEnd,
)
from cobblestone.wire.client.task_messages import (
    HAVE_TRICKLE_DOWN,
    NEW_TRICKLE_UP,
    NEW_UPLOAD_FILE,
    UPLOAD_FILE_STATUS,
    Channel,
    CheckpointState,
    StartData,
    TaskOrders,
    read_graphics,
    read_status,
    write_heartbeat,
)

MAX_KILL_ROUNDS = 50
#: Seconds within which processes are not looked at again.
ONE_LOOK = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds."""

    poll: float = POLL_SECONDS  #: between two looks at each job
    measure: float = MEASURE_SECONDS  #: between two measurements of memory, processes and disk
    grace: float = 60.0  #: to obey an order to quit or abort
    grace_on_gpu: float = 4.0  #: the same for what holds a GPU's memory; with ``poll`` at most five seconds
    #: a process that stays so long after its finish file is ended; its work counts all the same
    linger: float = 30.0
    #: a job that has not read an order for so long is stopped and continued by the system instead
    deaf: float = 10.0


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """Shared state of all tasks, changed by the runner."""

    data_dir: Path
    sandbox: Sandbox
    clock: Clock  #: Unix s
    emit: Callable[[TaskEvent], None]
    ticks: Callable[[], float] = time.monotonic  #: seconds that pass while the computer is awake
    timing: Timing
    throttled: bool = False
    network_suspended: bool = False
    ram_allowed: float = 0.0
    seen: Mapping[int, ProcessFacts] = field(default_factory=dict[int, ProcessFacts])
    seen_at: float = 0.0

    def processes(self, pid: int) -> Mapping[int, ProcessFacts]:
        """Return all processes, that one among them, as they are now: all tasks that pause at once need one look."""
        if pid not in self.seen or self.ticks() - self.seen_at > ONE_LOOK:
            self.seen = read_processes()
            self.seen_at = self.ticks()
        return self.seen


class RunningTask:
    """A job whose process has been started.  Call ``poll`` once a second, ``measured`` every ten seconds."""

    def __init__(self, spec: TaskSpec, number: int, surroundings: Surroundings) -> None:
        self.spec = spec
        self.number = number
        self.around = surroundings
        sandbox = surroundings.sandbox
        self.sandbox = sandbox.outside() if spec.in_container else sandbox
        self.folder = SlotFolder(surroundings.data_dir / "slots" / str(number), surroundings.sandbox.account)
        self.process: JobProcess
        self.segment: SharedSegment | None = None
        self.group: JobGroup | None = None
        self.ended = asyncio.Event()
        state = slot.read_state(self.folder, spec.result_name)
        self.cpu_time = self.checkpoint_cpu_time = self.start_cpu_time = state.cpu_time if state else 0.0
        self.elapsed = self.checkpoint_elapsed = state.elapsed if state else 0.0
        self.intops_cumulative = 0.0  # the job itself counts on after an interruption
        self.fraction_done = self.checkpoint_fraction = state.fraction_done if state else 0.0
        self.peak_working_set = state.peak_working_set if state else 0.0
        self.reported_checkpoint: float | None = None
        self.checkpoint_at = 0.0
        self.start_elapsed = self.measured_elapsed = self.elapsed
        self.usage: TreeUsage = NOTHING
        self.working_set_smoothed = 0.0
        self.disk_usage = 0.0
        self.suspended = False
        self.paused = False  #: told to pause, for whatever reason
        self.may_wait_for_uploads = True  #: of which an earlier client that was killed did not tell it
        self.session_yields = spec.niceness is None  #: its session has the job's niceness, if that is to be
        self.frozen = False  #: stopped by the system, since it does not listen
        self.abort: AbortOrder | None = None
        self.quit_ordered = False
        self.quit_after_checkpoint: float | None = None  #: until when to wait for one
        self.kill_at: float | None = None
        self.lingers_since: float | None = None
        self.killed_while_lingering = False
        self.out_of_memory_before = 0
        self.graphics = ("", "")
        self.last_poll = surroundings.ticks()

    # -- start

    def start(self, environment: Mapping[str, str], *, resumed: bool) -> None:
        """Start the process in a slot that is set up.  Raises OSError."""
        spec, around = self.spec, self.around
        room = form_of(Room, spec, spec.limits, slot=self.folder.path)
        main = checked_physical_name(spec.main_program)
        words = [f"../../projects/{spec.project_dir.name}/{main}", *spec.arguments]
        wrapped = self.sandbox.wrap(room, with_libraries(spec, environment, words))
        segment = slot.prepare_start(self.folder, spec, self._start_data(wrapped))
        self.segment = None if segment is None else SharedSegment(segment)
        self.group = around.sandbox.open_group(
            self.number, memory_bytes=spec.limits.memory_bytes, processes=spec.limits.processes
        )
        self.out_of_memory_before = self.group.out_of_memory_kills() if self.group else 0
        stderr = self.folder.open_append(slot.STDERR_FILE)
        try:
            self.process = JobProcess(
                wrapped.argv,
                slot=self.folder.path,
                stderr=stderr,
                environment=job_environment(
                    spec, environment, around.data_dir, wrapped.boinc_dir / "slots" / self.folder.path.name
                ),
                prepare=self._set_limits,
            )
        finally:
            os.close(stderr)
        around.emit(Started(spec.name, self.number, self.process.pid, resumed))

    def _start_data(self, wrapped: Wrapped) -> StartData:
        return StartData(
            result_name=self.spec.result_name,
            slot=self.number,
            project_dir=str(wrapped.project_dir),
            boinc_dir=str(wrapped.boinc_dir),
            client_pid=wrapped.client_pid,
            mapped=self.spec.mapped,
            cpu_time=self.checkpoint_cpu_time,
            elapsed=self.checkpoint_elapsed,
            using_sandbox=bool(self.sandbox.bubblewrap),
        )

    def _set_limits(self, pid: int) -> None:
        if self.group:
            self.group.add(pid)
        set_priority(pid, self.spec.niceness)
        limits, account = self.spec.limits, self.sandbox.account
        set_resource_limits(pid, disk_bytes=limits.disk_bytes)
        if limits.processes > 0 and not self.is_counted:
            bound_account(pid, account.uid if account else os.geteuid(), more=limits.processes)

    @property
    def is_counted(self) -> bool:
        """Return whether the system itself limits the job's number of processes."""
        grouped = self.group is not None and self.group.enforces_processes
        return grouped or self.sandbox.counting is not None

    # -- each second

    def poll(self) -> None:
        """Read the job's messages, and send what is due."""
        now = self.around.ticks()
        self._count_time(now)
        if not self.session_yields and self.spec.niceness is not None:
            self.session_yields = set_session_priority(self.process.pid, self.spec.niceness)
        self._hear()
        self._set_pause(self.suspended or self.around.throttled)
        self._tell(now)
        self._watch_end(now)
        limit = self.spec.limits.elapsed_seconds
        if 0 < limit < self.elapsed:
            self.end_for_good(
                AbortOrder(exit_status=EXIT_TIME_LIMIT, text=f"exceeded its run time of {limit:.0f} s")
            )

    def _count_time(self, now: float) -> None:
        if not self.paused and not self.frozen:
            self.elapsed += now - self.last_poll
        self.last_poll = now

    def _hear(self) -> None:
        if self.segment is None:
            return
        if text := self.segment.receive(Channel.STATUS):
            self._take_status(text)
        if text := self.segment.receive(Channel.GRAPHICS_REPLY):
            self.graphics = read_graphics(text)
        text = self.segment.receive(Channel.TRICKLE_UP)
        if NEW_TRICKLE_UP in text:
            path = slot.take_trickle(self.folder, self.spec, self.around.clock())
            if path:
                self.around.emit(TrickleUp(self.spec.name, slot.trickle_variety(path), path))
        if NEW_UPLOAD_FILE in text or self.may_wait_for_uploads:
            self.may_wait_for_uploads = False
            self.hand_over_early()

    def _take_status(self, text: str) -> None:
        status = read_status(text)
        self.cpu_time = max(status.cpu_time, 0.0)
        self.intops_cumulative = status.intops_cumulative or self.intops_cumulative
        if status.fraction_done is not None:
            self.fraction_done = status.fraction_done
        before, self.reported_checkpoint = self.reported_checkpoint, status.checkpoint_cpu_time
        known = self.checkpoint_cpu_time if before is None else before
        if status.checkpoint_cpu_time != known and status.checkpoint_cpu_time > 0:
            self._note_checkpoint(status.checkpoint_cpu_time)

    def _note_checkpoint(self, cpu_time: float) -> None:
        self.checkpoint_cpu_time, self.checkpoint_elapsed = cpu_time, self.elapsed
        self.checkpoint_fraction, self.checkpoint_at = self.fraction_done, self.around.clock()
        try:
            slot.write_state(self.folder, self._state())
        except OSError as error:
            self.around.emit(
                Notice(
                    self.spec.name,
                    f"The checkpoint could not be saved in the slot: {words_of(error)}.",
                    important=True,
                )
            )
        self.around.emit(Checkpointed(self.spec.name, cpu_time, self.elapsed, self.fraction_done))
        if self.quit_after_checkpoint is not None:
            self._quit_now()

    def _state(self) -> CheckpointState:
        return CheckpointState(
            project_url=self.spec.project_url,
            result_name=self.spec.result_name,
            cpu_time=self.checkpoint_cpu_time,
            elapsed=self.checkpoint_elapsed,
            fraction_done=self.checkpoint_fraction,
            peak_working_set=self.peak_working_set,
        )

    def hand_over_early(self) -> None:
        """Move the outputs that the job wants uploaded while it runs."""
        for output in slot.upload_requests(self.folder, self.spec):
            try:
                file = slot.hand_over(self.folder, self.spec, output)
            except OSError as error:  # it is tried again with the others, at the end
                self.around.emit(Notice(self.spec.name, f"An output could not be moved: {words_of(error)}."))
                continue
            if file:
                self.around.emit(UploadWanted(self.spec.name, file))

    def _tell(self, now: float) -> None:
        if self.segment is None:
            return
        self.segment.deliver(now)
        beat = write_heartbeat(
            working_set=self.working_set_smoothed,
            allowed=self.around.ram_allowed,
            network_suspended=self.around.network_suspended,
        )
        self.segment.send(Channel.HEARTBEAT, beat)

    # -- pausing

    def _set_pause(self, wanted: bool) -> None:
        if self.abort or self.quit_ordered:
            wanted = False
        if wanted != self.paused:
            self.paused = wanted
            if self.segment:
                self.segment.order(TaskOrders.SUSPEND if wanted else TaskOrders.RESUME)
        if self.frozen != (self.paused and not self.listens):
            self.frozen = not self.frozen
            send(self._living(), signal.SIGSTOP if self.frozen else signal.SIGCONT)

    @property
    def listens(self) -> bool:
        """Return whether the job reads its orders, as far as is known."""
        if self.segment is None:
            return False
        since = self.segment.order_unread_since
        return since is None or self.segment.listens or self.around.ticks() - since < self.around.timing.deaf

    def _living(self) -> set[int]:
        """Return all processes of the job except the keeper of its sandbox: a stopped job must still be killable as a whole."""
        found = self.process.tree(self.around.processes(self.process.pid))
        return found - {self.process.pid} if self.sandbox.bubblewrap else found

    # -- ending

    def quit(self, patience: float) -> None:
        """Make the job end and continue later; wait up to ``patience`` seconds for its next checkpoint, but not on a GPU."""
        if self.abort or self.quit_ordered:
            return
        if patience > 0 and not self.paused and self.segment is not None and not self.spec.uses_gpu:
            self.quit_after_checkpoint = self.around.ticks() + patience
        else:
            self._quit_now()

    def _quit_now(self) -> None:
        self.quit_after_checkpoint = None
        if not self.quit_ordered:
            self.quit_ordered = True
            self._order_end(TaskOrders.QUIT)

    def end_for_good(self, abort: AbortOrder) -> None:
        """Make the job end permanently.  The first reason counts."""
        if self.abort is None:
            self.abort = abort
            self.quit_after_checkpoint = None
            self._order_end(TaskOrders.ABORT)

    def _order_end(self, order: TaskOrders) -> None:
        self._set_pause(False)
        timing = self.around.timing
        grace = timing.grace_on_gpu if self.spec.uses_gpu else timing.grace
        if self.segment is None:  # it can hear nothing but signals
            send(self._living(), signal.SIGTERM)
            grace = min(grace, timing.deaf)
        else:
            self.segment.orders.clear()
            self.segment.order(order)
            self.segment.deliver(self.around.ticks())
        self.kill_at = self.around.ticks() + grace

    def _watch_end(self, now: float) -> None:
        if self.quit_after_checkpoint is not None and now >= self.quit_after_checkpoint:
            self._quit_now()
        unheard = self.segment is not None and self.kill_at is not None and not self.listens
        if self.kill_at is not None and (now >= self.kill_at or unheard):
            self.kill()
        elif self.folder.exists(slot.FINISH_FILE):
            self.lingers_since = now if self.lingers_since is None else self.lingers_since
            if now - self.lingers_since >= self.around.timing.linger:
                self.killed_while_lingering = True
                self.kill()
        else:
            self.lingers_since = None

    def kill(self) -> None:
        """End every process of the job at once."""
        for _ in range(MAX_KILL_ROUNDS):
            processes = read_processes()
            living = self.process.tree(processes) | (marked_processes(self.folder.path) & processes.keys())
            living = {pid for pid in living if not processes[pid].is_zombie}
            if self.group:
                self.group.kill()
            if not living:
                return
            send(living, signal.SIGKILL)

    def bury(self) -> ProcessEnd:
        """Reap the ended process, end what it left behind, and report all that is known about the end."""
        code, number = self.process.reap()
        self._count_time(self.around.ticks())  # a short job has never been polled
        self.kill()
        self._hear()
        if self.segment:
            self.segment.close()
            self.segment = None
        # What the system counted is right when the job said less: it says nothing, or its last message came too late.
        self.cpu_time = max(self.cpu_time, self.start_cpu_time + self.process.cpu_seconds)
        if self.reported_checkpoint is None:
            self.cpu_time = max(self.cpu_time, self.start_cpu_time + self.used_cpu_seconds())
        oom = self.group is not None and self.group.out_of_memory_kills() > self.out_of_memory_before
        if self.group:
            self.group.close()
        return form_of(
            ProcessEnd,
            self,
            exit_code=code,
            signal=number,
            codes_hide_signals=self.sandbox.hides_signals,
            finish=slot.read_finish(self.folder),
            temporary=slot.read_temporary_exit(self.folder),
            out_of_memory=oom,
        )

    # -- measuring

    def used_cpu_seconds(self) -> float:
        """CPU time of this run of an ended job.

        Bubblewrap does not wait for its children, so the system's count is lost with them; what they used after the last
        measurement is taken to be at their rate before.
        """
        counted = max(self.process.cpu_seconds, self.usage.cpu_seconds)
        if not self.sandbox.bubblewrap:
            return counted
        measured = self.measured_elapsed - self.start_elapsed
        rate = self.usage.cpu_seconds / measured if measured > 0 else self.spec.init.ncpus
        return counted + max(0.0, self.elapsed - self.measured_elapsed) * rate

    def measured(self, usage: TreeUsage, disk_usage: float) -> None:
        """Take the system's measurements of the job, and end it if it exceeds its limits."""
        if self.sandbox.bubblewrap:  # what is mapped of these files counts already
            files = files_in_memory(usage.pids - {self.process.pid})
            usage = replace(usage, resident=max(usage.resident, files))
        self.usage, self.measured_elapsed = usage, self.elapsed
        self.disk_usage = disk_usage
        smoothed = self.working_set_smoothed
        self.working_set_smoothed = (smoothed + usage.resident) / 2 if smoothed else usage.resident
        self.peak_working_set = max(self.peak_working_set, usage.resident)
        if self.segment is None or self.reported_checkpoint is None:
            self.cpu_time = max(self.cpu_time, self.start_cpu_time + usage.cpu_seconds)
        limits = self.spec.limits
        if 0 < limits.memory_bytes < min(self.working_set_smoothed, usage.resident):
            text = f"uses {usage.resident / 1e6:.1f} MB of memory; the limit is {limits.memory_bytes / 1e6:.1f} MB"
            self.end_for_good(AbortOrder(exit_status=EXIT_MEMORY_LIMIT, text=text))
        if 0 < limits.disk_bytes < disk_usage:
            text = f"uses {disk_usage / 1e6:.1f} MB of disk; the limit is {limits.disk_bytes / 1e6:.1f} MB"
            self.end_for_good(AbortOrder(exit_status=EXIT_DISK_LIMIT, text=text))
        # keepers of sandboxes may be beyond it
        if 0 < limits.processes < usage.threads and not self.is_counted:
            text = f"has {usage.threads} processes and threads; the limit is {limits.processes}"
            self.end_for_good(AbortOrder(exit_status=EXIT_ABORTED_BY_CLIENT, text=text))

    def announce_trickle(self, text: str) -> None:
        """Put a project's message into the slot."""
        self.folder.write(f"trickle_down_{self.around.clock():.6f}", text.encode())
        if self.segment:
            self.segment.announce(HAVE_TRICKLE_DOWN)

    def announce_upload(self, open_name: str, status: int) -> None:
        """Tell the job that a requested upload is done."""
        with suppress(OSError):  # the disk is full, or the job has put something else there: it is not told
            slot.note_upload(self.folder, open_name, status)
        if self.segment:
            self.segment.announce(UPLOAD_FILE_STATUS)

    @property
    def state(self) -> ProcessState:
        """Return the state of the process at this moment."""
        if self.abort:
            return ProcessState.ABORT_PENDING
        if self.quit_ordered:
            return ProcessState.QUIT_PENDING
        paused = self.paused and not self.around.throttled
        return ProcessState.SUSPENDED if paused else ProcessState.EXECUTING
