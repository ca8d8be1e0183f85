"""A project whose jobs are shared by many hosts: the server side of a population run.

The rules are the project server's own: `choose_work` says which results a request gets, `judge_report` what a
report means, `next_transition` what happens to a workunit (retries after errors and time-outs, failure),
`judge` which result is canonical, `learn_run_times` how fast its host is.  What they say of workunits is remembered
(`cobblestone.simulator.population.workunit_paths`), nothing is stored, and daemons work as soon as a contact is over.  What
has no meaning here is left out: files, platforms, credit.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from cobblestone.domain.apps import ANY_PLATFORM, App, AppVersion
from cobblestone.domain.hosts import Host, HostAppVersion
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, WorkunitId, changed, float_sum
from cobblestone.domain.work import (
    ExitStatus,
    JobLimits,
    ReplicationRules,
    ResultClientState,
    Workunit,
    result_name,
)
from cobblestone.policy.credit.claims import ClaimInput
from cobblestone.policy.dispatch.catalogue import Candidate, Catalogue
from cobblestone.policy.dispatch.limits import INITIAL_PART, DispatchLimits, after_failure, after_valid
from cobblestone.policy.dispatch.reports import ReportContext, ResultReport, judge_report
from cobblestone.simulator.host.books import SimTask
from cobblestone.simulator.population.dispatch_memory import (
    DispatchMemory,
    LearnedSpeeds,
    RememberedOffer,
    RememberedRequest,
)
from cobblestone.simulator.population.workunit_paths import (
    CHECK,
    DEADLINE,
    FIRST,
    NOW,
    OF_RESULT,
    RECEIVED,
    SENT,
    Stand,
    WorkunitPaths,
)
from cobblestone.simulator.world.distributions import Streams
from cobblestone.simulator.world.scenario import ProjectModel, pick_weighted


@dataclass(slots=True)
class Replica:
    """A result, with only what the project's books and its hosts' records need."""

    id: ResultId
    host: HostId = HostId(0)  #: 0 = not sent yet
    version: AppVersionId = AppVersionId(0)
    peak_flops: float = 0.0
    elapsed: float = 0.0  #: as reported, seconds
    spent: float | None = None  #: FLOPs, once it was reported


@dataclass(slots=True)
class SimWorkunit:
    """A workunit in progress."""

    id: WorkunitId
    app: int  #: place among the project's apps
    flops: float  #: true size, the same for every host
    stand: Stand
    times: list[float]  #: see `cobblestone.simulator.population.workunit_paths`
    replicas: list[Replica] = field(default_factory=list[Replica])
    out: int = 0  #: results sent and not reported yet
    first_sent: float = -1.0


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
        self._dispatch = DispatchMemory(
            limits, catalogue, self._speeds, streams.stream("dispatch", model.name)
        )
        self._results: dict[ResultId, tuple[SimWorkunit, int]] = {}  #: with their places in their workunits
        self._paths = WorkunitPaths()
        self._first = [
            self._paths.first(
                Workunit(id=WorkunitId(1), name="w", app_id=i, limits=limits, rules=self._replication)
            )
            for i, limits in zip(apps, self._job_limits, strict=True)
        ]

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
        job = SimWorkunit(WorkunitId(number + 1), index, flops, self._first[index], [now, math.inf, now])
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
            slots -= len(job.replicas)
            for result, replica in zip(job.stand.view.results, job.replicas, strict=True):
                yield self._unsent[result.priority][replica.id]

    # -- daemons ------------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Process the workunits that are due."""
        while self._timers and self._timers[0][0] <= now:
            at, workunit_id = heapq.heappop(self._timers)
            job = self.jobs.get(workunit_id)
            if job is not None and job.times[CHECK] == at:
                self._work_on(job, at)

    def _work_on(self, job: SimWorkunit, now: float) -> None:
        """Run transitioner, validator and assimilator until nothing is left to do now."""
        times = job.times
        times[NOW] = now
        look = self._paths.look(job.stand, times)
        before, job.stand = job.stand, look.after
        for event, places in look.events:
            match event:
                case "made":
                    self._queue(job, places)
                case "not needed":
                    for place in places:
                        del self._unsent[before.view.results[place].priority][job.replicas[place].id]
                case "timed out":
                    self.tally.timed_out += len(places)
                    self._rate_hosts(job, places, after_failure)
                case "valid":
                    self._rate_hosts(job, places, after_valid)
                    self._speeds.learn(
                        self._job_limits[job.app], [self._claim(job, place) for place in places]
                    )
                case "invalid":
                    self._rate_hosts(job, places, after_failure)
                case "canonical":
                    self._note_done(job, places[0], now)
        if times[CHECK] < math.inf:
            heapq.heappush(self._timers, (times[CHECK], job.id))
        if job.stand.over and not job.out:
            self._forget(job)

    def _queue(self, job: SimWorkunit, places: Iterable[int]) -> None:
        """Add new results to the queue of unsent ones."""
        name = f"w{job.id}"
        for place in places:
            replica = Replica(next(self._ids))
            job.replicas.append(replica)
            self._results[replica.id] = (job, place)
            priority = job.stand.view.results[place].priority
            self._unsent.setdefault(priority, OrderedDict())[replica.id] = Candidate(
                result_id=replica.id,
                result_name=result_name(name, place),
                workunit_id=job.id,
                workunit_name=name,
                app_id=AppId(job.app + 1),
                limits=self._job_limits[job.app],
                priority=priority,
            )

    def _claim(self, job: SimWorkunit, place: int) -> ClaimInput:
        replica = job.replicas[place]
        first = FIRST + OF_RESULT * place
        return ClaimInput(
            result_id=replica.id,
            host_id=replica.host,
            app_version_id=replica.version,
            elapsed_time=replica.elapsed,
            sent_time=job.times[first + SENT],
            received_time=job.times[first + RECEIVED],
            peak_flops=replica.peak_flops,
        )

    def _note_done(self, job: SimWorkunit, canonical: int, now: float) -> None:
        tally = self.tally
        tally.done += 1
        tally.last_done = now
        tally.wrong += canonical in job.stand.wrong
        tally.turnarounds.append(now - job.first_sent)
        day = int(now // 86400.0)
        tally.done_by_day[day] = tally.done_by_day.get(day, 0) + 1

    def _rate_hosts(
        self, job: SimWorkunit, places: Iterable[int], change: Callable[[HostAppVersion, int], HostAppVersion]
    ) -> None:
        """Raise or lower the quotas of the hosts of these results, as validator and transitioner do."""
        for place in places:
            replica = job.replicas[place]
            mine = self.records[replica.host]
            mine[replica.version] = change(mine[replica.version], self.rules.daily_quota)

    def _forget(self, job: SimWorkunit) -> None:
        """Book the outcomes of a workunit's results once no host works on it."""
        tally = self.tally
        quorum = job.stand.view.workunit.rules.min_quorum
        tally.failed += job.stand.failed
        received = job.times[FIRST + RECEIVED :: OF_RESULT]
        for place in sorted(range(len(received)), key=received.__getitem__):
            replica = job.replicas[place]
            del self._results[replica.id]
            flops = replica.spent
            if flops is None:
                continue
            match job.stand.fates[place]:
                case "failed":
                    tally.error_flops += flops
                case "valid" if quorum > 0:
                    tally.valid += 1
                    tally.needed_flops += flops
                    quorum -= 1
                case "valid":
                    tally.valid += 1
                    tally.spare_flops += flops
                case "invalid":
                    tally.invalid_flops += flops
                case "open":
                    tally.late_flops += flops
        del self.jobs[job.id]

    def close(self) -> float:
        """Return the FLOPs in reports of workunits unfinished at the end."""
        return float_sum(float_sum(each.spent or 0.0 for each in job.replicas) for job in self.jobs.values())

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

    def choose(self, asked: RememberedRequest) -> list[RememberedOffer]:
        """Return what a host gets for a request; :meth:`send` carries it out."""
        self.tally.asking += 1
        host = asked.host.id

        def at_host(workunit: WorkunitId) -> bool:
            return any(each.host == host for each in self.jobs[workunit].replicas)

        return self._dispatch.choose(asked, self._candidates(asked.now), at_host)

    def send(self, offer: RememberedOffer, host: Host, now: float) -> SimWorkunit:
        """Send a result to a host."""
        candidate = offer.candidate
        del self._unsent[candidate.priority][candidate.result_id]
        job, place = self._results[candidate.result_id]
        replica = job.replicas[place]
        replica.host = host.id
        replica.version = offer.version
        replica.peak_flops = offer.peak_flops
        job.stand = self._paths.sent(job.stand, place)
        due = offer.report_deadline
        first = FIRST + OF_RESULT * place
        job.times[first + SENT], job.times[first + DEADLINE] = now, due
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
        if job.times[CHECK] > at:
            job.times[CHECK] = at
            heapq.heappush(self._timers, (at, job.id))

    def take_report(self, task: SimTask, host: Host, *, wrong: bool, now: float) -> None:
        """Judge a report; the daemons process it after the contact, so that the reply does not reflect it yet."""
        job, place = self._results[ResultId(task.number)]
        replica = job.replicas[place]
        first = FIRST + OF_RESULT * place
        row = job.stand.view.results[place]
        result = changed(
            row,
            host_id=replica.host,
            sent_time=job.times[first + SENT],
            received_time=None if row.received_time is None else job.times[first + RECEIVED],
        )
        record = self.records.get(int(host.id), {}).get(replica.version)
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
            self.records[int(host.id)][decision.record.app_version_id] = decision.record
        tally = self.tally
        tally.reported += 1
        tally.result_seconds += now - task.received
        tally.late += now > task.report_deadline
        tally.errors += task.failed
        job.out -= 1
        replica.spent = min(task.done, task.limit) * task.peak
        accepted = decision.accepted
        if accepted is None:
            tally.abandoned += 1
            if job.stand.over and not job.out:
                self._forget(job)
            return
        job.stand = self._paths.reported(job.stand, place, accepted, wrong=wrong)
        job.times[first + RECEIVED] = now
        replica.elapsed = accepted.elapsed_time
        self._look_by(job, now + self.rules.daemon_seconds)
