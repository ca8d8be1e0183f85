"""What our own policy (CS3, WF3) learns from jobs, and the effects on shares, estimates and deadlines."""

from __future__ import annotations

from cobblestone.policy.client.core.state import LONGEST, NEVER, ClientJob, CoreState
from cobblestone.policy.client.core.values import ABSURD_GAP
from cobblestone.policy.client.estimates import DCF_MAX, DCF_MIN
from cobblestone.policy.client.own.history import (
    AppHistory,
    BandReadings,
    JobOutlook,
    PastJob,
    ProgressClaim,
    Trials,
    note_progress,
)
from cobblestone.policy.client.own.lateness import can_be_in_time
from cobblestone.policy.client.own.memory import OwnMemory, ProjectMemory
from cobblestone.policy.client.own.packing import for_cpus
from cobblestone.policy.client.published.round_robin import computation_deadline

#: Standard deviations of bad luck with off-times that the order of deadlines allows for.
EDF_CAUTION = 1.0
#: A caution that changes by less (seconds) leaves deadlines as they are.
SAME_CAUTION = 600.0
#: A project's weight that changes by less leaves its share as it is.
SAME_WEIGHT = 0.01


class Learning:
    """Keeps the memory of projects and jobs, and says what to expect of them."""

    def __init__(self, state: CoreState, memory: OwnMemory, *, waste_aversion: float) -> None:
        self._state = state
        self._memory = memory
        self._waste_aversion = waste_aversion

    def fit(self) -> None:
        """Make room for new projects, and look out again if contacts lie otherwise apart than before."""
        memory, count = self._memory, len(self._state.projects)
        memory.projects += [ProjectMemory() for _ in range(count - len(memory.projects))]
        more = count - len(memory.outlooks)
        memory.outlooks += [JobOutlook()] * more
        memory.cautions += [0.0] * more
        memory.outlook_of += [None] * more
        interval = self._state.preferences.connection_interval
        if memory.interval != interval:
            memory.interval = interval
            memory.outlook_of = [None] * count

    def forget(self, project: int) -> None:
        """Forget a project."""
        memory = self._memory
        for column in (memory.projects, memory.outlooks, memory.outlook_of, memory.cautions):
            del column[project]

    def off(self, seconds: float) -> None:
        """Learn from a time off, unless it is so long that the clock may be wrong."""
        if seconds > ABSURD_GAP:
            return
        memory, clock = self._memory, self._state.clock
        memory.interruptions = memory.interruptions.after_gap(
            on_seconds=clock - memory.gap_clock, gap_seconds=seconds
        )
        memory.gap_clock = clock

    # -- jobs ---------------------------------------------------------------------------------------------------------

    def typical(self, job: ClientJob) -> bool:
        """Tell whether a job says what to expect of its project's next ones: on CPUs, unless it has work for GPUs only."""
        return not job.always_runs and bool(job.gpu) != for_cpus(self._state.projects[job.project])

    def history(self, job: ClientJob) -> AppHistory:
        """Return what is known of jobs of the same project, app and device."""
        return self._memory.projects[job.project].apps.get(_app_key(job)) or AppHistory()

    def note_trials(self, job: ClientJob, trials: Trials) -> None:
        """Remember how far the progress that jobs like this one report is believed."""
        self._memory.projects[job.project].apps[_app_key(job)] = self.history(job).with_trials(trials)

    def expected(self, job: ClientJob, outlook: JobOutlook) -> float:
        """Return what a job that has not begun probably needs, in CPU seconds."""
        if self.typical(job):
            return min(job.raw * outlook.by_app.get(job.app_name, outlook.correction), LONGEST)
        need = self.history(job).need(estimate=job.raw, used=0.0, fraction=None)
        return min(need.likely, LONGEST)

    def remaining(self, job: ClientJob) -> float:
        """Return what a job that has begun probably still needs, in CPU seconds, and note its progress."""
        fraction = job.fraction_done
        note_progress(self._memory.progress.setdefault(job.serial, {}), job.done, fraction)
        likely = self.history(job).need(estimate=job.raw, used=job.done, fraction=fraction).likely
        return min(max(1.0, likely), LONGEST)

    def note_delivery(self, job: ClientJob) -> None:
        """Take note of a job that its project has sent."""
        known = self._memory.projects[job.project]
        known.history = known.history.after_delivery(estimate=job.raw, latency_bound=bound_of(job))

    def after_job(
        self, job: ClientJob, elapsed: float, readings: dict[int, BandReadings], claim: ProgressClaim | None
    ) -> None:
        """Remember what a job needed that has ended well, and whether its progress had told the truth."""
        ratio = elapsed / job.raw if job.raw > 0.0 else 1.0
        history = self.history(job).after_job(ratio, tuple(readings.values()), elapsed)
        if claim is not None:
            history = history.with_trials(history.trials.after_trial(claim, elapsed, ended=True))
        self._memory.projects[job.project].apps[_app_key(job)] = history
        self._remember(job, PastJob(elapsed, job.raw, bound_of(job), app=job.app_name))

    def after_giving_up(self, job: ClientJob, claim: ProgressClaim | None) -> None:
        """Remember a job that was given up."""
        if claim is not None:
            self.note_trials(job, self.history(job).trials.after_trial(claim, job.done, ended=False))
        size = job.done + job.remaining
        self._remember(job, PastJob(size, job.raw, bound_of(job), given_up=True, app=job.app_name))

    def _remember(self, job: ClientJob, past: PastJob) -> None:
        if self.typical(job):
            known = self._memory.projects[job.project]
            known.history = known.history.after_job(past)

    # -- projects -----------------------------------------------------------------------------------------------------

    def book(self, i: int, seconds: float, *, useful: bool) -> None:
        """Take note of what came of a project's time."""
        known = self._memory.projects[i]
        known.worth = known.worth.after_job(seconds, useful=useful, now=self._state.now)

    def new_share(self, i: int, share: float) -> float | None:
        """Return the share that a project should have by what comes of its time; None if ``share`` is near enough."""
        full = self._memory.full_shares[i]
        new = full * self._memory.projects[i].worth.weight(waste_aversion=self._waste_aversion)
        return None if abs(new - share) < SAME_WEIGHT * full else new

    def look_out(self, i: int) -> bool:
        """Work out what is to be expected of a project's jobs; False if nothing was learned since the last time."""
        memory = self._memory
        interruptions, margin = memory.interruptions, memory.interval
        history = memory.projects[i].history
        if memory.outlook_of[i] == (history, interruptions):
            return False
        memory.outlook_of[i] = (history, interruptions)
        before = memory.outlooks[i]
        memory.outlooks[i] = found = history.outlook(
            lambda computing, bound: can_be_in_time(computing, bound - margin, interruptions)
        )
        # rounded down, since a job that just fits would be refused for the last digit of a sum
        memory.dcf[i] = min(DCF_MAX, max(DCF_MIN, found.correction * (1.0 - 1e-8)))
        caution = self._caution(i)
        if found.hopeless != before.hopeless or abs(caution - memory.cautions[i]) > SAME_CAUTION:
            memory.cautions[i] = caution
            for job in self._state.projects[i].queue:
                job.cutoff = self.latest_end(job)
        return True

    def latest_end(self, job: ClientJob) -> float:
        """Return until when a job should be computed; one that cannot be in time does not press."""
        typical = self.typical(job)
        if typical and self._memory.outlooks[job.project].hopeless:
            return NEVER
        end = computation_deadline(
            job.report_deadline,
            buffer_min=self._state.preferences.buffer_min,
            slice_seconds=self._state.slice,
        )
        return end - self._memory.cautions[job.project] if typical else end

    def _caution(self, i: int) -> float:
        """Return how much earlier than its deadline a project's job should be ready, since off-times vary."""
        memory = self._memory
        busy, bound = memory.outlooks[i].busy, memory.projects[i].history.latency_bound
        wall = memory.interruptions.wall_seconds
        return min(wall(busy, deviations=EDF_CAUTION) - wall(busy), 0.5 * max(0.0, bound))


def _app_key(job: ClientJob) -> str:
    """Return under which name a project's jobs like this one are remembered."""
    return f"{job.app_name}|{job.gpu}" if job.gpu else job.app_name


def bound_of(job: ClientJob) -> float:
    """Return a job's latency bound, to the millisecond, since it is worked out of two times."""
    return round(job.report_deadline - job.received, 3)
