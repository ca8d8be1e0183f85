"""The dispatch rule: which of the unsent results a request gets.

Candidates are read in the order in which they should be served and each is given the version that runs
fastest on a processor type that is still wanted. The reading stops as soon as the request is filled. Sources:
BOINC's ``sched_send.cpp``, ``sched_score.cpp``, ``sched_check.cpp`` (facts); the array scan with scores
becomes a lazy walk over a queue in priority order.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from cobblestone.domain.apps import ANY_PLATFORM, BROWSER_DELAY_BOUND, POSIX, App
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import AppId, AppVersionId, WorkunitId
from cobblestone.domain.work import JobLimits
from cobblestone.policy.dispatch.budget import Budget
from cobblestone.policy.dispatch.catalogue import (
    Assignment,
    Candidate,
    Catalogue,
    DispatchDecision,
    job_seconds,
)
from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload
from cobblestone.policy.dispatch.explain import Code, Tally, by_importance, explain
from cobblestone.policy.dispatch.limits import (
    CHECK_QUORUM,
    DispatchLimits,
    failed_lately,
    is_reliable,
    must_replicate,
    shortened_delay,
)
from cobblestone.policy.dispatch.match import (
    Match,
    VersionChooser,
    address_space,
    by_suitability,
    hr_class,
    keyword_score,
)
from cobblestone.policy.dispatch.request import WorkRequest

#: Workunits of which a result is already there: a set, or a look-up that is asked for a few at a time.
HeldWorkunits = AbstractSet[WorkunitId] | Callable[[Sequence[WorkunitId]], AbstractSet[WorkunitId]]

_ChoiceKey = AppId | tuple[AppId, AppVersionId | None, bool]
_NOTHING: frozenset[WorkunitId] = frozenset()

FIRST_LOOK = 1  #: candidates looked up together at first; four times as many each time
LONGEST_LOOK = 256
#: Candidates that a request goes past, once it has a job: more would cost more than they bring.
LONGEST_WALK = 1000

#: Longest estimated run time of a job for a browser.
BROWSER_SECONDS = 3600.0

MAX_DELAY = 172800.0
BLOCKED_DELAY = 86400.0
ANONYMOUS_DELAY = 14400.0
DISK_DELAY = 3600.0


def choose_work(
    request: WorkRequest,
    candidates: Iterable[Candidate],
    catalogue: Catalogue,
    *,
    limits: DispatchLimits,
    already_at_user: HeldWorkunits = frozenset(),
    already_at_host: HeldWorkunits = frozenset(),
    now: float,
    rng: random.Random,
) -> DispatchDecision:
    """Choose results for one request.

    ``candidates`` come in the order in which they should be served: targeted ones for this host first, then by priority,
    then by age. They are read lazily, and little further than needed. Each look-up is asked when its rule is on
    (``one_result_per_user_per_wu``, ``one_result_per_host_per_wu``); a host belongs to one user, so a caller may leave
    ``already_at_host`` out, and save a query, as long as the rule per user is on.
    """
    delay = send_interval(limits)
    refused = refuse_host(request, catalogue, limits, now)
    if refused is not None:
        reason, own_delay = refused
        return DispatchDecision(refusals=(reason,), request_delay=min(max(delay, own_delay), MAX_DELAY))
    budget = Budget(request, limits, now)
    always = frozenset(app_id for app_id in catalogue.always_apps if not request.in_progress.get(app_id))
    if not budget.open and not always:
        return DispatchDecision(refusals=(explain(Code.NOT_REQUESTED),), request_delay=min(delay, MAX_DELAY))
    selection = _Selection(
        request, catalogue, limits, budget, (already_at_user, already_at_host), now, rng, always
    )
    selection.run(candidates)
    refusals = selection.refusals()
    if not selection.assignments and refusals[0].code == Code.DISK:
        delay = max(delay, DISK_DELAY)
    return DispatchDecision(
        assignments=tuple(selection.assignments),
        refusals=refusals,
        request_delay=min(delay, MAX_DELAY),
        records=budget.changed_records(),
    )


def send_interval(limits: DispatchLimits) -> float:
    """Return the seconds that a client must wait; a little more than the minimum, since clocks differ."""
    interval = limits.min_sendwork_interval
    return max(1.01 * interval, interval + 1) if interval > 0 else 0.0


def refuse_host(
    request: WorkRequest, catalogue: Catalogue, limits: DispatchLimits, now: float
) -> tuple[Reason, float] | None:
    """Return why this host gets nothing at all, and how many seconds it must wait; None if it may be served."""
    if request.host.blocked_reason:
        return explain(Code.BLOCKED, why=request.host.blocked_reason), BLOCKED_DELAY
    since = now - request.previous_request_time
    if request.previous_request_time > 0 and 0 <= since < limits.min_sendwork_interval:
        interval = limits.min_sendwork_interval
        return explain(Code.TOO_RECENT, seconds_ago=int(since), interval=int(interval)), 0.0
    if request.anonymous:
        brought = {own.app_name for own in request.own_versions}
        if any(app.name in brought and not app.deprecated for app in catalogue.apps.values()):
            return None
        return explain(Code.ANONYMOUS_PLATFORM), ANONYMOUS_DELAY
    return _refuse_platform(request, catalogue, limits)


def _refuse_platform(
    request: WorkRequest, catalogue: Catalogue, limits: DispatchLimits
) -> tuple[Reason, float] | None:
    offered = catalogue.platforms
    anywhere = ANY_PLATFORM in offered
    if (anywhere and request.runs_scripts) or not offered.isdisjoint(request.platforms):
        return None
    if not offered:
        return explain(Code.NO_APPS), 0.0
    text = ", ".join(sorted(offered.difference([ANY_PLATFORM]).union(POSIX if anywhere else ())))
    return explain(Code.PLATFORM, platform=request.platforms[0], offered=text), limits.unsupported_delay


class _Selection:
    """One walk over the candidates.  Lives for one decision."""

    def __init__(
        self,
        request: WorkRequest,
        catalogue: Catalogue,
        limits: DispatchLimits,
        budget: Budget,
        held: tuple[HeldWorkunits, HeldWorkunits],
        now: float,
        rng: random.Random,
        always: frozenset[AppId] = frozenset(),
    ) -> None:
        self.assignments: list[Assignment] = []
        self._request = request
        self._apps = catalogue.apps
        self._limits = limits
        self._budget = budget
        self._held_by_user = held[0] if limits.one_result_per_user_per_wu else _NOTHING
        self._held_by_host = held[1] if limits.one_result_per_host_per_wu else _NOTHING
        self._once = limits.one_result_per_user_per_wu or limits.one_result_per_host_per_wu
        self._now = now
        self._rng = rng
        self._always = set(always)  #: apps of which the host still lacks its one job
        self._scored = catalogue.scored or bool(request.preferences.keywords_yes)
        self._checkable = catalogue.population.people > 1  #: someone else's computer may confirm an answer
        self._chooser = VersionChooser(request, catalogue, limits, budget, rng, now=now)
        self._workload: Workload | None = None
        self._tally = Tally()
        self._choices: dict[_ChoiceKey, Match | None] = {}
        self._closed: set[AppId] = set()  #: apps without jobs so far that have nothing for this request
        self._taken: set[WorkunitId] = set()
        self._address_space = address_space(request.host.description.os_name)
        self._in_browser = request.in_browser
        # Browsers never confirm each other, so they count as one owner: another visitor may have the job.
        self._code_at_user = Code.AT_A_BROWSER if request.in_browser else Code.ALREADY_AT_USER
        self._left_for_others = limits.left_for_others
        self._first_choice = request.preferences.selected_apps or None  # None: all apps alike

    def run(self, candidates: Iterable[Candidate]) -> None:
        """Walk over the candidates; apps that the volunteer did not select come last, if at all."""
        if self._scored:
            candidates = by_suitability(candidates, self._request, self._apps, self._choice)
        second_choice: list[Candidate] = []
        if self._walk(candidates, second_choice) or not second_choice:
            return
        self._first_choice = None
        if self._request.preferences.allow_non_preferred:
            self._walk(second_choice, [])
        else:
            self._tally_unselected(second_choice)

    def refusals(self) -> tuple[Reason, ...]:
        """Return why the request was not filled; empty if it was."""
        wanted = self._budget.open
        if self.assignments and not wanted:
            return ()
        found = self._tally.reasons(ram_bytes=self._request.ram_bytes, disk_bytes=self._budget.disk_left)
        if found:
            return by_importance(found)
        if self.assignments:
            return tuple(explain(Code.NO_TASKS_OF_TYPE, subject=resource) for resource in sorted(wanted))
        return (explain(Code.NO_TASKS),)

    def _walk(self, candidates: Iterable[Candidate], second_choice: list[Candidate]) -> bool:
        """Give what can be given; True when the walk was ended early."""
        if self._stopped():
            return True
        look = FIRST_LOOK
        chunk: list[Candidate] = []
        first_choice = self._first_choice
        choices = self._choices
        passed = 0
        for candidate in candidates:
            app_id = candidate.app_id
            # The quick way out, before anything else is looked at: this app has nothing for this request.
            if choices.get(app_id, candidate) is None and candidate.app_version_id is None:
                passed += 1
                if passed > LONGEST_WALK and self.assignments:
                    break
                if passed % LONGEST_LOOK == 1 and self._nothing_is_open():
                    break
                continue
            if first_choice is not None and app_id not in first_choice:
                second_choice.append(candidate)
                continue
            if not self._passes(candidate):
                continue
            chunk.append(candidate)
            if len(chunk) >= look:
                if self._give(chunk):
                    return True
                chunk = []
                look = min(4 * look, LONGEST_LOOK)
        return bool(chunk) and self._give(chunk)

    def _nothing_is_open(self) -> bool:
        """Tell whether no app has anything for this request, whatever comes."""
        return not any(
            app.dispatch.homogeneous_app_version  # each job may have a version of its own
            or (self._choices[id_] if id_ in self._choices else self._may_have(id_))
            for id_, app in self._apps.items()
        )

    def _may_have(self, app_id: AppId) -> bool:
        # Refused stays refused, since a budget only shrinks: it is looked at once.
        if app_id not in self._closed and (
            self._refuse_app(app_id) or not isinstance(self._chooser.choose(app_id), Match)
        ):
            self._closed.add(app_id)
        return app_id not in self._closed

    def _passes(self, candidate: Candidate) -> bool:
        """Carry out the checks that need no look-up."""
        match = self._choice(candidate)
        if match is None or not self._is_for_us(candidate):
            return False
        if candidate.hr_class and not self._computes_alike(candidate):
            self._tally.note(Code.HR_CLASS)
            return False
        if self._in_browser and not self._may_be_browsed(candidate, match):
            return False
        if candidate.retry and not self._may_retry(candidate, match):
            self._tally.note(Code.RETRY_RESERVED)
            return False
        if self._once and candidate.workunit_id in self._taken:
            self._tally.note(
                self._code_at_user if self._limits.one_result_per_user_per_wu else Code.ALREADY_AT_HOST
            )
            return False
        return self._fits(candidate, match)

    def _is_for_us(self, candidate: Candidate) -> bool:
        """Return whether a targeted job is for this host, user or team; jobs of others are not even mentioned."""
        if candidate.target_host_id is not None and candidate.target_host_id != self._request.host.id:
            return False
        if candidate.target_user_id is not None and candidate.target_user_id != self._request.host.user_id:
            return False
        return candidate.target_team_id is None or candidate.target_team_id == self._request.team_id

    def _may_be_browsed(self, candidate: Candidate, match: Match) -> bool:
        """Return whether a browser may compute a job: one that others check, and that takes no longer than people stay."""
        app = self._apps[candidate.app_id]
        if candidate.targeted:
            return False
        if not (candidate.replicated or app.dispatch.adaptive):
            self._tally.add((explain(Code.BROWSER_ALONE, app=app.title),))
            return False
        if job_seconds(candidate.limits.rsc_fpops_est, match.usage.flops, match.available) <= BROWSER_SECONDS:
            return True
        self._tally.note(Code.BROWSER_TIME)
        return False

    def _fits(self, candidate: Candidate, match: Match) -> bool:
        """Memory, disk and deadline."""
        job = candidate.limits
        if job.rsc_memory_bound > self._request.ram_bytes:
            self._tally.note(Code.MEMORY, job.rsc_memory_bound)
            return False
        if job.rsc_disk_bound > self._budget.disk_left:
            self._tally.note(Code.DISK, job.rsc_disk_bound)
            return False
        if job.rsc_bandwidth_bound:
            measured = self._request.host.description.n_bwdown
            if 0 < measured < job.rsc_bandwidth_bound:
                self._tally.note(Code.BANDWIDTH, job.rsc_bandwidth_bound, (measured,))
                return False
        if candidate.app_id in self._always:
            return True  # runs beside all others
        delay = self._budget.wants[match.usage.resource].delay
        # A host with nothing queued always gets one job, however slow it is.
        return delay <= 0 or not self._limits.check_deadline or self._in_time(job, match, delay)

    def _in_time(self, job: JobLimits, match: Match, delay: float) -> bool:
        """Return the deadline: with all jobs that the client holds, if it told them, else by its own estimated delay."""
        seconds = job_seconds(job.rsc_fpops_est, match.usage.flops, match.available)
        usage = match.usage
        if (
            self._limits.workload_sim
            and self._request.workload
            and not usage.gpu_type
            and usage.avg_ncpus <= 1
        ):
            if self._known_workload().admits(BookedJob(job.delay_bound, seconds)):
                return True
            if seconds <= job.delay_bound:  # else it would be late without any other work, too
                self._tally.note(Code.DEADLINE_OF_OTHERS)
                return False
        done = delay + seconds
        if done <= job.delay_bound:
            return True
        self._tally.note(Code.DEADLINE, done, (delay, match.available, job.delay_bound))
        return False

    def _known_workload(self) -> Workload:
        if self._workload is None:
            self._workload = Workload(self._request.workload, ncpus=int(self._budget.ncpus))
        return self._workload

    def _hr_class(self, app_id: AppId) -> int:
        """Return the host's class of homogeneous redundancy for this app."""
        app = self._apps.get(app_id)
        if app is None:
            return 0
        return hr_class(self._request.host.description, app.dispatch.homogeneous_redundancy)

    def _computes_alike(self, candidate: Candidate) -> bool:
        """Return whether the host is of the class that the workunit is committed to (if the app still asks for that)."""
        app = self._apps.get(candidate.app_id)
        if app is None or not app.dispatch.homogeneous_redundancy:
            return True
        return candidate.hr_class == self._hr_class(app.id)

    def _may_retry(self, candidate: Candidate, match: Match) -> bool:
        """Return whether this result, which follows a lost one, may go to this host already."""
        rules = self._limits.retries
        if rules.reliable_seconds <= 0 or self._now >= candidate.create_time + rules.reliable_seconds:
            return True
        return self._apps[candidate.app_id].beta or self._is_reliable(match)

    def _is_reliable(self, match: Match) -> bool:
        limits = self._limits
        record = self._budget.record(match.version.id)
        return is_reliable(record, rules=limits.retries, daily_quota=limits.daily_quota)

    def _choice(self, candidate: Candidate) -> Match | None:
        """Return the version for this candidate; found once per app, since most candidates of an app are alike."""
        needs_64_bit = candidate.limits.rsc_memory_bound > self._address_space
        committed = candidate.app_version_id
        key: _ChoiceKey = candidate.app_id
        if needs_64_bit or committed is not None:
            key = (candidate.app_id, committed, needs_64_bit)
        choices = self._choices
        if key in choices:
            return choices[key]
        found = self._refuse_app(candidate.app_id) or self._chooser.choose(
            candidate.app_id, committed=committed, needs_64_bit=needs_64_bit
        )
        if isinstance(found, Match):
            choices[key] = found
            return found
        self._tally.add(found)
        choices[key] = None
        return None

    def _refuse_app(self, app_id: AppId) -> tuple[Reason, ...]:
        app = self._apps.get(app_id)
        if app is None:
            return ()
        if self._in_browser and app.rules.min_quorum < 2:
            return (explain(Code.BROWSER_ALONE, app=app.title),)
        if keyword_score(self._request.preferences, app.dispatch.keywords) is None:
            return (explain(Code.UNWANTED, app=app.title),)
        if app.beta and not self._request.preferences.allow_beta:
            return (explain(Code.BETA_APP, app=app.title),)
        if app.dispatch.homogeneous_redundancy and not self._hr_class(app_id):
            return (explain(Code.HR_UNKNOWN, app=app.title),)
        return ()

    def _give(self, chunk: Sequence[Candidate]) -> bool:
        """Give what is not yet at this user or host; True when nothing more can be given."""
        ids = [candidate.workunit_id for candidate in chunk]
        at_user = _look_up(self._held_by_user, ids)
        at_host = _look_up(self._held_by_host, ids)
        for candidate in chunk:
            if candidate.workunit_id in at_user:
                self._tally.note(self._code_at_user)
            elif candidate.workunit_id in at_host:
                self._tally.note(Code.ALREADY_AT_HOST)
            elif self._left_for_others:
                self._left_for_others -= candidate.workunit_id not in self._taken
                self._taken.add(candidate.workunit_id)
                self._tally.note(Code.NETWORK_SHARE)
            # What was given or left since the first check may have changed the answer.
            elif not self._taken or self._passes(candidate):
                self._assign(candidate)
                if self._stopped():
                    return True
        return False

    def _assign(self, candidate: Candidate) -> None:
        match = self._choice(candidate)
        if match is None:
            return
        job = candidate.limits
        usage = match.usage
        seconds = job_seconds(job.rsc_fpops_est, usage.flops, match.available)
        app = self._apps[candidate.app_id]
        rules = app.dispatch
        self.assignments.append(
            Assignment(
                candidate=candidate,
                version=match.version,
                platform=match.platform,
                usage=usage,
                report_deadline=self._now + self._delay(candidate, match, seconds),
                estimated_seconds=seconds,
                hr_class=self._hr_class(app.id) if rules.homogeneous_redundancy else 0,
                commit_version=rules.homogeneous_app_version,
                quorum=self._quorum(app, candidate, match),
            )
        )
        self._taken.add(candidate.workunit_id)
        budget = self._budget
        budget.disk_left -= job.rsc_disk_bound
        budget.take(app, match.version.id, usage, seconds)
        if self._workload is not None:
            self._workload.add(BookedJob(job.delay_bound, seconds))
        if rules.non_cpu_intensive:
            self._always.discard(app.id)
        if (
            rules.non_cpu_intensive
            or usage.resource not in budget.open
            or budget.refuse(app, match.version.id, usage.resource)
        ):
            # Refused stays refused here as well; what was possible is looked at again.
            for key in [key for key, choice in self._choices.items() if choice is not None]:
                del self._choices[key]

    def _delay(self, candidate: Candidate, match: Match, seconds: float) -> float:
        """Seconds until the deadline: reliable hosts may get less for a retry."""
        full = candidate.limits.delay_bound
        if self._in_browser:
            full = min(full, BROWSER_DELAY_BOUND)
        retries = self._limits.retries
        if not candidate.retry or retries.delay_factor >= 1 or not self._is_reliable(match):
            return full
        return shortened_delay(full, seconds, retries)

    def _quorum(self, app: App, candidate: Candidate, match: Match) -> int:
        """How many results must agree on this job: spot checks, and hosts that failed lately; 0 if as it is."""
        if (
            candidate.replicated
            or candidate.target_host_id is not None
            or candidate.target_user_id is not None
        ):
            return 0  # (a job for one person's computers is checked by no one)
        record = self._budget.record(match.version.id)
        if app.dispatch.adaptive:
            checked = must_replicate(record.statistics.consecutive_valid, self._rng) or failed_lately(record)
            return app.rules.min_quorum if checked else 0
        comparable = app.comparison.kind != "trivial" and not app.dispatch.non_cpu_intensive
        return CHECK_QUORUM if comparable and self._checkable and failed_lately(record) else 0

    def _stopped(self) -> bool:
        if not self._budget.open and not self._always:
            return True
        reason = self._budget.stop()
        if reason is None:
            return False
        self._tally.add((reason,))
        return True

    def _tally_unselected(self, candidates: Iterable[Candidate]) -> None:
        """Say which apps would have had tasks, were they selected."""
        seen: set[AppId] = set()
        for candidate in candidates:
            if candidate.app_id in seen:
                continue
            seen.add(candidate.app_id)
            if self._choice(candidate) is not None:
                app = self._apps[candidate.app_id]
                self._tally.add((explain(Code.APP_NOT_SELECTED, app=app.title),))


def _look_up(held: HeldWorkunits, ids: Sequence[WorkunitId]) -> AbstractSet[WorkunitId]:
    return held(ids) if callable(held) else held
