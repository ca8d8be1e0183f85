"""Which recently active computers could take a job, whether they are enough for its quorum, and what jobs take."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from cobblestone.domain.apps import App
from cobblestone.domain.hosts import CPU, Host
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import DAY, HostId, UserId
from cobblestone.policy.dispatch import status as standing
from cobblestone.policy.dispatch.catalogue import Candidate, DispatchDecision
from cobblestone.policy.dispatch.choose import choose_work
from cobblestone.policy.dispatch.match import hr_class
from cobblestone.policy.dispatch.request import ANONYMOUS_PLATFORM, ResourceRequest, WorkRequest
from cobblestone.policy.lifecycle.outlook import Supply
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.offer import Offer
from cobblestone.server.scheduler.work_request import project_preferences, uses_gpu
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts, users
from cobblestone.store.work import batches, dispatch, job_results
from cobblestone.store.work.candidates import candidate_of_batch
from cobblestone.store.work.reserve import workunits_at

HOSTS = 500  #: computers that called last, tried for a job
MAX_STUCK = 200  #: jobs of a batch that are looked at


def request_of(db: Database, offer: Offer, host: Host) -> WorkRequest:
    """Return a request for one second of work for each of a host's processors, as its client last described it."""
    user = users.user_by_id(db, host.user_id)
    description = host.description
    in_progress = dispatch.jobs_in_progress(db, host.id)
    asked = ResourceRequest(seconds=1.0)
    return WorkRequest(
        host=host,
        platforms=description.platforms or ("",),
        client_version=description.client_version,
        resources={CPU: asked, **{gpu.type: asked for gpu in description.coprocessors}},
        usable_ncpus=description.usable_ncpus,
        ram_bytes=description.usable_ram,
        disk_bytes=description.usable_disk,
        in_progress=Counter(job.app_id for job in in_progress),
        in_progress_gpu=Counter(job.app_id for job in in_progress if uses_gpu(job, offer.catalogue)),
        preferences=project_preferences(user, host),
        records=hosts.records_of_host(db, host.id),
        team_id=None if user is None else user.team_id,
    )


def choose_for(
    db: Database, offer: Offer, request: WorkRequest, waiting: Iterable[Candidate], *, now: float
) -> DispatchDecision:
    """Return what the dispatch rule would give, without changing anything."""
    host = request.host
    return choose_work(
        request,
        waiting,
        offer.catalogue,
        limits=offer.limits,
        already_at_user=lambda ids: workunits_at(db, ids, host.user_id, host=False),
        already_at_host=lambda ids: workunits_at(db, ids, host.id, host=True),
        now=now,
        rng=random.Random(1),
    )


class Survey:
    """Asks the recently active computers about one job; used once."""

    def __init__(self, db: Database, offer: Offer, candidate: Candidate, *, now: float) -> None:
        self.candidate = candidate
        self.tried = 0  #: computers that were asked
        self.takers_now = 0  #: those who would take it if they asked now
        self.refusals: dict[str, tuple[int, Reason]] = {}  #: by code: how many, and the first of them
        self._db = db
        self._offer = offer
        self._now = now

    def takers(self) -> Iterator[standing.Taker]:
        """Yield the computers that could take the job, now or later."""
        for host in hosts.recent_hosts(self._db, limit=HOSTS):
            if host.rpc_time < self._now - standing.AT_HAND_SECONDS:
                return
            if not host.description.platforms:
                continue
            if host.description.platforms[0] == ANONYMOUS_PLATFORM:
                yield self._taker(host)  # what it would run is known when it asks
                continue
            self.tried += 1
            decision = self._decide(host)
            self.takers_now += bool(decision.assignments)
            if not decision.assignments:
                self._note(decision.refusals[0])
            if standing.could_take(bool(decision.assignments), decision.refusals):
                version = decision.assignments[0].version.id if decision.assignments else 0
                yield self._taker(host, version)

    def _decide(self, host: Host) -> DispatchDecision:
        request = request_of(self._db, self._offer, host)
        if self.candidate.targeted and not _is_target(self.candidate, request):
            return DispatchDecision(refusals=(reason(standing.OTHER_TARGET, "It is meant for others."),))
        return choose_for(self._db, self._offer, request, [self.candidate], now=self._now)

    def _note(self, refusal: Reason) -> None:
        count, first = self.refusals.get(refusal.code, (0, refusal))
        self.refusals[refusal.code] = (count + 1, first)

    def _taker(self, host: Host, version: int = 0) -> standing.Taker:
        rules = self._offer.catalogue.apps[self.candidate.app_id].dispatch
        return standing.Taker(
            host_id=host.id,
            user_id=host.user_id,
            alike=(
                hr_class(host.description, rules.homogeneous_redundancy),
                version if rules.homogeneous_app_version else 0,
            ),
        )


def _is_target(candidate: Candidate, request: WorkRequest) -> bool:
    host = request.host
    return (
        (candidate.target_host_id is None or candidate.target_host_id == host.id)
        and (candidate.target_user_id is None or candidate.target_user_id == host.user_id)
        and (candidate.target_team_id is None or candidate.target_team_id == request.team_id)
    )


def batch_shortage(
    db: Database, offer: Offer, batch_id: int, *, now: float
) -> tuple[standing.Shortage | None, Survey | None]:
    """Return whether a batch's first open job cannot reach its quorum with the active computers, and what was asked."""
    found = candidate_of_batch(db, batch_id)
    if found is None:
        return None, None
    candidate, quorum = found
    survey = Survey(db, offer, candidate, now=now)
    return standing.shortage(survey.takers(), needed=quorum, limits=offer.limits), survey


def stuck_jobs(db: Database, offer: Offer, batch_id: int, *, now: float) -> dict[int, standing.Shortage]:
    """Return jobs of a batch that failed somewhere and now wait for people or computers who are not there, by workunit."""
    waiting = job_results.waiting_after_failure(db, batch_id, limit=MAX_STUCK)
    found = candidate_of_batch(db, batch_id) if waiting else None
    if found is None:
        return {}
    takers = list(Survey(db, offer, found[0], now=now).takers())
    stuck: dict[int, standing.Shortage] = {}
    for job in waiting:
        served: Collection[UserId | HostId]
        served = job.users if offer.limits.one_result_per_user_per_wu else job.hosts
        missing = standing.shortage(takers, needed=job.needed, limits=offer.limits, served=served)
        if missing is not None:
            stuck[job.workunit_id] = missing
    return stuck


def supply(ctx: ServerContext, db: Database, *, now: float) -> Supply:
    """Return what the project has for jobs; its computers as lately looked at where that takes long."""
    cores = ctx.costly.get("cores", lambda: hosts.cores_at_hand(db, since=now - DAY))
    return Supply(now, *cores, batches.count_unsent(db))


def job_seconds(db: Database, app: App, given: Supply, operations: float | None = None) -> float:
    """Return the CPU seconds of so many operations; None: of a usual job of the app with its repetitions."""
    usual = app.limits.rsc_fpops_est * app.rules_of_jobs.target_nresults
    took, estimated = job_results.cost_lately(db, app.id)
    return given.seconds_for(
        usual if operations is None else operations, cpu_seconds=took, of_operations=estimated
    )
