"""What a simulated client of the published family books: scheduled wall time, and the debts that follow.

Two ways of keeping the accounts: exact ones, and those of the 2007 client, which looked at its tasks now and
then and took whoever was scheduled at that moment to have been so since the last look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from cobblestone.policy.client import debts
from cobblestone.simulator.engine import HostRun
from cobblestone.simulator.task import Task


class Accounts(Protocol):
    """Debts and processor efficiency of one client."""

    efficiency: float  #: CPU seconds per wall second of a scheduled task

    @property
    def long(self) -> list[float]:
        """Long-term debts."""
        ...

    @property
    def short(self) -> list[float]:
        """Short-term debts."""
        ...

    def settle(self, *, runnable: Sequence[bool], contactable: Sequence[bool]) -> None:
        """Bring the debts up to date; flags per project."""
        ...

    def ended(self, task: Task) -> None:
        """A task has come to its end and is no longer scheduled."""
        ...

    def preempted(self, task: Task) -> None:
        """A task is taken off the processor."""
        ...

    def gap(self, seconds: float) -> None:
        """The host was off."""
        ...


class BookState(NamedTuple):
    """Accounts at one moment."""

    long: list[float]
    short: list[float]
    efficiency: float


class _Debts:
    def __init__(self, host: HostRun, *, slice_seconds: float) -> None:
        self.host = host
        self.shares = [p.share for p in host.scenario.projects]
        self.slice = slice_seconds
        self._long = [0.0] * len(self.shares)
        self._short = [0.0] * len(self.shares)
        self.efficiency = 1.0
        self._counted: Sequence[bool] = ()
        self._runnable: Sequence[bool] = ()
        self._long_parts: list[float] = []
        self._short_parts: list[float] = []

    @property
    def long(self) -> list[float]:
        """Long-term debts."""
        return self._long

    @property
    def short(self) -> list[float]:
        """Short-term debts."""
        return self._short

    def _charge(self, wall: list[float], runnable: Sequence[bool], contactable: Sequence[bool]) -> None:
        long_parts, short_parts = self._parts(wall, runnable, contactable)
        self._long = debts.adjust_long_term(self._long, parts=long_parts, wall=wall)
        self._short = debts.adjust_short_term(self._short, parts=short_parts, wall=wall, runnable=runnable)

    def _parts(
        self, wall: list[float], runnable: Sequence[bool], contactable: Sequence[bool]
    ) -> tuple[list[float], list[float]]:
        """Return the projects' parts in the gains of long- and short-term debt; they seldom change."""
        counted = [a or b or used > 0.0 for a, b, used in zip(runnable, contactable, wall, strict=True)]
        if counted != self._counted:
            self._counted, self._long_parts = counted, debts.portions(self.shares, counted)
        if runnable != self._runnable:
            self._runnable, self._short_parts = runnable, debts.portions(self.shares, runnable)
        return self._long_parts, self._short_parts


class ExactAccounts(_Debts):
    """Every task is charged with the time in which it ran."""

    def __init__(self, host: HostRun, *, slice_seconds: float, count_off_time: bool) -> None:
        super().__init__(host, slice_seconds=slice_seconds)
        self._count_off_time = count_off_time  #: the belief in availability comes from processor efficiency
        self._unused = 0.0  #: of the wall time not settled yet, what fell into gaps

    def settle(self, *, runnable: Sequence[bool], contactable: Sequence[bool]) -> None:
        """Charge the projects; intervals are additive while nothing changes."""
        wall = self.host.books.busy
        total = sum(wall)
        if total < 1.0:
            return
        if self._count_off_time:
            self.efficiency = debts.update_cpu_efficiency(
                self.efficiency, wall=total, cpu=total - self._unused
            )
            self._unused = 0.0
        if len(wall) > 1:  # a single project owes nobody
            self._charge(wall, runnable, contactable)
        for i in range(len(wall)):
            wall[i] = 0.0

    def ended(self, task: Task) -> None:
        """Nothing to do: its time was counted as it passed."""

    def preempted(self, task: Task) -> None:
        """Nothing to do: its time was counted as it passed."""

    def gap(self, seconds: float) -> None:
        """Take a short gap for a time in which the running tasks were scheduled and got nothing."""
        if self._count_off_time and debts.interval_counts(seconds, slice_seconds=self.slice):
            for task in self.host.running:
                self.host.books.busy[task.project] += seconds
                self._unused += seconds


