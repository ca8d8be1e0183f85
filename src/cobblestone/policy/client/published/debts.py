"""Debts: what the host owes each project, and how a client of the published family accounts for and remembers it.

Debts: what the host owes each project (published family).

Long-term debt steers work fetch, short-term debt the choice of what runs next.  Both count wall-clock
seconds of scheduled tasks, because reported CPU time may lie.  Source: BOINC's ``cpu_sched`` of 2007
(``adjust_debts``), ``time_stats`` (CPU efficiency).

What a client of the published family keeps account of: scheduled wall time, and the debts that follow.

Two ways of doing so: exactly, and as the client of 2007 did, which looked at its tasks now and then and took whoever was
scheduled at that moment to have been so since the last look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cobblestone.domain.values import DAY, float_sum
from cobblestone.policy.client.core.state import ClientJob, CoreState

#: Short-term debt is kept within plus or minus this many seconds.
MAX_SHORT_TERM_DEBT = DAY


def is_overworked(long_term_debt: float, *, slice_seconds: float) -> bool:
    """Tell whether a project has had so much more than its share that it should wait."""
    return long_term_debt < -slice_seconds


def interval_counts(elapsed: float, *, slice_seconds: float) -> bool:
    """Tell whether an accounting interval may be used: not too short, and not a sleep of the machine."""
    return 1.0 <= elapsed <= 2.0 * slice_seconds


def portions(shares: Sequence[float], counted: Sequence[bool]) -> list[float]:
    """Return each counting project's part of the shares of all that count; 0 for the others."""
    total = _in_turn([share for share, ok in zip(shares, counted, strict=True) if ok])
    if total <= 0.0:
        return [0.0] * len(shares)
    return [share / total if ok else 0.0 for share, ok in zip(shares, counted, strict=True)]


def adjust_long_term(debts: Sequence[float], *, parts: Sequence[float], wall: Sequence[float]) -> list[float]:
    """Return long-term debts after an interval in which tasks of project i were scheduled for ``wall[i]``
    seconds (summed over tasks).

    ``parts``: the :func:`portions` of the projects that could have run (runnable, contactable or downloading) or did.
    The mean stays zero.
    """
    return _centre(_changed(debts, parts, wall))


def adjust_short_term(
    debts: Sequence[float], *, parts: Sequence[float], wall: Sequence[float], runnable: Sequence[bool]
) -> list[float]:
    """Return short-term debts after an interval: with mean zero among the projects with a runnable job, none for the
    others, within the limits.
    """
    changed = _changed(debts, parts, wall)
    number = total = 0.0
    for debt, ok in zip(changed, runnable, strict=True):
        if ok:
            number += 1.0
            total += debt
    mean = total / number if number else 0.0
    low, high = -MAX_SHORT_TERM_DEBT, MAX_SHORT_TERM_DEBT
    centred = [debt - mean if ok else 0.0 for debt, ok in zip(changed, runnable, strict=True)]
    if centred and low <= min(centred) and max(centred) <= high:
        return centred
    return [min(high, max(low, debt)) for debt in centred]


def _centre(debts: Sequence[float]) -> list[float]:
    mean = _in_turn(debts) / len(debts) if debts else 0.0
    return [debt - mean for debt in debts]


def _changed(debts: Sequence[float], parts: Sequence[float], wall: Sequence[float]) -> list[float]:
    """Return debts with each project's gain: its part of all wall time minus what it had."""
    total = _in_turn(wall)
    return [debt + (part * total - used) for debt, part, used in zip(debts, parts, wall, strict=True)]


def _in_turn(values: Sequence[float]) -> float:
    """Add up one after the other: ``sum`` rounds differently from Python 3.12 on, and ties would be broken
    otherwise.
    """
    total = 0.0
    for value in values:
        total += value
    return total


