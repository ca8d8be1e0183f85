"""A project whose jobs are shared by many hosts: the server side of a population run.

The rules are the project server's own: `choose_work` says which results a request gets, `judge_report` what a
report means, `next_transition` what happens to a workunit (retries after errors and time-outs, failure),
`judge` which result is canonical, `learn_run_times` how fast its host is.  Nothing is stored, and daemons work as
soon as a contact is over.  What has no meaning here is left out: files, platforms, credit.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from cobblestone.domain.apps import ANY_PLATFORM, App, AppVersion
from cobblestone.domain.hosts import Host, HostAppVersion
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, WorkunitId, changed, float_sum
from cobblestone.domain.work import (
    AssimilateState,
    ExitStatus,
    JobLimits,
    Outcome,
    ReplicationRules,
    Result,
    ResultClientState,
    ValidateState,
    Workunit,
)
from cobblestone.policy.credit.claims import ClaimInput
from cobblestone.policy.dispatch.catalogue import Assignment, Candidate, Catalogue
from cobblestone.policy.dispatch.choose import choose_work
from cobblestone.policy.dispatch.limits import INITIAL_PART, DispatchLimits, after_failure, after_valid
from cobblestone.policy.dispatch.reports import ReportContext, ResultReport, judge_report
from cobblestone.policy.dispatch.request import WorkRequest
from cobblestone.policy.lifecycle.application import advance, advance_assimilation, apply_transition
from cobblestone.policy.lifecycle.states import Cause, TimeOutResult, WorkunitView, is_over, is_unsent
from cobblestone.policy.lifecycle.transition import LifecycleTiming, next_transition
from cobblestone.policy.validation.canonical import (
    OutputCheck,
    ValidationReport,
    apply_decision,
    judge,
    pairs_to_compare,
    results_to_check,
)
from cobblestone.simulator.host.books import SimTask
from cobblestone.simulator.population.learned_speeds import LearnedSpeeds
from cobblestone.simulator.world.distributions import Streams
from cobblestone.simulator.world.scenario import ProjectModel, pick_weighted

_TIMING = LifecycleTiming()


@dataclass(slots=True)
class SimWorkunit:
    """A workunit in progress."""

    view: WorkunitView
    app: int  #: place among the project's apps
    flops: float  #: true size, the same for every host
    wrong: set[ResultId] = field(default_factory=set[ResultId])
    spent: dict[ResultId, float] = field(default_factory=dict[ResultId, float])  #: FLOPs of reported results
    out: int = 0  #: results sent and not reported yet
    first_sent: float = -1.0

    @property
    def id(self) -> WorkunitId:
        """Return the id of the workunit."""
        return self.view.workunit.id

    @property
    def check_at(self) -> float:
        """Return when the workunit is to be processed next."""
        at = self.view.workunit.transition_time
        return math.inf if at is None else at

    @property
    def over(self) -> bool:
        """Return whether everything is assimilated, and nothing more is expected of its results."""
        done = self.view.workunit.assimilate_state is AssimilateState.DONE
        return done and all(is_over(row) for row in self.view.results)

    def row(self, result: ResultId) -> Result:
        """Return a result's row."""
        return next(row for row in self.view.results if row.id == result)

    def put(self, changed_row: Result) -> None:
        """Replace a result."""
        rows = tuple([changed_row if row.id == changed_row.id else row for row in self.view.results])
        self.view = changed(self.view, results=rows)


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
        self._streams = streams
        self._sizes = streams.stream("jobs", model.name)
        self._weights = tuple(a.weight for a in model.apps)
        self._ids: Iterator[ResultId] = map(ResultId, itertools.count(1))
        self._unsent: dict[int, OrderedDict[ResultId, Candidate]] = {}
        self._timers: list[tuple[float, WorkunitId]] = []
        self._processes = [0.0] * self.rules.processes  #: when each will be free
        self._made = 0
        self._speeds = LearnedSpeeds()
        self.records = self._speeds.records
        limits = DispatchLimits(
            daily_quota=self.rules.daily_quota,
            daily_quota_init=self._initial_quota,
            first_jobs=self.rules.first_jobs,
            max_jobs_per_rpc=self.rules.max_jobs_per_rpc,
            check_deadline=self.rules.check_deadline,
            one_result_per_user_per_wu=False,
            one_result_per_host_per_wu=True,
        )
        self._replication = ReplicationRules(
            min_quorum=self.rules.min_quorum,
            target_nresults=max(self.rules.min_quorum, self.rules.target_results),
            max_error_results=self.rules.max_error_results,
            max_total_results=self.rules.max_total_results,
            max_success_results=self.rules.max_success_results,
        )
        self._job_limits = [
            JobLimits(
                rsc_fpops_est=app.flops_estimate,
                rsc_fpops_bound=1e30,
                rsc_memory_bound=0.0,
                rsc_disk_bound=0.0,
                delay_bound=app.latency_bound,
            )
            for app in model.apps
        ]
        apps = {AppId(i + 1): App(id=AppId(i + 1), name=a.name) for i, a in enumerate(model.apps)}
        catalogue = Catalogue(
            apps=apps,
            versions={
                i: (AppVersion(id=AppVersionId(i), app_id=i, platform=ANY_PLATFORM, version_num=100),)
                for i in apps
            },
            peak_flop_counts=self._speeds.peak_flop_counts,
        )
        self._limits, self._catalogue = limits, catalogue
        self._luck = streams.stream("dispatch", model.name)
        self._results: dict[ResultId, SimWorkunit] = {}

    @property
    def _initial_quota(self) -> int:
        """Return what a new host begins with: the part of the quota that is the server's default."""
        return max(self.rules.daily_quota // INITIAL_PART, 1) if self.rules.first_jobs else 0

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
        workunit = Workunit(
            id=WorkunitId(number + 1),
            name=f"w{number + 1}",
            app_id=AppId(index + 1),
            create_time=now,
            limits=self._job_limits[index],
            rules=self._replication,
        )
        job = SimWorkunit(WorkunitView(workunit=workunit), index, flops)
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
            slots -= len(job.view.results)
            for result in job.view.results:
                yield self._unsent[result.priority][result.id]

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
        while True:  # a transition is a fixed point, so the next one would have no effect
            transition = next_transition(job.view, timing=_TIMING, now=now)
            late = sorted(each.result_id for each in transition.effects if isinstance(each, TimeOutResult))
            self.tally.timed_out += len(late)
            self._rate_hosts(job, late, after_failure)
            self._go_to(job, apply_transition(job.view, transition, now, self._ids))
            workunit = job.view.workunit
            if workunit.need_validate:
                self._validate(job, now)
            elif workunit.assimilate_state is AssimilateState.READY:
                job.view = changed(job.view, workunit=advance_assimilation(workunit, Cause.ASSIMILATED))
                if job.over and not job.out:  # what would follow is the release of its files
                    break
            else:
                break
        if job.over and not job.out:
            self._forget(job)
        elif job.check_at < math.inf:
            heapq.heappush(self._timers, (job.check_at, job.id))

    def _validate(self, job: SimWorkunit, now: float) -> None:
        ids = results_to_check(job.view)
        checked = tuple(OutputCheck(result_id=r, usable=True) for r in ids)
        agree = frozenset(p for p in pairs_to_compare(job.view, ids) if job.wrong.isdisjoint(p))
        decision = judge(job.view, ValidationReport(checked=checked, matches=agree), now=now)
        valid = sorted(decision.newly_valid)
        self._rate_hosts(job, valid, after_valid)
        if valid:
            self._speeds.learn(self._job_limits[job.app], [_claim(job.row(each)) for each in valid])
        self._rate_hosts(job, sorted((*decision.newly_invalid, *decision.unusable)), after_failure)
        self._go_to(job, apply_decision(job.view, decision, now))
        if decision.newly_canonical and decision.canonical_id is not None:
            self._note_done(job, decision.canonical_id, now)

    def _go_to(self, job: SimWorkunit, view: WorkunitView) -> None:
        """Take the next view; queue new results, and drop those that must no longer be sent."""
        before, job.view = job.view.results, view
        for row in view.results[len(before) :]:
            self._results[row.id] = job
            self._unsent.setdefault(row.priority, OrderedDict())[row.id] = Candidate(
                result_id=row.id,
                result_name=row.name,
                workunit_id=job.id,
                workunit_name=view.workunit.name,
                app_id=row.app_id,
                limits=view.workunit.limits,
                priority=row.priority,
            )
        for was, row in zip(before, view.results, strict=False):
            if is_unsent(was) and not is_unsent(row):
                del self._unsent[was.priority][was.id]

    def _note_done(self, job: SimWorkunit, canonical: ResultId, now: float) -> None:
        tally = self.tally
        tally.done += 1
        tally.last_done = now
        tally.wrong += canonical in job.wrong
        tally.turnarounds.append(now - job.first_sent)
        day = int(now // 86400.0)
        tally.done_by_day[day] = tally.done_by_day.get(day, 0) + 1

    def _rate_hosts(
        self,
        job: SimWorkunit,
        results: Iterable[ResultId],
        change: Callable[[HostAppVersion, int], HostAppVersion],
    ) -> None:
        """Raise or lower the quotas of the hosts of these results, as validator and transitioner do."""
        for each in results:
            host, version = _sent_to(job.row(each))
            mine = self.records[host]
            mine[version] = change(mine[version], self.rules.daily_quota)

    def _forget(self, job: SimWorkunit) -> None:
        """Book the outcomes of a workunit's results once no host works on it."""
        tally = self.tally
        quorum = job.view.workunit.rules.min_quorum
        tally.failed += bool(job.view.workunit.error_mask)
        for row in sorted(job.view.results, key=lambda row: row.received_time or 0.0):
            del self._results[row.id]
            flops = job.spent.get(row.id)
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
                each for each in ids if any(row.host_id == host for row in self.jobs[each].view.results)
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
        job = self._results[candidate.result_id]
        due = offer.report_deadline
        job.put(
            changed(
                advance(job.row(candidate.result_id), Cause.SENT),
                host_id=host.id,
                user_id=host.user_id,
                app_version_id=offer.version.id,
                peak_flops=offer.usage.peak_flops,
                sent_time=now,
                report_deadline=due,
            )
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
            job.view = changed(job.view, workunit=changed(job.view.workunit, transition_time=at))
            heapq.heappush(self._timers, (at, job.id))

    def take_report(self, task: SimTask, host: Host, *, wrong: bool, now: float) -> None:
        """Judge a report; the daemons process it after the contact, so that the reply does not reflect it yet."""
        job = self._results[ResultId(task.number)]
        result = job.row(ResultId(task.number))
        records = self.records[host.id]
        record = None if result.app_version_id is None else records.get(result.app_version_id)
        report = ResultReport(
            name=result.name,
            state=ResultClientState.COMPUTE_ERROR if task.failed else ResultClientState.FILES_UPLOADED,
            exit_status=ExitStatus.ABORTED_BY_USER if task.given_up else int(task.failed),
            cpu_time=task.done,
            elapsed_time=task.done,
        )
        decision = judge_report(
            report,
            ReportContext(result=result, record=record, host_owner=host.user_id),
            host_id=host.id,
            user_id=host.user_id,
            daily_quota=self.rules.daily_quota,
            daily_quota_init=self._initial_quota,
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
            if job.over and not job.out:
                self._forget(job)
            return
        if wrong:
            job.wrong.add(result.id)
        success = accepted.outcome is Outcome.SUCCESS
        job.put(
            changed(
                advance(result, Cause.REPORTED_SUCCESS if success else Cause.REPORTED_FAILURE),
                client_state=accepted.client_state,
                validate_state=accepted.validate_state,
                exit_status=accepted.exit_status,
                elapsed_time=accepted.elapsed_time,
                received_time=accepted.received_time,
            )
        )
        self._look_by(job, now + self.rules.daemon_seconds)


def _sent_to(row: Result) -> tuple[HostId, AppVersionId]:
    """Return the host of a result that was sent, and the app version."""
    return HostId(row.host_id or 0), AppVersionId(row.app_version_id or 0)


def _claim(row: Result) -> ClaimInput:
    host, version = _sent_to(row)
    return ClaimInput(
        result_id=row.id,
        host_id=host,
        app_version_id=version,
        elapsed_time=row.elapsed_time,
        sent_time=row.sent_time or 0.0,
        received_time=row.received_time or 0.0,
        peak_flops=row.peak_flops,
    )
