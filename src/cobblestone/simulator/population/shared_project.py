"""A project whose jobs are shared by many hosts: the server side of a population run.

The rules are the project server's own: `choose_work` says which results a request gets, `judge_report` what a
report means, `next_transition` and `judge` what happens to a workunit (see `stages`), `learn_run_times` how fast
its host is.  Nothing is stored, and daemons work as soon as a contact is over.  What has no meaning here is left
out: files, platforms, credit.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cobblestone.domain.apps import ANY_PLATFORM, App, AppVersion
from cobblestone.domain.hosts import Host
from cobblestone.domain.values import (
    AppId,
    AppVersionId,
    HostId,
    ResultId,
    WorkunitId,
    changed,
    float_sum,
    form_of,
)
from cobblestone.domain.work import (
    ExitStatus,
    JobLimits,
    Outcome,
    ReplicationRules,
    ResultClientState,
    ValidateState,
    Workunit,
)
from cobblestone.policy.credit.claims import ClaimInput
from cobblestone.policy.dispatch.catalogue import Assignment, Candidate, Catalogue
from cobblestone.policy.dispatch.choose import choose_work
from cobblestone.policy.dispatch.limits import INITIAL_PART, DispatchLimits, after_valid
from cobblestone.policy.dispatch.reports import ReportContext, ResultReport, judge_report
from cobblestone.policy.dispatch.request import WorkRequest
from cobblestone.policy.lifecycle.states import WorkunitView, is_unsent
from cobblestone.simulator.host.books import SimTask
from cobblestone.simulator.population.learned_speeds import LearnedSpeeds
from cobblestone.simulator.population.stages import NOW, Stage, Step, looked_at, reported, sent
from cobblestone.simulator.world.distributions import Streams
from cobblestone.simulator.world.scenario import AppModel, ProjectModel, pick_weighted


@dataclass(slots=True)
class SimResult:
    """What is known of a result beside its workunit's stage."""

    id: ResultId
    host_id: HostId = HostId(0)
    app_version_id: AppVersionId = AppVersionId(0)
    peak_flops: float = 0.0
    sent_time: float = 0.0
    deadline: float = math.inf
    elapsed_time: float = 0.0
    received_time: float = 0.0


@dataclass(slots=True)
class SimWorkunit:
    """A workunit in progress."""

    id: WorkunitId
    stage: Stage
    app: int  #: place among the project's apps
    flops: float  #: true size, the same for every host
    results: list[SimResult] = field(default_factory=list[SimResult])  #: by their numbers in the stage
    spent: dict[ResultId, float] = field(default_factory=dict[ResultId, float])  #: FLOPs of reported results
    out: int = 0  #: results sent and not reported yet
    first_sent: float = -1.0
    check_at: float = math.inf  #: when it is to be processed next

    @property
    def gone(self) -> bool:
        """Return whether it is over and no host works on it."""
        return self.stage.over and not self.out


@dataclass(slots=True)
class ProjectTally:
    """Everything that the project counts.  FLOPs are at peak speed, as in the hosts' books."""

    rpcs: int = 0
    asking: int = 0  #: of those, with a request for work
    empty: int = 0  #: of those, without an answer to it
    sent: int = 0  #: results given to hosts
    reported: int = 0
    errors: int = 0  #: reported as failed
    late: int = 0  #: reported after the deadline
    timed_out: int = 0  #: deadlines that passed without a report
    due: int = 0  #: results sent whose deadline is before the end of the run
    abandoned: int = 0  #: results of finished workunits reported when no one wanted them any more
    workunits: int = 0
    done: int = 0  #: with a canonical result
    failed: int = 0  #: given up
    wrong: int = 0  #: with a canonical result that is wrong
    waited: float = 0.0  #: seconds that contacts stood in the scheduler's queue, added up
    longest_wait: float = 0.0
    refused: int = 0  #: contacts that stood there too long to get work
    valid: int = 0
    needed_flops: float = 0.0  #: in the results that made the quorum
    spare_flops: float = 0.0  #: in valid results beyond the quorum
    late_flops: float = 0.0  #: in results that came when the answer was settled, or never agreed
    error_flops: float = 0.0  #: in failed results
    invalid_flops: float = 0.0
    result_seconds: float = 0.0  #: sum from sending to report
    first_sent: float = math.inf  #: when the first result was sent
    last_done: float = 0.0  #: when a workunit got its canonical result last
    turnarounds: list[float] = field(default_factory=list[float])  #: first sent ... canonical, per workunit
    rpcs_by_hour: dict[int, int] = field(default_factory=dict[int, int])
    done_by_day: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def reported_flops(self) -> float:
        """Return the FLOPs of all reports; the sum over their outcomes."""
        return self.needed_flops + self.spare_flops + self.late_flops + self.error_flops + self.invalid_flops


