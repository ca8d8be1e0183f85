"""A project whose jobs are shared by many hosts: the server side of a population run.

The rules are the project server's own: `choose_work` says which results a request gets, `judge_report` what a
report means, `next_transition` what happens to a workunit (retries after errors and time-outs, failure),
`judge` which result is canonical, `learn_run_times` how fast its host is.  Only the rows are kept in memory instead
of a database, and daemons work as soon as a contact is over.  What has no meaning here is left out: files, platforms, credit.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from cobblestone.domain.apps import ANY_PLATFORM, App, AppVersion
from cobblestone.domain.hosts import CPU, Host, HostAppVersion
from cobblestone.domain.ids import AppId, AppVersionId, ResultId, WorkunitId
from cobblestone.domain.states import AssimilateState, ClientState, ExitStatus, Outcome
from cobblestone.domain.states import ValidateState as Verdict
from cobblestone.domain.values import changed
from cobblestone.domain.work import JobLimits, ReplicationRules, Result, Workunit, result_name
from cobblestone.policy.dispatch.catalogue import Candidate, Catalogue
from cobblestone.policy.dispatch.choose import choose_work
from cobblestone.policy.dispatch.decision import Assignment
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.quota import after_failure, after_valid
from cobblestone.policy.dispatch.reports import ReportContext, ReportedResult, judge_report
from cobblestone.policy.dispatch.request import ResourceRequest, WorkRequest
from cobblestone.policy.lifecycle.application import advance, advance_assimilation, apply_transition
from cobblestone.policy.lifecycle.effects import TimeOutResult, WorkunitView
from cobblestone.policy.lifecycle.states import Cause, is_over, is_unsent
from cobblestone.policy.lifecycle.transition import LifecycleTiming, next_transition
from cobblestone.policy.validation.canonical import (
    OutputCheck,
    ValidationReport,
    apply_decision,
    judge,
    pairs_to_compare,
    results_to_check,
)
from cobblestone.simulator.learned_speeds import LearnedSpeeds
from cobblestone.simulator.scenario import ProjectModel, pick_weighted
from cobblestone.simulator.streams import Streams
from cobblestone.simulator.task import Task

PLATFORM = "x86_64-pc-linux-gnu"
CLIENT_VERSION = 72005
ENOUGH_BYTES = 1e15


@dataclass(slots=True)
class Job:
    """A workunit on its way."""

    view: WorkunitView
    flops: float  #: true size, the same for every host
    hosts: set[int] = field(default_factory=set[int])
    wrong: set[ResultId] = field(default_factory=set[ResultId])
    out: int = 0  #: results sent and not reported yet
    first_sent: float = -1.0
    spent: dict[ResultId, float] = field(default_factory=dict[ResultId, float])  #: FLOPs by reported result


@dataclass(slots=True)
class Tally:
    """Everything that the project counts.  FLOPs are of peak speed, as in the hosts' books."""

    rpcs: int = 0
    asking: int = 0  #: of those, with a request for work
    empty: int = 0  #: of those, without an answer to it
    sent: int = 0  #: results given to hosts
    reported: int = 0
    errors: int = 0  #: reported as failed
    late: int = 0  #: reported after the deadline
    timed_out: int = 0  #: deadlines that passed without a report
    due: int = 0  #: results sent whose deadline is before the end of the run
    abandoned: int = 0  #: results of finished workunits reported when nobody wanted them any more
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
        """FLOPs of all reports; the sum of what became of them."""
        return self.needed_flops + self.spare_flops + self.late_flops + self.error_flops + self.invalid_flops


