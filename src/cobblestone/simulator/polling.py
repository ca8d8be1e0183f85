"""The client of 2007 as it really was: it looks at everything every 60 seconds.

Almost no poll changes anything.  So after each poll that did, the next ones are only looked at from afar: if
the last poll before the next certain event (a job's end, the end of a time slice, the host going off) would
not ask anybody for work, those before it would not either, since queues only drain in the meantime; if it
would, the first poll that does is searched by halving.  The result is the same, to the last random number, as
polling (a property test compares them).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from cobblestone.policy.client import work_fetch
from cobblestone.policy.client.estimates import remaining_2007
from cobblestone.policy.client.round_robin import RoundRobinOutcome
from cobblestone.policy.client.work_fetch import FetchProject
from cobblestone.simulator.accounts import BookState, PolledAccounts
from cobblestone.simulator.classic import ClassicClient
from cobblestone.simulator.engine import NEVER
from cobblestone.simulator.task import Task


@dataclass(slots=True)
class _Outlook:
    """What the client will find at a poll to come, if nothing happens before."""

    acts: bool  #: it will ask for work, or look at its run list with other eyes
    misses: list[int]
    steady: bool = False  #: it does not ask, and if that is so at both ends of a span, none inside it asks either


class PollingClient(ClassicClient):
    """The published family's client with the poll loop of 2007."""

    accounts: PolledAccounts
    _seen: dict[int, _Outlook]
    _states: list[BookState]
    _coming: Iterator[BookState]
    _waiting: bool

    def _set_alarm(self) -> None:
        host = self.host
        quantum = host.quantum
        now = host.now
        self.wake = now + quantum
        if not self._may_skip():
            return
        self._seen = {}
        self._states = []
        self._coming = self.accounts.foresee(
            quantum=quantum,
            runnable=[bool(q) for q in self.queues],
            contactable=[at <= now for at in self.not_before],
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
        """Tell whether the polls to come can be foreseen."""
        tasks = self.host.running
        return (
            self.by_efficiency
            and self.host.recorder is None
            and self.network.next_arrival() == NEVER
            and not any(t.app.checkpoint_period for t in tasks)
            and self.choice.work_fetch < 3
        )

    def _next_certain_event(self) -> float:
        """Return the first poll at which something is due that does not depend on work fetch."""
        now, quantum = self.host.now, self.host.quantum
        events = [self.host.next_finish()]
        if self.jobs or self.finished:
            events.append(self.last_schedule + self.slice)
        running = self.host.running
        self._waiting = len(running) != len(self.wanted) or not all(t.running for t in self.wanted)
        if self._waiting:
            # the list is enforced every second poll
            after = max(self.look_again, now + quantum)
            if any(self.misses[t.project] for t in self.wanted if not t.running):
                after = now + quantum
            steps = max(1, math.ceil((after - self.last_enforce) / (2.0 * quantum)))
            events.append(self.last_enforce + 2.0 * quantum * steps)
        connected = self.network.next_contact(now)
        if connected > now:
            events.append(connected)
        events.extend(at for at in self.not_before if at > now)
        events.append(now + self._until_a_debt_counts())
        overdue = [t.report_at for t in self.finished]
        if overdue:
            due = math.floor(min(overdue) / quantum + 1.0) * quantum
            if due > now:
                events.append(due)
        first = min(events)
        if first == NEVER:
            return NEVER
        return max(now + quantum, quantum * math.ceil(first / quantum - 1e-9))

    def _until_a_debt_counts(self) -> float:
        """Return the seconds until some long-term debt passes the limit of being overworked, as things go."""
        debts_now = self.accounts.long
        floor = -self.prefs.slice_seconds
        if self.choice.work_fetch == 1 or len(debts_now) == 1 or not self.host.running:
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
        end = self._look(polls)
        several = len(self.shares) > 1
        if several and self.choice.work_fetch != 1 and self.network.may_contact(self.host.now):
            begin = self.outcome is not None and self._is_steady(self.outcome, self.accounts.long)
            if end.acts or not begin or not end.steady:
                return next((k for k in range(1, polls + 1) if self._look(k).acts), 0)
        if not end.acts:
            return 0
        low, high = 0, polls
        while high - low > 1:
            middle = (low + high) // 2
            if self._look(middle).acts:
                high = middle
            else:
                low = middle
        return high

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
            self.trouble = self._trouble(skipped)
            self.misses = self._look(skipped).misses
        if skipped:
            self.accounts.accept(self._state(skipped), before)
        pairs = int((before - self.last_enforce) // (2.0 * quantum))
        if pairs > 0:
            self.last_enforce += 2.0 * quantum * pairs

    def _trouble(self, polls: int) -> list[int]:
        """Return the misses as of the last enforcement of the run list up to that poll: those of the poll
        before it.
        """
        quantum, now = self.host.quantum, self.host.now
        pairs = int((now + quantum * polls - self.last_enforce) // (2.0 * quantum))
        if pairs < 1:
            return self.trouble
        seen_at = round((self.last_enforce + 2.0 * quantum * pairs - now) / quantum) - 1
        return self._look(seen_at).misses if seen_at > 0 else self.misses

    # -- from afar ----------------------------------------------------------------------------------------------------

    def _look(self, polls: int) -> _Outlook:
        found = self._seen.get(polls)
        if found is None:
            found = self._seen[polls] = self._foresee(polls)
        return found

    def _foresee(self, polls: int) -> _Outlook:
        """Say what the client will find after so many polls."""
        ahead = polls * self.host.quantum
        now = self.host.now + ahead
        for task in self.host.running:
            task.remaining = self._remaining_after(task, ahead)
        if self.choice.work_fetch == 1:
            acts = self.network.may_contact(now) and (
                work_fetch.fetch_by_queue(self.fetch_projects(self._state(polls).long), self.shortfalls, prefs=self.prefs).project
                is not None
            )
            return _Outlook(acts, self.misses)
        state = self._state(polls)
        outcome = self._round_robin_2007(now, state.efficiency)
        misses = outcome.misses
        if self._waiting and misses != self.misses:
            return _Outlook(True, misses)
        if not self.network.may_contact(now):
            return _Outlook(False, misses)
        projects = self.fetch_projects(state.long)
        steady = self._is_steady(outcome, state.long)
        return _Outlook(self._would_fetch(polls, outcome, projects), misses, steady)

    def _is_steady(self, outcome: RoundRobinOutcome, long_debts: list[float]) -> bool:
        """Tell whether nobody is asked because there is enough of everything, and not by chance.

        A project that falls below its share within the buffer is booked a shortfall only while one of its jobs
        is the next to end, so that its shortfall comes and goes, as deadline trouble does; then every poll must
        be looked at.
        """
        if outcome.shortfall > 0.0:
            return False
        horizon, floor = self.prefs.buffer_total, -self.prefs.slice_seconds
        for dry, debt in zip(outcome.dry_after, long_debts, strict=True):
            if 0.0 <= dry <= horizon and debt > floor:
                return False
        return True

    def _would_fetch(self, polls: int, outcome: RoundRobinOutcome, projects: list[FetchProject]) -> bool:
        misses = outcome.misses
        if work_fetch.overall_urgency(projects, outcome, prefs=self.prefs) is work_fetch.Urgency.DONT_NEED:
            return False
        trouble = misses
        if any(misses) or any(self.trouble) or any(self.misses):
            self._seen[polls] = _Outlook(False, misses)  # its own misses may be asked for
            trouble = self._trouble(polls)
            del self._seen[polls]
        plan = work_fetch.fetch_by_shortfall(
            projects,
            outcome,
            prefs=self.prefs,
            misses=trouble,
            order_dependent=self.faults.order_dependent_fetch,
        )
        return plan.project is not None

    def _remaining_after(self, task: Task, ahead: float) -> float:
        done = task.done + ahead
        return remaining_2007(
            estimate=task.raw * self.dcf[task.project], used=done, fraction_done=done / task.size
        )

    def _state(self, polls: int) -> BookState:
        """Return the accounts after so many polls."""
        while len(self._states) < polls:
            self._states.append(next(self._coming))
        return self._states[polls - 1]
