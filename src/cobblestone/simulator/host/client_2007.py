"""The client of 2007, faults included: it polls every 60 seconds, and its heap of running tasks is upside down.

Who gives way in the client of 2007: its heap of running tasks, upside down and with the C++ library's ties.

The client meant to have the most preemptable task on top, but its comparison was the wrong way round.  Equal tasks
lie as the library's ``make_heap`` and ``pop_heap`` leave them (Floyd's construction, by sinking the hole to a leaf
and letting the element rise again): of two equals the second is on top.

The client of 2007 as it really was: it looks at everything every 60 seconds.

Almost no poll changes anything.  So after each poll that did, the next ones are only looked at from afar: if at the
last poll before the next certain event (a job's end, the end of a time slice, the host going off) no work would be
missing, none would be before it, since queues only drain in the meantime; if it would, the first poll at which it is
missing is searched by halving.  Where that does not follow, because a job waits for a processor or a queue grows, each
poll is foreseen.  The result is the same, to the last random number, as polling (a property test compares them).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.protocol import Changes
from cobblestone.policy.client.core.state import NEVER, ClientJob
from cobblestone.policy.client.estimates import remaining_2007
from cobblestone.policy.client.published import work_fetch
from cobblestone.policy.client.published.debts import DebtState, PolledAccounting
from cobblestone.policy.client.published.policy import Availability, PublishedPolicy
from cobblestone.policy.client.published.round_robin import RoundRobinBackends, RoundRobinOutcome
from cobblestone.policy.client.published.run_list import Behaviour2007
from cobblestone.simulator.host.driver import Network, SimulatedClient
from cobblestone.simulator.host.engine import HostRun
from cobblestone.simulator.world.scenario import Compatibility


class Heap2007:
    """Running tasks, the next to give way on top; ``misses`` per project may change in the meantime."""

    def __init__(self, running: Sequence[ClientJob], now: float, misses: Sequence[int]) -> None:
        self._items = list(running)
        self._now = now
        self._misses = misses
        self._build()

    def __len__(self) -> int:
        return len(self._items)

    def top(self) -> ClientJob:
        """Return the task to preempt next."""
        return self._items[0]

    def keep(self, job: ClientJob) -> None:
        """Remove a task that continues to run; the heap is rebuilt from the rest, in its order."""
        if job in self._items:
            self._items.remove(job)
            self._build()

    def pop(self) -> ClientJob:
        """Remove the top."""
        items = self._items
        top, last = items[0], items.pop()
        if items:
            self._place(0, last)
        return top

    def _build(self) -> None:
        for k in range(len(self._items) // 2 - 1, -1, -1):
            self._place(k, self._items[k])

    def _place(self, hole: int, job: ClientJob) -> None:
        """Put a job into the heap below ``hole``: the larger children move up, then the job rises to its place."""
        items, top = self._items, hole
        while (child := 2 * hole + 2) <= len(items):
            if child == len(items) or self._before(items[child], items[child - 1]):
                child -= 1
            items[hole] = items[child]
            hole = child
        while hole > top and self._before(items[parent := (hole - 1) // 2], job):
            items[hole] = items[parent]
            hole = parent
        items[hole] = job

    def _before(self, one: ClientJob, other: ClientJob) -> bool:
        return self._rank(one) < self._rank(other)

    def _rank(self, job: ClientJob) -> tuple[bool, float, float]:
        """Return the rank: tasks in deadline trouble highest, then the latest started, then the earliest deadline."""
        trouble = self._misses[job.project] > 0
        return (trouble, 0.0 if trouble else job.run_start - self._now, -job.report_deadline)


#: From this poll on, counted from now, work fetch goes by misses that are found after now.
LAGS = 3
#: Seconds for which it took a minimum buffer of nothing (0.00001 day).
MIN_BUFFER = 0.864


def ways_2007(compatibility: Compatibility) -> Behaviour2007:
    """Return the behaviours that a scenario asks for."""
    faults = compatibility.faults
    return Behaviour2007(
        poll_seconds=compatibility.quantum,
        every_poll=compatibility.every_poll,
        one_contact_reports_all=compatibility.one_contact_reports_all,
        faults=faults,
        line_up=Heap2007 if faults.inverted_preemption else None,
    )


class LiteralPolicy(PublishedPolicy):
    """The published policies as implemented in the code of 2007."""

    enforced_with: list[int]  #: misses as the run list was last enforced with
    enforced_change: (
        bool  #: someone gave way then: the heap upside down may have another on top now, whose slice is over
    )

    def enforce(self, wanted: Sequence[ClientJob]) -> Changes:
        """Return which tasks to start and which to preempt."""
        self.enforced_with = self.memory.misses
        changes = super().enforce(wanted)
        self.enforced_change = bool(changes.preempt)
        return changes


class PollingClient(SimulatedClient):
    """The published family's client with the poll loop of 2007."""

    polled: PolledAccounting  #: the accounts, which can be foreseen
    _seen: dict[int, RoundRobinOutcome]  #: by number of polls from now
    _states: list[DebtState]
    _coming: Iterator[DebtState]
    _waiting: bool

    def __init__(
        self,
        host: HostRun,
        network: Network,
        choice: PolicyChoice,
        rng: random.Random,
        availability: Availability,
        backends: RoundRobinBackends,
    ) -> None:
        ways = ways_2007(host.scenario.compatibility)
        self.policy = LiteralPolicy(choice, rng, availability=availability, ways=ways, backends=backends)
        super().__init__(host, network, choice, self.policy)
        self.state = state = self.core.state
        prefs = state.preferences
        state.preferences = replace(prefs, buffer_min=max(MIN_BUFFER, prefs.buffer_min))
        self.policy.refit()

    def _set_alarm(self) -> None:
        host = self.host
        quantum = host.quantum
        now = host.now
        self.wake = now + quantum
        if not self._may_skip():
            return
        self._seen = {}
        self._states = []
        self._coming = self.polled.foresee(
            quantum=quantum,
            runnable=[bool(p.queue) for p in self.state.projects],
            contactable=[p.not_before <= now for p in self.state.projects],
        )
        event = self._next_certain_event()
        off = host.availability.until
        last = min(event - quantum, off, host.scenario.duration)
        polls = round((last - now) / quantum)
        if polls < 1:
            return
        first = self._first_acting(polls)
        self._jump(first, event if event <= off else off + quantum)

    def _may_skip(self) -> bool:
        """Return whether the next polls can be predicted."""
        if not isinstance(self.policy.debts, PolledAccounting):
            return False
        self.polled = self.policy.debts
        return (
            self.policy.availability == "efficiency"
            and self.host.recorder is None
            and self.network.next_transfer() == NEVER
            and not any(t.app.checkpoint_period for t in self.host.running)
        )

    def _next_certain_event(self) -> float:
        """Return the first poll at which an event is due that does not depend on work fetch."""
        now, quantum = self.host.now, self.host.quantum
        events = [self.host.next_finish()]
        if self.state.jobs or self.state.finished:
            events.append(self.state.last_schedule + self.state.slice)
        running, wanted = self.state.running, self.state.wanted
        self._waiting = len(running) != len(wanted) or not all(job.running for job in wanted)
        if self._waiting:
            # the list is enforced every second poll
            misses = self.policy.memory.misses
            after = max(self.state.look_again, now + quantum)
            if (
                self.policy.enforced_change
                or misses != self.policy.enforced_with
                or any(misses[job.project] for job in wanted if not job.running)
            ):
                after = now + quantum  # then with other eyes
            steps = max(1, math.ceil((after - self.state.last_enforce) / (2.0 * quantum)))
            events.append(self.state.last_enforce + 2.0 * quantum * steps)
        connected = self.state.next_contact(now)
        if connected > now:
            events.append(connected)
        events.extend(p.not_before for p in self.state.projects if p.not_before > now)
        events.append(now + self._until_a_debt_counts())
        overdue = [job.report_at for job in self.state.finished]
        if overdue:
            due = math.floor(min(overdue) / quantum + 1.0) * quantum
            if due > now:
                events.append(due)
        first = min(events)
        if first == NEVER:
            return NEVER
        return max(now + quantum, quantum * math.ceil(first / quantum - 1e-9))

    def _until_a_debt_counts(self) -> float:
        """Return the seconds until some long-term debt passes the overworked limit, at current rates."""
        debts_now = self.policy.debts.long
        floor = -self.policy.prefs.slice_seconds
        if self.choice.work_fetch == 1 or len(debts_now) == 1 or not self.state.running:
            return NEVER
        first = NEVER
        for debt, later in zip(debts_now, self._state(1).long, strict=True):
            pace = (later - debt) / self.host.quantum
            gap = floor - debt
            if abs(gap) < 1e-6:
                gap = 0.0
            if gap * pace > 0.0:
                first = min(first, gap / pace)
            elif gap == 0.0 and pace:
                return 0.0
        return first

    def _first_acting(self, polls: int) -> int:
        """Return the number of the first poll that acts, 0 if none of the next ``polls`` does."""
        first, hopeful = 1, 1
        if not self._needs_every_look(polls):
            if not self._wants(polls):
                return 0
            if self._trouble_only_falls():
                hopeful = polls + 1 if self._blocked(polls) else _first_of(polls, self._not_blocked)
            if hopeful <= polls:
                first = _first_of(polls, self._wants)
        for k in (*range(first, min(polls + 1, LAGS)), *range(max(first, LAGS, hopeful), polls + 1)):
            if self._late_before(k):
                continue
            if self._acts(k):
                return k
        return 0

    def _trouble_only_falls(self) -> bool:
        """Return whether jobs are only expected to end earlier, so that no poll finds more late jobs than before.

        So it is with one project whose first jobs run and need no more than estimated: a second of computing then takes a
        second off what is left, or more, and a second is worth ever more, since the host is on.
        """
        state = self.state
        if len(self.policy.shares) > 1 or self.choice.work_fetch == 1:
            return False
        dcf = self.policy.memory.dcf[0]
        return all(
            job.running and job.raw * dcf >= self._tasks[job.id].size * (1.0 - 1e-9)
            for job in state.jobs[: self.policy.ncpus]
        )

    def _late_before(self, polls: int) -> bool:
        """Return, without simulating that poll, whether the only project then has too many late jobs to be asked."""
        if len(self.policy.shares) > 1 or self._waiting or self.choice.work_fetch == 1:
            return False
        ncpus = self.policy.ncpus
        return self._trouble(polls)[0] >= ncpus <= len(self.state.jobs)

    def _blocked(self, polls: int) -> bool:
        """Return whether the only project will have too many late jobs to be asked at the next poll."""
        ncpus = self.policy.ncpus
        return self._outcome(polls).misses[0] >= ncpus <= len(self.state.jobs)

    def _not_blocked(self, polls: int) -> bool:
        return not self._blocked(polls)

    def _needs_every_look(self, polls: int) -> bool:
        """Return whether the last poll's findings say nothing about those before it."""
        if self._waiting:
            return True  # trouble that comes and goes lets a waiting job start
        if not self.state.may_contact(self.host.now):
            return False
        if self.choice.work_fetch == 1 or len(self.policy.shares) == 1:
            return any(map(self._grows, self.state.running))
        if self.policy.outcome is None:
            return True
        return not (
            self._has_enough(self.policy.outcome, self.policy.debts.long)
            and self._has_enough(self._outcome(polls), self._state(polls).long)
        )

    def _grows(self, job: ClientJob) -> bool:
        """Return whether a job's remaining time rises while it runs, as at first if it is much larger than estimated."""
        size = self._tasks[job.id].size
        part, estimate = job.done / size, job.raw * self.policy.memory.dcf[job.project] / size
        return 1.0 - 2.0 * part > 2.0 * (1.0 - part) * estimate

    def _wants(self, polls: int) -> bool:
        """Return whether work will be missing with no project waiting; it stays so while queues only drain."""
        if self.choice.work_fetch == 1:
            return self._acts(polls)
        if not self.state.may_contact(self.host.now) or len(self.policy.shares) > 1:
            return False
        outcome = self._outcome(polls)
        return outcome.shortfall > 0.0 or outcome.shortfalls[0] > 0.0

    def _jump(self, first: int, event: float) -> None:
        """Go to the first acting poll, or to the event, with the state that the poll before it leaves."""
        quantum = self.host.quantum
        now = self.host.now
        if first == 1:
            return
        self.wake = now + quantum * first if first else event
        before = min(self.wake - quantum, self.host.availability.until, self.host.scenario.duration)
        skipped = round((before - now) / quantum)
        if self.choice.work_fetch != 1:
            self.policy.memory.trouble = self._trouble(skipped)
            self.policy.memory.misses = self._outcome(skipped).misses
        if skipped:
            self.polled.accept(self._state(skipped), before)
        pairs = int((before - self.state.last_enforce) // (2.0 * quantum))
        if pairs > 0:
            self.state.last_enforce += 2.0 * quantum * pairs

    def _trouble(self, polls: int) -> list[int]:
        """Return the misses as of the last enforcement of the run list up to that poll: those of the poll
        before it.
        """
        quantum, now = self.host.quantum, self.host.now
        pairs = int((now + quantum * polls - self.state.last_enforce) // (2.0 * quantum))
        if pairs < 1:
            return self.policy.memory.trouble
        seen_at = round((self.state.last_enforce + 2.0 * quantum * pairs - now) / quantum) - 1
        return self._outcome(seen_at).misses if seen_at > 0 else self.policy.memory.misses

    # -- from afar ----------------------------------------------------------------------------------------------------

    def _outcome(self, polls: int) -> RoundRobinOutcome:
        """Return the result of the round-robin simulation after this many polls."""
        found = self._seen.get(polls)
        if found is None:
            ahead = self._let_pass(polls)
            found = self.policy.look_ahead_2007(self.host.now + ahead, self._state(polls).efficiency)
            self._seen[polls] = found
        return found

    def _let_pass(self, polls: int) -> float:
        """Set the remaining times of the running tasks to their future values; return the seconds until then."""
        ahead = polls * self.host.quantum
        for job in self.state.running:
            done = job.done + ahead
            job.remaining = remaining_2007(
                estimate=job.raw * self.policy.memory.dcf[job.project],
                used=done,
                fraction_done=done / self._tasks[job.id].size,
            )
        return ahead

    def _acts(self, polls: int) -> bool:
        """Return whether the client will then ask for work, or reconsider its run list."""
        now = self.host.now + polls * self.host.quantum
        if self.choice.work_fetch == 1:
            if not self.state.may_contact(now):
                return False
            self._let_pass(polls)
            projects = self.policy.look_at_projects(self._state(polls).long)
            plan = work_fetch.fetch_by_queue(projects, self.policy.memory.shortfalls, prefs=self.policy.prefs)
            return plan.project is not None
        outcome = self._outcome(polls)
        if self._waiting and outcome.misses != self.policy.memory.misses:
            return True
        if outcome.shortfall <= 0.0 and any(outcome.misses):
            return False  # the commonest case, without a look at each project
        if not self.state.may_contact(now):
            return False
        projects = self.policy.look_at_projects(self._state(polls).long)
        urgency = work_fetch.overall_urgency(projects, outcome, prefs=self.policy.prefs)
        if urgency is work_fetch.Urgency.DONT_NEED:
            return False
        plan = work_fetch.fetch_by_shortfall(
            projects,
            outcome,
            prefs=self.policy.prefs,
            misses=self._trouble(polls),
            order_dependent=self.policy.faults.order_dependent_fetch,
            urgency=urgency,
        )
        return plan.project is not None

    def _has_enough(self, outcome: RoundRobinOutcome, long_debts: list[float]) -> bool:
        """Return whether no project is asked because there is enough work, and not by chance.

        A project that falls below its share within the buffer is booked a shortfall only while one of its jobs
        is the next to end, so that its shortfall comes and goes, as deadline trouble does; then every poll must
        be looked at.
        """
        if outcome.shortfall > 0.0:
            return False
        horizon, floor = self.policy.prefs.buffer_total, -self.policy.prefs.slice_seconds
        return not any(
            0.0 <= dry <= horizon and debt > floor
            for dry, debt in zip(outcome.dry_after, long_debts, strict=True)
        )

    def _state(self, polls: int) -> DebtState:
        """Return the accounts after this many polls."""
        while len(self._states) < polls:
            self._states.append(next(self._coming))
        return self._states[polls - 1]


def _first_of(last: int, holds: Callable[[int], bool]) -> int:
    """Return the first poll at which a condition holds that then continues to hold, and holds at the last."""
    before, first = 0, last
    while first - before > 1:
        middle = (before + first) // 2
        if holds(middle):
            first = middle
        else:
            before = middle
    return first