def update_cpu_efficiency(efficiency: float, wall: float, cpu: float) -> float:
    """Return the running average of CPU time per second of scheduled wall time; weight e**-1 after a day of
    wall time.
    """
    if wall < 0.01:
        return efficiency
    weight = math.exp(-wall / DAY)
    return weight * efficiency + (1.0 - weight) * (cpu / wall)


#: Which projects have runnable jobs, and which can be asked for work.
Standing = tuple[list[bool], list[bool]]


@dataclass(slots=True)
class DebtMemory:
    """The stored part of the accounts."""

    long: list[float] = field(default_factory=list[float])
    short: list[float] = field(default_factory=list[float])
    efficiency: float = 1.0  #: CPU seconds per wall second of a scheduled task
    #: scheduled seconds per project that are not settled yet
    wall: list[float] = field(default_factory=list[float])
    unused: float = 0.0  #: of them, those in which the host was off
    settled_at: float = 0.0
    #: 2007: ... since the last look, of ended tasks
    latest: dict[int, float] = field(default_factory=dict[int, float])
    total: float = 0.0
    cpu: float = 0.0
    pending: Standing | None = None  #: 2007: who was runnable, contactable in what is not charged yet


class DebtAccounting:
    """Debts and processor efficiency of one client; those that follow say how time is counted."""

    def __init__(self, state: CoreState, memory: DebtMemory) -> None:
        self.state = state
        self.memory = memory
        self._counted: Sequence[bool] = ()
        self._runnable: Sequence[bool] = ()
        self._long_parts: list[float] = []
        self._short_parts: list[float] = []
        self.refit()

    def refit(self) -> None:
        """Refresh the projects: some were added or changed."""
        self.shares = [p.share for p in self.state.projects]
        self._counted = self._runnable = ()
        more = len(self.shares) - len(self.memory.long)
        for column in (self.memory.long, self.memory.short, self.memory.wall):
            column.extend([0.0] * more)

    def reweigh(self, shares: Sequence[float]) -> None:
        """Take other shares from now on."""
        self.shares = list(shares)
        self._counted = self._runnable = ()

    def forget(self, project: int) -> None:
        """Note that a project is gone; its debt is spread over the others."""
        for column in (self.memory.long, self.memory.short, self.memory.wall):
            del column[project]
        self.memory.long = _centre(self.memory.long)
        self.memory.latest = {i - (i > project): x for i, x in self.memory.latest.items() if i != project}
        self.memory.pending = None

    @property
    def long(self) -> list[float]:
        """Long-term debts."""
        self._charge_pending()
        return self.memory.long

    @property
    def short(self) -> list[float]:
        """Short-term debts."""
        self._charge_pending()
        return self.memory.short

    def _charge_pending(self) -> None:
        """Charge what an account has put off."""

    def settle(self, standing: Callable[[], Standing]) -> None:
        """Bring the debts up to date; how projects stand is asked only if it matters."""
        raise NotImplementedError

    def passed(self, seconds: float) -> None:
        """Time has passed in which the running tasks computed."""

    def ended(self, task: ClientJob) -> None:
        """Record that a task has ended and is no longer scheduled."""

    def preempted(self, task: ClientJob) -> None:
        """Note that a task is taken off the processor."""

    def gap(self, seconds: float) -> None:
        """Note that the host was off."""

    def _charge(self, wall: list[float], runnable: Sequence[bool], contactable: Sequence[bool]) -> None:
        # the projects' parts seldom change
        counted = [a or b or used > 0.0 for a, b, used in zip(runnable, contactable, wall, strict=True)]
        if counted != self._counted:
            self._counted, self._long_parts = counted, portions(self.shares, counted)
        if runnable != self._runnable:
            self._runnable, self._short_parts = runnable, portions(self.shares, runnable)
        memory = self.memory
        memory.long = adjust_long_term(memory.long, parts=self._long_parts, wall=wall)
        memory.short = adjust_short_term(memory.short, parts=self._short_parts, wall=wall, runnable=runnable)