class PolledAccounts(_Debts):
    """The accounts of the 2007 client: wall time since the last look, for those scheduled now.

    ``literally``, the order of the floating-point operations is that of the original, since projects of equal debt are
    told apart by its rounding; otherwise looks between which nothing changed are charged together.
    """

    def __init__(self, host: HostRun, *, slice_seconds: float, literally: bool) -> None:
        super().__init__(host, slice_seconds=slice_seconds)
        self._literally = literally
        self._flags: tuple[Sequence[bool], Sequence[bool]] | None = None  #: of what is not charged yet
        self._since = 0.0
        self._wall = [0.0] * len(self.shares)
        self._latest: dict[int, float] = {}  #: wall time of projects since the last look
        self._total = 0.0
        self._cpu = 0.0

    @property
    def long(self) -> list[float]:
        """Long-term debts."""
        self._charge_pending()
        return self._long

    @property
    def short(self) -> list[float]:
        """Short-term debts."""
        self._charge_pending()
        return self._short

    def settle(self, *, runnable: Sequence[bool], contactable: Sequence[bool]) -> None:
        """Charge the projects for the time since the last look."""
        seconds = self.host.now - self._since
        if seconds < 1.0:
            return
        if debts.interval_counts(seconds, slice_seconds=self.slice):
            for task in self.host.running:
                self._charge_task(task, seconds)
            self.efficiency = debts.update_cpu_efficiency(self.efficiency, wall=self._total, cpu=self._cpu)
            if len(self._wall) > 1:
                if self._flags != (runnable, contactable):
                    self._charge_pending()
                    self._flags = (runnable, contactable)
                for i, wall in self._latest.items():
                    self._wall[i] += wall
                if self._literally:
                    self._charge_pending()
        for task in self.host.running:
            task.counted = task.done
        self._since = self.host.now
        self._total = self._cpu = 0.0
        self._latest.clear()

    def _charge_pending(self) -> None:
        if self._flags is not None:
            self._charge(self._wall, *self._flags)
            self._flags = None
            self._wall = [0.0] * len(self._wall)

    def foresee(
        self, *, quantum: float, runnable: Sequence[bool], contactable: Sequence[bool]
    ) -> Iterator[BookState]:
        """Yield the accounts after one poll, two, three ..., if nothing changes; the last settlement was just
        now.
        """
        wall = [0.0] * len(self.shares)
        for task in self.host.running:
            wall[task.project] += quantum
        total = quantum * len(self.host.running)
        long_parts, short_parts = self._parts(wall, runnable, contactable)
        gains, short_gains = debts.gains(long_parts, wall), debts.gains(short_parts, wall)
        long, short, efficiency = self.long, self.short, self.efficiency
        alone = len(wall) == 1
        while True:
            if total:
                efficiency = debts.update_cpu_efficiency(efficiency, wall=total, cpu=total)
            if not alone:
                long = debts.centre([debt + gain for debt, gain in zip(long, gains, strict=True)])
                short = debts.centre_runnable(
                    [debt + gain for debt, gain in zip(short, short_gains, strict=True)], runnable
                )
            yield BookState(long, short, efficiency)

    def accept(self, state: BookState, at: float) -> None:
        """Take over foreseen accounts, settled at the time ``at``."""
        self._long, self._short, self.efficiency = state
        ahead = at - self.host.now
        for task in self.host.running:
            task.counted = task.done + ahead
        self._since = at

    def _charge_task(self, task: Task, seconds: float) -> None:
        self._latest[task.project] = self._latest.get(task.project, 0.0) + seconds
        self._total += seconds
        self._cpu += task.done - task.counted

    def ended(self, task: Task) -> None:
        """Charge its project; it is not among the running ones at the next look."""
        self._charge_task(task, self.host.now - self._since)

    def preempted(self, task: Task) -> None:
        """Forget what it did since the last look; its successor is charged for that time."""
        task.counted = task.done

    def gap(self, seconds: float) -> None:
        """Nothing to do: at the next look it is seen as time without CPU time."""
