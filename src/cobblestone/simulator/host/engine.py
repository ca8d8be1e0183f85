"""The event loop: time, availability, running tasks, and the books.

Between two events every quantity changes linearly, so the loop jumps from event to event.  Two clocks are
kept: wall time, and the time that the host has been available.  The books must balance at the end of each
run: delivered = used + wasted + unfinished (+ rounding) = peak x available - idle.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Protocol

from cobblestone.domain.errors import CobblestoneError
from cobblestone.domain.values import DAY, float_sum
from cobblestone.simulator.host.books import Books, SimTask
from cobblestone.simulator.world.distributions import Streams
from cobblestone.simulator.world.scenario import HostModel, OnOff, Scenario

NEVER = math.inf
#: Seconds of computing that count as none, against rounding of the last digit.
TINY = 1e-6
#: More rounds of decisions than this within one millisecond of simulated time are an endless loop.
MAX_ROUNDS = 20_000


class SimulationFault(CobblestoneError):
    """The simulator's own books do not balance; this is a bug in the simulator."""


class ClientModel(Protocol):
    """A client on the simulated host: decides at events, and returns when to call it again."""

    wake: float  #: wall time of its next own event

    def step(self) -> None: ...
    def account(self) -> None: ...
    def switch_off(self) -> None: ...
    def gap(self, seconds: float) -> None: ...
    def left_over(self) -> list[SimTask]: ...


class Availability:
    """Alternating on and off periods, drawn one at a time."""

    def __init__(self, model: OnOff, rng: random.Random, *, start_on: bool, quantum: float = 0.0) -> None:
        self._model = model
        self._rng = rng
        self._quantum = quantum
        self._position = 0
        self._offset = 0.0
        self.on = True
        self.exact = 0.0
        self.until = NEVER
        if model.trace:
            self.on = model.trace[0][0] <= 0.0
            self.until = model.trace[0][1] if self.on else model.trace[0][0]
            self._position = 0
        elif model.fraction < 1.0:
            self.on = start_on or rng.random() < model.fraction
            self._draw(-quantum)

    def _draw(self, since: float) -> None:
        self.exact += self._model.period(self._rng, on=self.on)
        if self._quantum:
            # sampled once per quantum: seen at the first sample after it happened, one change per sample
            q = self._quantum
            self.until = max(since + q, q * math.floor(self.exact / q))
        else:
            self.until = self.exact

    def toggle(self) -> None:
        """Go to the next period."""
        since = self.until
        self.on = not self.on
        if not self._model.trace:
            self._draw(since)
            return
        trace = self._model.trace
        if self.on:
            self.until = self._offset + trace[self._position][1]
            return
        self._position += 1
        if self._position == len(trace):
            self._position = 0
            self._offset += self._model.trace_length or trace[-1][1]
            if self._offset + trace[0][0] <= since:  # the trace ends on and begins on
                self.on = True
                self.until = self._offset + trace[0][1]
                return
        self.until = self._offset + trace[self._position][0]


class WithinHours(Availability):
    """An on-off process that is on only in some hours of the day."""

    def __init__(self, model: OnOff, rng: random.Random, *, start_on: bool) -> None:
        always = replace(model, day_start=0.0, day_end=0.0, weekdays_only=False)
        days = range(5) if model.weekdays_only else range(1)
        begins = [day * DAY + model.day_start for day in days]
        hours = tuple((begin, begin + model.hours_on) for begin in begins)
        if len(days) == 1 and hours[0][1] > DAY:  # over midnight
            hours = ((0.0, model.day_end), (model.day_start, DAY))
        daily = OnOff(trace=_joined(hours), trace_length=(7 if model.weekdays_only else 1) * DAY)
        self._parts = (
            Availability(always, rng, start_on=start_on),
            Availability(daily, rng, start_on=start_on),
        )
        self.on = all(part.on for part in self._parts)
        self._look_ahead()

    def toggle(self) -> None:
        """Go to the next period."""
        self.on = not self.on
        self._look_ahead()

    def _look_ahead(self) -> None:
        """Find the next change between on and off."""
        while True:
            self.until = min(part.until for part in self._parts)
            if self.until == NEVER:
                return
            for part in self._parts:
                if part.until == self.until:
                    part.toggle()
            if all(part.on for part in self._parts) != self.on:
                return