class SharedProject:
    """The rows of one project, and the daemons that work on them."""

    def __init__(self, model: ProjectModel, streams: Streams, *, until: float) -> None:
        """Start without work; the run ends at ``until`` (seconds)."""
        self.model = model
        self._until = until
        self.rules = model.server
        self.tally = ProjectTally()
        self.jobs: dict[WorkunitId, SimWorkunit] = {}
        self._sizes = streams.stream("jobs", model.name)
        self._weights = tuple(a.weight for a in model.apps)
        self._ids: Iterator[ResultId] = map(ResultId, itertools.count(1))
        self._unsent: dict[int, OrderedDict[ResultId, Candidate]] = {}
        self._timers: list[tuple[float, WorkunitId]] = []
        self._processes = [0.0] * self.rules.processes  #: when each will be free
        self._made = 0
        self._speeds = LearnedSpeeds()
        self.records = self._speeds.records
        self._limits = form_of(
            DispatchLimits,
            self.rules,
            # what a new host begins with: the part of the quota that is the server's default
            daily_quota_init=max(self.rules.daily_quota // INITIAL_PART, 1) if self.rules.first_jobs else 0,
            one_result_per_user_per_wu=False,
            one_result_per_host_per_wu=True,
        )
        target = max(self.rules.min_quorum, self.rules.target_results)
        replication = form_of(ReplicationRules, self.rules, target_nresults=target)
        apps = {AppId(i + 1): App(id=AppId(i + 1), name=a.name) for i, a in enumerate(model.apps)}
        self._catalogue = Catalogue(
            apps=apps,
            versions={
                i: (AppVersion(id=AppVersionId(i), app_id=i, platform=ANY_PLATFORM, version_num=100),)
                for i in apps
            },
            peak_flop_counts=self._speeds.peak_flop_counts,
        )
        self._luck = streams.stream("dispatch", model.name)
        self._results: dict[ResultId, tuple[SimWorkunit, ResultId]] = {}  #: by id, with the number in it
        #: of each app, the stage of a workunit that was just made
        self._first = [
            Stage(WorkunitView(workunit=_workunit(number, app, replication)), frozenset())
            for number, app in enumerate(model.apps, 1)
        ]

    # -- supply -------------------------------------------------------------------------------------------------------

    def _supply(self, now: float) -> int:
        """Return how many workunits may exist by now."""
        rules = self.rules
        allowed = 1 << 62 if rules.workunits == 0 else rules.workunits
        if rules.workunits_per_day > 0.0:
            allowed = min(allowed, int(rules.workunits_per_day * now / 86400.0) + 1)
        return allowed

    def _make_workunit(self, now: float) -> SimWorkunit:
        number = self._made
        self._made += 1
        index = pick_weighted(self._weights, self._sizes.random()) if len(self._weights) > 1 else 0
        flops = self.model.apps[index].sizes.draw(self._sizes)
        job = SimWorkunit(WorkunitId(number + 1), self._first[index], index, flops)
        self.jobs[job.id] = job
        self.tally.workunits += 1
        self._work_on(job, now)
        return job

    def _candidates(self, now: float) -> Iterator[Candidate]:
        """Yield unsent results by priority, then age; make workunits when they run out.

        Never more than the feeder has slots: a host that may get nothing would otherwise look for ever.
        """
        slots = self.rules.feeder_slots
        for priority in sorted(self._unsent, reverse=True):
            for candidate in itertools.islice(self._unsent[priority].values(), slots):
                slots -= 1
                yield candidate
        while slots > 0 and self._made < self._supply(now):
            job = self._make_workunit(now)
            slots -= len(job.results)
            for row, result in zip(job.stage.view.results, job.results, strict=True):
                yield self._unsent[row.priority][result.id]

    # -- daemons ------------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Process the workunits that are due."""
        while self._timers and self._timers[0][0] <= now:
            at, workunit_id = heapq.heappop(self._timers)
            job = self.jobs.get(workunit_id)
            if job is not None and job.check_at == at:
                self._work_on(job, at)

    def _work_on(self, job: SimWorkunit, now: float) -> None:
        """Run transitioner, validator and assimilator until nothing is left to do now."""
        results, before = job.results, job.stage
        late = tuple([each for each in before.in_progress if results[each].deadline <= now])
        step = looked_at(before, late, out=bool(job.out))
        stage = job.stage = step.stage
        for row in stage.view.results[len(results) :]:
            results.append(SimResult(next(self._ids)))
            self._results[results[row.id].id] = job, row.id
            if not is_unsent(row):
                continue
            self._unsent.setdefault(row.priority, OrderedDict())[results[row.id].id] = form_of(
                Candidate,
                row,
                result_id=results[row.id].id,
                result_name=row.name,
                workunit_id=job.id,
                workunit_name=f"w{job.id}",
                limits=stage.view.workunit.limits,
            )
        for each in before.unsent:
            if each not in stage.unsent:
                del self._unsent[stage.view.results[each].priority][results[each].id]
        self._note(job, step, now)
        check = stage.view.workunit.transition_time
        times = (
            [] if check is None else [now + check, *[results[each].deadline for each in stage.in_progress]]
        )
        job.check_at = min(times, default=math.inf)
        if job.gone:
            self._forget(job)
        elif job.check_at < math.inf:
            heapq.heappush(self._timers, (job.check_at, job.id))

    def _note(self, job: SimWorkunit, step: Step, now: float) -> None:
        """Raise or lower the quotas of hosts, as validator and transitioner do, learn their speeds, and count."""
        for change, numbers in step.rated:
            results = [job.results[each] for each in numbers]
            for each in results:
                mine, version = self.records[each.host_id], each.app_version_id
                mine[version] = change(mine[version], self.rules.daily_quota)
            if change is after_valid:
                claims = [form_of(ClaimInput, each, result_id=each.id) for each in results]
                self._speeds.learn(step.stage.view.workunit.limits, claims)
        tally = self.tally
        tally.timed_out += step.timed_out
        if step.canonical is None:
            return
        tally.done += 1
        tally.last_done = now
        tally.wrong += step.canonical in step.stage.wrong
        tally.turnarounds.append(now - job.first_sent)
        day = int(now // 86400.0)
        tally.done_by_day[day] = tally.done_by_day.get(day, 0) + 1

    def _forget(self, job: SimWorkunit) -> None:
        """Book the outcomes of a workunit's results once no host works on it."""
        tally = self.tally
        view = job.stage.view
        quorum = view.workunit.rules.min_quorum
        tally.failed += bool(view.workunit.error_mask)
        rows = zip(view.results, job.results, strict=True)
        for row, result in sorted(rows, key=lambda each: each[1].received_time):
            del self._results[result.id]
            flops = job.spent.get(result.id)
            if flops is None:
                continue
            if row.outcome is not Outcome.SUCCESS:
                tally.error_flops += flops
            elif row.validate_state is ValidateState.INVALID:
                tally.invalid_flops += flops
            elif row.validate_state is not ValidateState.VALID:
                tally.late_flops += flops
            else:
                tally.valid += 1
                if quorum > 0:
                    tally.needed_flops += flops
                    quorum -= 1
                else:
                    tally.spare_flops += flops
        del self.jobs[job.id]

    def close(self) -> float:
        """Return the FLOPs in reports of workunits unfinished at the end."""
        return float_sum(float_sum(job.spent.values()) for job in self.jobs.values())

    # -- contacts -----------------------------------------------------------------------------------------------------

    def contact(self, now: float) -> bool:
        """Wait in the scheduler's queue; return whether that was short enough for a request for work."""
        self.tally.rpcs += 1
        hour = int(now // 3600.0)
        self.tally.rpcs_by_hour[hour] = self.tally.rpcs_by_hour.get(hour, 0) + 1
        self.advance(now)
        self._speeds.look_at_versions(now)
        if self.rules.service_seconds <= 0.0:
            return True
        begin = max(now, heapq.heappop(self._processes))
        wait = begin - now
        in_time = wait <= self.rules.longest_wait
        heapq.heappush(self._processes, begin + self.rules.service_seconds if in_time else begin)
        self.tally.waited += min(wait, self.rules.longest_wait)
        self.tally.longest_wait = max(self.tally.longest_wait, min(wait, self.rules.longest_wait))
        self.tally.refused += not in_time
        return in_time

    def choose(self, request: WorkRequest, now: float) -> Sequence[Assignment]:
        """Return what a host gets for a request, and count it in its records; :meth:`send` carries it out."""
        self.tally.asking += 1
        host = request.host.id

        def at_host(ids: Sequence[WorkunitId]) -> frozenset[WorkunitId]:
            return frozenset(
                each for each in ids if any(result.host_id == host for result in self.jobs[each].results)
            )

        decision = choose_work(
            request,
            self._candidates(now),
            self._catalogue,
            limits=self._limits,
            already_at_host=at_host,
            now=now,
            rng=self._luck,
        )
        self.records[host].update({record.app_version_id: record for record in decision.records})
        return decision.assignments

    def send(self, offer: Assignment, host: Host, now: float) -> SimWorkunit:
        """Send a result to a host."""
        candidate = offer.candidate
        del self._unsent[candidate.priority][candidate.result_id]
        job, number = self._results[candidate.result_id]
        due = offer.report_deadline
        job.stage = sent(job.stage, number)
        job.results[number] = SimResult(
            candidate.result_id, host.id, offer.version.id, offer.usage.peak_flops, now, due
        )
        job.out += 1
        if job.first_sent < 0.0:
            job.first_sent = now
        self.tally.sent += 1
        self.tally.due += due <= self._until
        self.tally.first_sent = min(self.tally.first_sent, now)
        self._look_by(job, due)
        return job

    def _look_by(self, job: SimWorkunit, at: float) -> None:
        """Schedule a workunit to be processed by then."""
        if job.check_at > at:
            job.check_at = at
            heapq.heappush(self._timers, (at, job.id))

    def take_report(self, task: SimTask, host: Host, *, wrong: bool, now: float) -> None:
        """Judge a report; the daemons process it after the contact, so that the reply does not reflect it yet."""
        job, number = self._results[ResultId(task.number)]
        result, records = job.results[number], self.records[host.id]
        row = changed(job.stage.view.results[number], host_id=result.host_id, sent_time=result.sent_time)
        report = ResultReport(
            name=row.name,
            state=ResultClientState.COMPUTE_ERROR if task.failed else ResultClientState.FILES_UPLOADED,
            exit_status=ExitStatus.ABORTED_BY_USER if task.given_up else int(task.failed),
            cpu_time=task.done,
            elapsed_time=task.done,
        )
        decision = judge_report(
            report,
            ReportContext(result=row, record=records.get(result.app_version_id), host_owner=host.user_id),
            host_id=host.id,
            user_id=host.user_id,
            daily_quota=self.rules.daily_quota,
            daily_quota_init=self._limits.daily_quota_init,
            now=now,
        )
        if decision.record is not None:
            records[decision.record.app_version_id] = decision.record
        tally = self.tally
        tally.reported += 1
        tally.result_seconds += now - task.received
        tally.late += now > task.report_deadline
        tally.errors += task.failed
        job.out -= 1
        job.spent[result.id] = min(task.done, task.limit) * task.peak
        accepted = decision.accepted
        if accepted is None:
            tally.abandoned += 1
            if job.gone:
                self._forget(job)
            return
        told = changed(accepted, cpu_time=NOW, elapsed_time=NOW, received_time=NOW)
        job.stage = reported(job.stage, number, told, wrong=wrong)
        result.elapsed_time, result.received_time = accepted.elapsed_time, accepted.received_time
        self._look_by(job, now + self.rules.daemon_seconds)


def _workunit(number: int, app: AppModel, rules: ReplicationRules) -> Workunit:
    limits = JobLimits(
        rsc_fpops_est=app.flops_estimate,
        rsc_fpops_bound=1e30,
        rsc_memory_bound=0.0,
        rsc_disk_bound=0.0,
        delay_bound=app.latency_bound,
    )
    return Workunit(id=WorkunitId(0), name="w", app_id=AppId(number), limits=limits, rules=rules)
