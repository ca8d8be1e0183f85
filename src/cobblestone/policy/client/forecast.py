"""A forecast by the policy's own decisions: the core is run forward in virtual time, without surprises.

Each job takes as long as it is expected to take now, it can be stopped without loss, what is allowed now stays allowed, and
no further work arrives.  What comes out is what the client would do then, whatever its policy.
"""

from __future__ import annotations

from collections.abc import Iterable

from cobblestone.domain.values import value
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.state import NEVER, ClientJob, Phase
from cobblestone.policy.client.core.values import Reading
from cobblestone.policy.client.estimates import remaining_elapsed

#: Seconds: a policy that wants to look again at once is let wait so long.
LEAST_STEP = 1.0
#: Rounds of decisions at one moment; a policy that wants more gets its way at the next step.
MAX_ROUNDS = 50


@value(kw_only=True)
class PlannedRun:
    """A time without interruption in which a job will run; seconds since the same moment as those of the core."""

    job: str
    begin: float
    end: float
    finishes: bool = False  #: it will be computed then
    late: bool = False  #: ... and too late for its report


def forecast(core: ClientCore, *, now: float, horizon: float, most_steps: int) -> list[PlannedRun]:
    """Return the runs within ``horizon`` seconds from ``now`` on, by start; fewer if ``most_steps`` is reached first.

    The core is used up: hand over a copy.
    """
    return _World(core, now, horizon).play(most_steps)


def expected_left(job: ClientJob) -> float:
    """Return the elapsed seconds that a job still needs; policies refresh their own figure only when they look at it."""
    if not job.done and not job.fraction_done:
        return job.remaining
    return remaining_elapsed(
        estimate=job.raw,
        elapsed=job.done,
        fraction_done=job.fraction_done,
        elapsed_at_fraction=job.fraction_at,
        exact_fraction=job.exact_fraction,
    )


class _World:
    """Everything that surrounds the core."""

    def __init__(self, core: ClientCore, now: float, horizon: float) -> None:
        self._core = core
        self._horizon = horizon
        self.now = max(now, core.state.now)
        self.end = self.now + horizon
        self._first = core.handle(ev.TimePassed(self.now))
        self._left = {job.id: max(1.0, expected_left(job)) for job in core.state.jobs}
        self._done = {job.id: job.done for job in core.state.jobs}
        self._deadlines = {job.id: job.report_deadline for job in core.state.jobs}
        starting = {each.job for each in self._first if isinstance(each, ev.StartTask)}
        running = [job.id for job in core.state.running if job.id not in starting]
        self._running = dict.fromkeys(running, self.now)  # since when
        self.planned: list[PlannedRun] = []

    def play(self, most_steps: int) -> list[PlannedRun]:
        state = self._core.state
        begin: list[ev.Event] = [
            ev.TaskStopped(self.now, job.id) for job in state.jobs if job.phase is Phase.QUITTING
        ]
        under_way = [each.project for each in (state.contact, *state.slow) if each is not None]
        begin += map(self._answer, under_way)
        self._tell([*begin, *self._carry_out(self._first)])
        for _ in range(most_steps):
            if self.now >= self.end or not self._running:
                break
            self._step()
        for name in list(self._running):
            self._stop(name)
        return sorted(self.planned, key=lambda run: (run.begin, run.job))

    def _step(self) -> None:
        soonest = min(self._left[name] for name in self._running)
        alarm = max(self._core.state.alarm, self.now + LEAST_STEP)
        to = min(self.end, self.now + soonest, alarm)
        seconds, self.now = to - self.now, to
        for name in self._running:
            self._done[name] += seconds
            self._left[name] -= seconds
        events: list[ev.Event] = [ev.JobProgressed(to, tuple(map(self._reading, self._running)))]
        for name in [name for name in self._running if self._left[name] <= 1e-6]:
            self._stop(name, finishes=True)
            events.append(ev.JobFinished(to, name, self._done[name]))
        self._tell([*events, ev.TimePassed(to)])

    def _reading(self, name: str) -> Reading:
        done = self._done[name]
        return Reading(name, done, done / (done + self._left[name]), self.now, done)

    def _tell(self, events: list[ev.Event]) -> None:
        for _ in range(MAX_ROUNDS):
            if not events:
                return
            events = list(self._carry_out(self._core.handle(*events)))

    def _carry_out(self, instructions: Iterable[ev.Instruction]) -> Iterable[ev.Event]:
        for each in instructions:
            if isinstance(each, ev.StartTask):
                self._running.setdefault(each.job, self.now)
            elif isinstance(each, ev.SuspendTask):
                self._stop(each.job)
            elif isinstance(each, ev.QuitTask):
                self._stop(each.job)
                yield ev.TaskStopped(self.now, each.job)
            elif isinstance(each, ev.GiveUp):
                self._stop(each.job)
                yield ev.JobFailed(self.now, each.job, self._done.get(each.job, 0.0))
            elif isinstance(each, ev.ContactProject):
                yield self._answer(each.project)

    def _answer(self, project: str) -> ev.ReplyReceived:
        """Answer that a project has nothing more."""
        return ev.ReplyReceived(self.now, project, request_delay=self._horizon)

    def _stop(self, name: str, *, finishes: bool = False) -> None:
        begin = self._running.pop(name, NEVER)
        if begin < self.now:
            late = finishes and self.now > self._deadlines[name]
            self.planned.append(PlannedRun(job=name, begin=begin, end=self.now, finishes=finishes, late=late))