def _joined(periods: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
    """Return the periods with adjacent ones joined."""
    joined = [periods[0]]
    for start, end in periods[1:]:
        if start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)


def make_availability(
    model: OnOff, rng: random.Random, *, start_on: bool, quantum: float = 0.0
) -> Availability:
    """Return the availability process of a model."""
    if model.has_hours:
        return WithinHours(model, rng, start_on=start_on)
    return Availability(model, rng, start_on=start_on, quantum=quantum)


class Recorder(Protocol):
    """Observer of what runs when (pictures, logs)."""

    def started(self, task: SimTask, now: float) -> None: ...
    def stopped(self, task: SimTask, now: float) -> None: ...
    def finished(self, task: SimTask, now: float) -> None: ...
    def available(self, on: bool, now: float) -> None: ...
    def note(self, now: float, kind: str, text: str) -> None: ...


class HostRun:
    """The simulation of one host."""

    def __init__(
        self, scenario: Scenario, streams: Streams, shared: random.Random | None, recorder: Recorder | None
    ) -> None:
        host: HostModel = scenario.host
        self.scenario = scenario
        self.host = host
        self.quantum = scenario.compatibility.quantum
        self.recorder = recorder
        self._may_lose = any(a.checkpoint_period for p in scenario.projects for a in p.apps)
        self.now = 0.0
        self.clock = 0.0
        self.running: list[SimTask] = []
        self.books = Books(scenario)
        rng = shared if shared is not None else streams.stream("availability")
        self.availability = make_availability(
            host.availability, rng, start_on=shared is not None, quantum=self.quantum
        )
        self.on_since = -self.quantum
        self._used_peak = 0.0
        self._rounds = 0
        self._rounds_since = -1.0
        self._finish = NEVER

    # -- time ---------------------------------------------------------------------------------------------------------

    def run(self, client: ClientModel) -> None:
        """Run the whole duration."""
        end = self.scenario.duration
        self.begin(client)
        while self.now < end:
            self.go_on(client, end)
        self.close()

    def begin(self, client: ClientModel) -> None:
        """Start the client."""
        if self.availability.on:
            client.step()

    def go_on(self, client: ClientModel, end: float) -> None:
        """Advance to the next event."""
        availability = self.availability
        if not availability.on:
            self._sleep(client, end)
            return
        change = availability.until
        stop = change if change < end else end
        at = self._event(client.wake)
        if at <= stop:
            if self.quantum and at - self.now > self.quantum:
                # a polling client settles its accounts at every poll, the last time just before the end of a task
                self.advance(at - self.quantum)
                client.account()
            self.advance(at)
            client.step()
        else:
            self.advance(stop)
        if self.now >= change:
            client.switch_off()
            self._switch_off()

    def next_time(self, client: ClientModel, end: float) -> float:
        """Return the time to which :meth:`go_on` will advance."""
        until = min(self.availability.until, end)
        return min(until, self._event(client.wake)) if self.availability.on else until

    def attach_at(self, when: float) -> None:
        """Start the host's life later than at 0."""
        self.now = self.on_since = when
        while self.availability.until <= when:
            self.availability.toggle()

    def _event(self, wake: float) -> float:
        q = self.quantum
        if q:
            first = self.now if self.now > self.on_since else self.on_since + q
            if wake > first:
                first = q * math.ceil(wake / q - 1e-9)
            finish = self.next_finish()
            return first if first < finish else finish
        if wake < self.now:
            wake = self.now
        finish = self.now + self._finish
        return wake if wake < finish else finish

    def next_finish(self) -> float:
        """Return the poll that will detect the end of the next running task."""
        if self._finish == NEVER:
            return NEVER
        return self.now + self.quantum * max(1, math.ceil(self._finish / self.quantum - 1e-9))

    def advance(self, to: float) -> None:
        """Run the tasks until ``to``; the host is on."""
        seconds = to - self.now
        if seconds <= 0.0:
            return
        self.now = to
        self.clock += seconds
        for task in self.running:
            task.done += seconds * task.rate
        self._finish -= seconds
        self.books.pass_time(seconds, self._used_peak)

    def _switch_off(self) -> None:
        self.availability.toggle()
        if self.recorder is not None:
            self.recorder.available(False, self.now)
        if self._may_lose:
            for task in self.running:
                self.lose_since_checkpoint(task)
            self.recompute()

    def _sleep(self, client: ClientModel, end: float) -> None:
        until = self.availability.until
        if until >= end:
            self.now = end
            return
        gap = until - self.now
        self.now = until
        self.on_since = until
        self.availability.toggle()
        if self.recorder is not None:
            self.recorder.available(True, until)
        client.gap(gap)

    def count_round(self) -> None:
        """Count one round of a client's decisions.

        Raises :class:`SimulationFault` if time stands still: a client that decides for ever would never end.
        """
        if self.now - self._rounds_since > 1e-3:
            self._rounds, self._rounds_since = 0, self.now
        self._rounds += 1
        if self._rounds > MAX_ROUNDS:
            raise SimulationFault(
                f"scenario {self.scenario.name!r}: the client decided {MAX_ROUNDS} times at day {self.now / 86400.0:.6f}"
                " without end; please report this with the scenario file"
            )

    # -- tasks --------------------------------------------------------------------------------------------------------

    def start(self, task: SimTask) -> None:
        """Start or resume a task."""
        task.running = True
        task.run_start = self.now
        self.running.append(task)
        self.books.project_runs(task.project, self.clock)
        if self.recorder is not None:
            task.slot = self._free_slot(task)
            self.recorder.started(task, self.now)

    def _free_slot(self, task: SimTask) -> int:
        """Return the first free instance of the task's device type with enough free CPUs."""
        others = [t for t in self.running if t is not task and t.gpu == task.gpu]
        taken = {t.slot + i for t in others for i in range(t.width)}
        slot = 0
        while any(slot + i in taken for i in range(task.width)):
            slot += 1
        if not task.gpu and slot + task.width > self.host.ncpus:
            # more CPUs promised than there are: drawn on top of each other
            return max(0, self.host.ncpus - task.width)
        return slot

    def stop(self, task: SimTask, *, keep: bool = True) -> None:
        """Preempt a task, or remove it because it has ended."""
        task.running = False
        self.running.remove(task)
        if not any(t.project == task.project for t in self.running):
            self.books.project_stops(task.project, self.clock)
        if not keep:
            self.lose_since_checkpoint(task)
        if self.recorder is not None:
            self.recorder.stopped(task, self.now)

    def lose_since_checkpoint(self, task: SimTask) -> None:
        """Set a task back to its last checkpoint."""
        period = task.app.checkpoint_period
        if period <= 0.0:
            return
        kept = max(task.saved, math.floor(task.done / period) * period)
        task.saved = kept
        task.lost += task.done - kept
        task.done = kept

    def recompute(self) -> None:
        """Recompute speeds and the time to the next end of a task; call after starting and stopping."""
        cpus = float_sum([t.cpus for t in self.running])
        slow = on_gpu = 1.0
        if cpus > self.host.ncpus:
            # GPU jobs keep their part of the CPUs, the others share what is left
            gpu = float_sum([t.cpus for t in self.running if t.gpu])
            on_gpu = min(1.0, self.host.ncpus / gpu) if gpu else 1.0
            slow = max(0.0, self.host.ncpus - gpu) / (cpus - gpu) if cpus > gpu else 1.0
        finish = NEVER
        peak = 0.0
        for task in self.running:
            task.rate = on_gpu if task.gpu else slow
            peak += task.peak * task.rate
            left = (task.limit - task.done) / task.rate if task.rate else NEVER
            if left < finish:
                finish = left
        self._finish = finish if finish > 0.0 else 0.0
        self._used_peak = peak

    def ended(self) -> list[SimTask]:
        """Return the running tasks that have reached their end; a polling client sees it at the next poll
        after the start, also of an empty job.
        """
        if self._finish > TINY:
            return []
        ended = [t for t in self.running if t.limit - t.done <= TINY]
        return [t for t in ended if t.run_start < self.now] if self.quantum else ended

    # -- end ----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop everything and close the books."""
        for task in list(self.running):
            self.stop(task)
        self.books.close(self.clock)