class SharedProject:
    """The rows of one project, and the daemons that work on them."""

    def __init__(self, model: ProjectModel, streams: Streams, *, until: float) -> None:
        """Begin without work; the run ends at ``until`` (seconds)."""
        self.model = model
        self._until = until
        self.rules = model.server
        self.tally = Tally()
        self.jobs: dict[WorkunitId, Job] = {}
        self._streams = streams
        self._sizes = streams.stream("jobs", model.name)
        self._choice = streams.stream("dispatch", model.name)
        self._weights = tuple(a.weight for a in model.apps)
        self._ids: Iterator[ResultId] = map(ResultId, itertools.count(1))
        self._unsent: dict[int, OrderedDict[ResultId, Candidate]] = {}
        self._timers: list[tuple[float, WorkunitId]] = []
        self._processes = [0.0] * self.rules.processes  #: when each will be free
        self._made = 0
        self._speeds = LearnedSpeeds()
        self.records = self._speeds.records
        self._timing = LifecycleTiming()
        self._limits = DispatchLimits(
            daily_quota=self.rules.daily_quota,
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
        self._catalogue = Catalogue(
            apps=apps,
            versions={
                i: (AppVersion(id=AppVersionId(i), app_id=i, platform=ANY_PLATFORM, version_num=100),)
                for i in apps
            },
            peak_flop_counts=self._speeds.peak_flop_counts,
        )
        self._results: dict[ResultId, WorkunitId] = {}

    # -- supply -------------------------------------------------------------------------------------------------------

    def _supply(self, now: float) -> int:
        """Return how many workunits may exist by now."""
        rules = self.rules
        allowed = 1 << 62 if rules.workunits == 0 else rules.workunits
        if rules.workunits_per_day > 0.0:
            allowed = min(allowed, int(rules.workunits_per_day * now / 86400.0) + 1)
        return allowed

    def _make_workunit(self, now: float) -> Job:
        number = self._made
        self._made += 1
        index = pick_weighted(self._weights, self._sizes.random()) if len(self._weights) > 1 else 0
        app = self.model.apps[index]
        workunit = Workunit(
            id=WorkunitId(number + 1),
            name=f"w{number}",
            app_id=AppId(index + 1),
            create_time=now,
            limits=self._job_limits[index],
            rules=self._replication,
        )
        job = Job(WorkunitView(workunit=workunit), app.sizes.draw(self._sizes))
        self.jobs[workunit.id] = job
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
        """Look at the workunits whose time has come."""
        while self._timers and self._timers[0][0] <= now:
            at, workunit_id = heapq.heappop(self._timers)
            job = self.jobs.get(workunit_id)
            if job is not None and job.view.workunit.transition_time == at:
                self._work_on(job, at)

    def _work_on(self, job: Job, now: float) -> None:
        """Transitioner, validator and assimilator, until nothing is left to do now."""
        for _ in range(100):
            transition = next_transition(job.view, timing=self._timing, now=now)
            before = job.view
            late = [effect.result_id for effect in transition.effects if isinstance(effect, TimeOutResult)]
            self._rate_hosts(before, late, after_failure)
            job.view = apply_transition(job.view, transition, now, self._ids)
            self._requeue(before, job)
            if job.view.workunit.need_validate:
                self._validate(job, now)
            elif job.view.workunit.assimilate_state is AssimilateState.READY:
                workunit = advance_assimilation(job.view.workunit, Cause.ASSIMILATED)
                job.view = changed(job.view, workunit=workunit)
            else:
                break  # a transition is a fixed point: the next one at this time would have no effects
        again = job.view.workunit.transition_time
        if again is not None:
            heapq.heappush(self._timers, (again, job.view.workunit.id))
        self._forget_if_over(job)

    def _requeue(self, before: WorkunitView, job: Job) -> None:
        """Keep the queue of unsent results in step with a workunit's results; count time-outs."""
        if before.results is job.view.results:
            return
        old = {r.id: r for r in before.results}
        workunit = job.view.workunit
        for result in job.view.results:
            was = old.get(result.id)
            if was is result:
                continue
            if is_unsent(result) and was is None:
                self._results[result.id] = workunit.id
                self._unsent.setdefault(result.priority, OrderedDict())[result.id] = Candidate(
                    result_id=result.id,
                    result_name=result_name(workunit.name, len(old)),
                    workunit_id=workunit.id,
                    workunit_name=workunit.name,
                    app_id=workunit.app_id,
                    limits=workunit.limits,
                    priority=result.priority,
                )
            elif was is not None and is_unsent(was):
                self._unsent[was.priority].pop(result.id, None)
            elif result.outcome is Outcome.NO_REPLY and was is not None:
                self.tally.timed_out += was.outcome is not Outcome.NO_REPLY

    def _validate(self, job: Job, now: float) -> None:
        ids = results_to_check(job.view)
        checked = tuple(OutputCheck(result_id=r, usable=True) for r in ids)
        pairs = pairs_to_compare(job.view, ids)
        agree = frozenset(p for p in pairs if p[0] not in job.wrong and p[1] not in job.wrong)
        had = job.view.workunit.canonical_result_id
        before = job.view
        decision = judge(before, ValidationReport(checked=checked, matches=agree), now=now)
        self._rate_hosts(before, decision.newly_valid, after_valid)
        self._rate_hosts(before, (*decision.newly_invalid, *decision.unusable), after_failure)
        self._speeds.learn(before, decision.newly_valid)
        job.view = apply_decision(before, decision, now)
        self._requeue(before, job)
        if had is None and decision.newly_canonical:
            self.tally.done += 1
            self.tally.last_done = now
            self.tally.wrong += decision.canonical_id in job.wrong
            self.tally.turnarounds.append(now - job.first_sent)
            day = int(now // 86400.0)
            self.tally.done_by_day[day] = self.tally.done_by_day.get(day, 0) + 1

    def _rate_hosts(
        self,
        view: WorkunitView,
        results: Iterable[ResultId],
        change: Callable[[HostAppVersion, int], HostAppVersion],
    ) -> None:
        """Let the quotas of the hosts of these results rise or fall, as validator and transitioner do."""
        wanted = frozenset(results)
        if not wanted:
            return
        for result in view.results:
            if result.id in wanted and result.host_id is not None and result.app_version_id is not None:
                mine = self.records.get(int(result.host_id), {})
                record = mine.get(result.app_version_id)
                if record is not None:
                    mine[result.app_version_id] = change(record, self.rules.daily_quota)

    def _forget_if_over(self, job: Job) -> None:
        """Book what became of a workunit's results when no host works on it any more."""
        workunit = job.view.workunit
        if job.out or workunit.assimilate_state is not AssimilateState.DONE:
            return
        if not all(is_over(r) for r in job.view.results):
            return
        self._settle(job)
        del self.jobs[workunit.id]
        for result in job.view.results:
            self._results.pop(result.id, None)

    def _settle(self, job: Job) -> None:
        tally = self.tally
        quorum = job.view.workunit.rules.min_quorum
        by_time = sorted(job.view.results, key=lambda r: (r.received_time or 0.0, r.id))
        if job.view.workunit.error_mask:
            tally.failed += 1
        for result in by_time:
            flops = job.spent.get(result.id)
            if flops is None:
                continue
            if result.outcome is not Outcome.SUCCESS:
                tally.error_flops += flops
            elif result.validate_state is Verdict.VALID:
                tally.valid += 1
                if quorum > 0:
                    tally.needed_flops += flops
                    quorum -= 1
                else:
                    tally.spare_flops += flops
            elif result.validate_state is Verdict.INVALID:
                tally.invalid_flops += flops
            else:
                tally.late_flops += flops

    def close(self) -> float:
        """Return the FLOPs in reports of workunits that are not over at the end."""
        return sum(sum(job.spent.values()) for job in self.jobs.values())

    # -- contacts -----------------------------------------------------------------------------------------------------

    def contact(self, now: float) -> bool:
        """Let a contact stand in the scheduler's queue; returns whether it was short enough for a request for work."""
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

    def choose(
        self, host: Host, *, ncpus: int, seconds: float, instances: float, delay: float, held: int, now: float
    ) -> Sequence[Assignment]:
        """Return what a host would get for a request; :meth:`send` makes it so."""
        self.tally.asking += 1
        request = WorkRequest(
            host=host,
            platforms=(PLATFORM,),
            client_version=CLIENT_VERSION,
            resources={CPU: ResourceRequest(seconds=seconds, instances=instances, estimated_delay=delay)},
            usable_ncpus=ncpus,
            ram_bytes=ENOUGH_BYTES,
            disk_bytes=ENOUGH_BYTES,
            in_progress={AppId(1): held},
            records=self.records.get(host.id, {}),
        )
        held_here = int(host.id)

        def at_host(ids: Sequence[WorkunitId]) -> frozenset[WorkunitId]:
            return frozenset(i for i in ids if held_here in self.jobs[i].hosts)

        decision = choose_work(
            request,
            self._candidates(now),
            self._catalogue,
            limits=self._limits,
            already_at_host=at_host,
            now=now,
            rng=self._choice,
        )
        if decision.records:
            mine = self.records.setdefault(held_here, {})
            mine.update({record.app_version_id: record for record in decision.records})
        return decision.assignments

    def send(self, assignment: Assignment, host: Host, now: float) -> Job:
        """Give a result to a host."""
        candidate = assignment.candidate
        job = self.jobs[candidate.workunit_id]
        del self._unsent[candidate.priority][candidate.result_id]

        def sent(result: Result) -> Result:
            return changed(
                advance(result, Cause.SENT),
                host_id=host.id,
                user_id=host.user_id,
                app_version_id=assignment.version.id,
                sent_time=now,
                report_deadline=assignment.report_deadline,
                peak_flops=assignment.usage.peak_flops,
            )

        job.view = _with_result(job.view, candidate.result_id, sent)
        job.hosts.add(int(host.id))
        job.out += 1
        if job.first_sent < 0.0:
            job.first_sent = now
        self.tally.sent += 1
        self.tally.due += assignment.report_deadline <= self._until
        self.tally.first_sent = min(self.tally.first_sent, now)
        workunit = job.view.workunit
        if workunit.transition_time is None or workunit.transition_time > assignment.report_deadline:
            workunit = changed(workunit, transition_time=assignment.report_deadline)
            job.view = changed(job.view, workunit=workunit)
            heapq.heappush(self._timers, (assignment.report_deadline, workunit.id))
        return job

    def take_report(self, task: Task, host: Host, *, wrong: bool, now: float) -> None:
        """Judge a report; the daemons work on it after the contact, so that its answer knows nothing of it yet."""
        result_id = ResultId(task.number)
        job = self.jobs[self._results[result_id]]
        (result,) = (r for r in job.view.results if r.id == result_id)
        record = self.records.get(int(host.id), {}).get(result.app_version_id or AppVersionId(0))
        report = ReportedResult(
            name=result.name,
            state=ClientState.COMPUTE_ERROR if task.failed else ClientState.FILES_UPLOADED,
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
            now=now,
        )
        if decision.record is not None:
            self.records[int(host.id)][decision.record.app_version_id] = decision.record
        tally = self.tally
        tally.reported += 1
        tally.result_seconds += now - task.received
        tally.late += now > task.report_deadline
        tally.errors += task.failed
        job.out -= 1
        job.spent[result_id] = min(task.done, task.limit) * task.peak
        accepted = decision.accepted
        if accepted is None:
            tally.abandoned += 1
            self._forget_if_over(job)
            return
        if wrong:
            job.wrong.add(result_id)

        def taken(row: Result) -> Result:
            cause = Cause.REPORTED_SUCCESS if accepted.outcome is Outcome.SUCCESS else Cause.REPORTED_FAILURE
            return changed(
                advance(row, cause),
                client_state=accepted.client_state,
                validate_state=accepted.validate_state,
                exit_status=accepted.exit_status,
                elapsed_time=accepted.elapsed_time,
                received_time=now,
            )

        job.view = _with_result(job.view, result_id, taken)
        due = job.view.workunit.transition_time
        soon = now + self.rules.daemon_seconds
        if due is None or due > soon:
            job.view = changed(job.view, workunit=changed(job.view.workunit, transition_time=soon))
            heapq.heappush(self._timers, (soon, job.view.workunit.id))


def _with_result(view: WorkunitView, result_id: ResultId, change: Callable[[Result], Result]) -> WorkunitView:
    return changed(view, results=tuple([change(r) if r.id == result_id else r for r in view.results]))