class ExactAccounting(DebtAccounting):
    """Every task is charged with the time in which it ran, times the processors that it takes."""

    def __init__(
        self,
        state: CoreState,
        memory: DebtMemory,
        *,
        count_off_time: bool,
        processors: Callable[[ClientJob], float],
    ) -> None:
        super().__init__(state, memory)
        self._processors = processors
        self._count_off_time = count_off_time  #: availability is estimated by processor efficiency

    def passed(self, seconds: float) -> None:
        """Count the time for each running task."""
        wall = self.memory.wall
        for task in self.state.running:
            wall[task.project] += seconds * self._processors(task)

    def settle(self, standing: Callable[[], Standing]) -> None:
        """Charge the projects; intervals are additive while nothing changes."""
        memory = self.memory
        wall = memory.wall
        total = float_sum(wall)
        if total < 1.0:
            return
        if self._count_off_time:
            memory.efficiency = update_cpu_efficiency(
                memory.efficiency, wall=total, cpu=total - memory.unused
            )
            memory.unused = 0.0
        if len(wall) > 1:  # a single project owes no one
            self._charge(wall, *standing())
        for i in range(len(wall)):
            wall[i] = 0.0

    def gap(self, seconds: float) -> None:
        """Take a short gap for a time in which the running tasks were scheduled and got nothing."""
        if self._count_off_time and interval_counts(seconds, slice_seconds=self.state.slice):
            for task in self.state.running:
                self.memory.wall[task.project] += seconds
                self.memory.unused += seconds


class PolledAccounting(DebtAccounting):
    """The accounts of the 2007 client: wall time since the last look, for those scheduled now.

    ``literally``, the order of the floating-point operations is that of the original, since projects of equal debt are
    told apart by its rounding; otherwise looks between which nothing changed are charged together.
    """

    def __init__(self, state: CoreState, memory: DebtMemory, *, literally: bool) -> None:
        super().__init__(state, memory)
        self._literally = literally

    def settle(self, standing: Callable[[], Standing]) -> None:
        """Charge the projects for the time since the last look."""
        memory = self.memory
        now = self.state.now
        seconds = now - memory.settled_at
        if seconds < 1.0:
            return
        if interval_counts(seconds, slice_seconds=self.state.slice):
            for task in self.state.running:
                self._charge_task(task, seconds)
            memory.efficiency = update_cpu_efficiency(memory.efficiency, wall=memory.total, cpu=memory.cpu)
            if len(memory.wall) > 1:
                stands = standing()
                if memory.pending != stands:
                    self._charge_pending()
                    memory.pending = stands
                for i, wall in memory.latest.items():
                    memory.wall[i] += wall
                if self._literally:
                    self._charge_pending()
        for task in self.state.running:
            task.counted = task.done
        memory.settled_at = now
        memory.total = memory.cpu = 0.0
        memory.latest.clear()

    def _charge_pending(self) -> None:
        memory = self.memory
        if memory.pending is not None:
            self._charge(memory.wall, *memory.pending)
            memory.pending = None
            memory.wall = [0.0] * len(memory.wall)

    def _charge_task(self, task: ClientJob, seconds: float) -> None:
        memory = self.memory
        memory.latest[task.project] = memory.latest.get(task.project, 0.0) + seconds
        memory.total += seconds
        memory.cpu += task.done - task.counted

    def ended(self, task: ClientJob) -> None:
        """Charge its project; it is not among the running ones at the next look."""
        self._charge_task(task, self.state.now - self.memory.settled_at)

    def preempted(self, task: ClientJob) -> None:
        """Forget what it did since the last look; its successor is charged for that time."""
        task.counted = task.done


@dataclass(slots=True)
class PublishedMemory:
    """The policy's memory."""

    dcf: list[float] = field(default_factory=list[float])
    misses: list[int] = field(default_factory=list[int])  #: as of the last simulation
    trouble: list[int] = field(default_factory=list[int])  #: misses as of the last enforcement
    shortfalls: list[float] = field(default_factory=list[float])
    debts: DebtMemory = field(default_factory=DebtMemory)
