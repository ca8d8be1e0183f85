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

    long: list[float]  #: long-term debts
    short: list[float]  #: short-term debts
    efficiency: float  #: CPU seconds per wall second of a scheduled task

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
        self.long = [0.0] * len(self.shares)
        self.short = [0.0] * len(self.shares)
        self.efficiency = 1.0

    def _charge(self, wall: list[float], runnable: Sequence[bool], contactable: Sequence[bool]) -> None:
        eligible = [a or b for a, b in zip(runnable, contactable, strict=True)]
        self.long = debts.adjust_long_term(self.long, shares=self.shares, wall=wall, eligible=eligible)
        self.short = debts.adjust_short_term(self.short, shares=self.shares, wall=wall, runnable=runnable)


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

    The order of the floating-point operations is that of the original, since projects of equal debt are told
    apart by its rounding.
    """

    def __init__(self, host: HostRun, *, slice_seconds: float) -> None:
        super().__init__(host, slice_seconds=slice_seconds)
        self._since = 0.0
        self._wall = [0.0] * len(self.shares)
        self._total = 0.0
        self._cpu = 0.0

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
                self._charge(self._wall, runnable, contactable)
        for task in self.host.running:
            task.counted = task.done
        self._since = self.host.now
        self._total = self._cpu = 0.0
        for i in range(len(self._wall)):
            self._wall[i] = 0.0

    def foresee(
        self, *, quantum: float, runnable: Sequence[bool], contactable: Sequence[bool]
    ) -> Iterator[BookState]:
        """Yield the accounts after one poll, two, three ..., if nothing changes; the last settlement was just
        now.
        """
        wall = [0.0] * len(self.shares)
        for task in self.host.running:
            wall[task.project] += quantum
        eligible = [a or b for a, b in zip(runnable, contactable, strict=True)]
        total = quantum * len(self.host.running)
        gains = debts.gains(
            self.shares, wall=wall, counted=[e or w > 0.0 for e, w in zip(eligible, wall, strict=True)]
        )
        short_gains = debts.gains(self.shares, wall=wall, counted=runnable)
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
        self.long, self.short, self.efficiency = state
        ahead = at - self.host.now
        for task in self.host.running:
            task.counted = task.done + ahead
        self._since = at

    def _charge_task(self, task: Task, seconds: float) -> None:
        self._wall[task.project] += seconds
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
