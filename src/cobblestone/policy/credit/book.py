"""The bookkeeping of credit as one pure object, events in and ledger entries out; and partial credit while a job runs.

Partial credit while a job runs, by trickle messages.

Source: wiki page *CreditAlt*; BOINC's trickle handler for credit (server-semantics: trickle credit): credit
= min(run time, limit) x Whetstone, the speed at most the 95th percentile of the hosts, the median when it
is unusable; for the recent average, the work began a day ago.

As the CreditNew design has it, and unlike the deployed handler, the message names its result: it must be in
progress on the host that sends it, and the run times of all its messages fit into the time since it was
sent.  All of them bring at most what the job's bound is worth, and those of all open jobs of a person at most what one
processor earns in a week and what the person's results earned so far (`owner_allowance`).  The credit is provisional: at
validation only the rest is granted, and a result that ends otherwise loses it.

The bookkeeping of credit as one pure object: events in, ledger entries and changed rows out.

`CreditBook` holds what is known of hosts, app versions and apps, and `CreditBook.apply` says what an event makes of it:

* `ResultsJudged`: the validator found results of a workunit valid or wrong.  The valid ones claim and are granted by the
  app's credit system; hosts are judged; statistics take what the results teach; each valid result gets an `Entry`.
* `JobSent`, `JobLost`: a host was given a job; it ended in an error or did not come back.
* `MessageReceived`: a job that is running reports its run time by a trickle message.
* `RecordTaken`: a record of a host went over to another app version or host.

The order within `ResultsJudged` is part of the rules: claims see the rows as they were before the event, and hosts are judged
before anything is learned, so that a suspicion outlives the result that raised it.

The validator, the laboratory's replay and the audit of the ledger drive the same book.  Each puts the rows in that it starts
from; rows that are not there are fresh ones.  Totals are kept by `cobblestone.policy.credit.rac`.
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field, replace

from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import (
    DAY,
    AppId,
    AppVersionId,
    HostId,
    ResultId,
    UserId,
    WorkunitId,
    changed,
    value,
)
from cobblestone.policy.credit import host_records
from cobblestone.policy.credit.claims import (
    DEPLOYED,
    MAX_SECONDS,
    AppStatistics,
    ClaimInput,
    CreditUnit,
    StatisticIncrements,
    Statistics,
    VersionStatistics,
    WorkunitFacts,
)
from cobblestone.policy.credit.host_records import app_after, host_version_after, version_after
from cobblestone.policy.credit.system import CreditSystem, GrantOutcome, ResultCredit, grant_workunit


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleFacts:
    """One message and the result that it names."""

    run_time: float  #: seconds since the last message, as reported
    p_fpops: float  #: Whetstone of the host, operations/s
    in_progress: bool  #: the result is in progress on the host that sent the message
    sent_time: float  #: of the result, Unix seconds
    credited_run_time: float = 0.0  #: seconds of it that earlier messages were granted for
    most_credit: float = math.inf  #: what the job's rsc_fpops_bound is worth
    credited: float = 0.0  #: what earlier messages of the job brought
    owner_most_credit: float = math.inf  #: the `owner_allowance` of the person who owns the host
    owner_credited: float = 0.0  #: what messages of the person's jobs that are not valid yet brought


#: So long one processor is believed whose owner has returned nothing yet, seconds.
FIRST_WINDOW = 7 * DAY

#: How far back messages of jobs that are not valid yet are looked for, seconds.
OPEN_WINDOW = 26 * FIRST_WINDOW


def owner_allowance(
    *, returned: float, speed: float, known_since: float, rules: TrickleRules, unit: CreditUnit, now: float
) -> float:
    """Most credit that messages may have brought a person for jobs that are not valid yet.

    One processor's since the host first called (``known_since``, Unix seconds), at most `FIRST_WINDOW`, whatever number of
    processors is claimed; and as much again as the person was granted for good (``returned``).  Records of computers and
    their merging change nothing.
    """
    seconds = max(0.0, min(now - known_since, FIRST_WINDOW))
    return unit.of_flops(seconds * _speed(speed, rules)[0]) + max(0.0, returned)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleRules:
    """Limits of partial credit, chosen per app."""

    max_run_time: float = DAY  #: seconds of one message
    median_speed: float = 3.3e9  #: of the project's active hosts, operations/s
    percentile_95_speed: float = 3.3e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleGrant:
    """Provisional credit of one message."""

    amount: float
    run_time: float  #: seconds that were granted for
    work_start: float  #: for the recent average, Unix seconds
    reasons: tuple[Reason, ...] = ()


def grant_trickle(
    facts: TrickleFacts, rules: TrickleRules, *, unit: CreditUnit = DEPLOYED, now: float
) -> TrickleGrant:
    """Return what a trickle message is worth at ``now`` (Unix seconds); never an error, whatever the message
    says."""
    start = now - DAY
    if not facts.in_progress:
        why = reason("not_in_progress", "The result is not in progress on this host: nothing is granted.")
        return TrickleGrant(amount=0.0, run_time=0.0, work_start=start, reasons=(why,))
    if not 0.0 < facts.run_time < math.inf:
        why = reason(
            "number_refused", "Run time {value} is unusable: nothing is granted.", value=str(facts.run_time)
        )
        return TrickleGrant(amount=0.0, run_time=0.0, work_start=start, reasons=(why,))
    possible = max(0.0, min(now - facts.sent_time, MAX_SECONDS) - facts.credited_run_time)
    seconds = min(facts.run_time, rules.max_run_time, possible)
    reasons: list[Reason] = []
    if seconds < facts.run_time:
        reasons.append(
            reason(
                "run_time_bounded",
                "Run time {value} s counts as {limit} s: at most {most} s per message, {possible} s "
                "since the task was sent.",
                value=facts.run_time,
                limit=seconds,
                most=rules.max_run_time,
                possible=possible,
            )
        )
    speed, why_speed = _speed(facts.p_fpops, rules)
    amount = unit.of_flops(seconds * speed)
    why = reason(
        "trickle", "{amount}: {seconds} s x {speed} per second.", amount=amount, seconds=seconds, speed=speed
    )
    amount, why_less = _within_bounds(amount, facts)
    return TrickleGrant(
        amount=amount, run_time=seconds, work_start=start, reasons=(*reasons, *why_speed, why, *why_less)
    )


def _within_bounds(amount: float, facts: TrickleFacts) -> tuple[float, list[Reason]]:
    """Return what the bounds of job and owner leave of an amount, and why it is less."""
    reasons: list[Reason] = []
    for most, before, why in (
        (
            facts.most_credit,
            facts.credited,
            reason(
                "beyond_bound",
                "The job's bound is worth {most}, of which messages have already granted {before}.",
                most=facts.most_credit,
                before=facts.credited,
            ),
        ),
        (
            facts.owner_most_credit,
            facts.owner_credited,
            reason(
                "beyond_returned",
                "Until more of this person's results are valid, messages grant at most {most}, of which {before} is granted.",
                most=facts.owner_most_credit,
                before=facts.owner_credited,
            ),
        ),
    ):
        if amount > most - before:
            amount = max(0.0, most - before)
            reasons.append(why)
    return amount, reasons


def _speed(p_fpops: float, rules: TrickleRules) -> tuple[float, list[Reason]]:
    """Speed that counts, and why it is not the reported one."""
    if not 0.0 < p_fpops < math.inf:
        speed = rules.median_speed
        return speed, [
            reason("speed_unknown", "No usable benchmark: the median speed {speed} is used.", speed=speed)
        ]
    if p_fpops > rules.percentile_95_speed:
        speed = rules.percentile_95_speed
        return speed, [
            reason("speed_bounded", "Benchmark above that of 95 % of the hosts: {speed}.", speed=speed)
        ]
    return p_fpops, []


#: A host, and an app version or (anonymous platform) a generalised id.
RecordKey = tuple[HostId, AppVersionId]


@value(kw_only=True)
class GrantTerms:
    """By which system, in which unit and up to which amount an app's results are granted."""

    system: CreditSystem
    unit: CreditUnit = DEPLOYED
    max_granted: float = DEPLOYED.tflops_year  #: of a single grant


# -------------------------------------------------------------------------------------------------- events


@value(kw_only=True)
class ResultsJudged:
    """Results of a workunit were found valid or wrong; the valid ones are due credit.

    What `ClaimInput.host_version` holds does not matter: the book has the record.
    """

    terms: GrantTerms
    app_id: AppId
    workunit_id: WorkunitId
    workunit: WorkunitFacts
    valid: Sequence[ClaimInput] = ()  #: in the order of their ids; a straggler comes alone
    verdicts: Sequence[tuple[RecordKey, bool]] = ()  #: whose result was valid (or not), in the order of ids
    replicated: bool = True  #: a job that no one else computed proves nothing about its host
    straggler: bool = False  #: valid after the canonical result was found: gets the same
    amounts_known: bool = True  #: False: the project has not said what results are worth
    now: float


@value(kw_only=True)
class JobSent:
    """A host was given a job with ``delay_bound`` seconds to run."""

    key: RecordKey
    delay_bound: float
    now: float


@value(kw_only=True)
class JobLost:
    """A job ended in an error, or its deadline passed."""

    key: RecordKey
    delay_bound: float
    now: float


@value(kw_only=True)
class MessageReceived:
    """A trickle message of a running job; the book knows what earlier messages of the job and the person brought."""

    result_id: ResultId
    user_id: UserId
    facts: TrickleFacts
    rules: TrickleRules
    unit: CreditUnit = DEPLOYED
    now: float


@value(kw_only=True)
class RecordTaken:
    """The statistics of ``earlier`` now belong to ``later``; ``earlier`` no longer has a record."""

    earlier: RecordKey
    later: RecordKey


Event = ResultsJudged | JobSent | JobLost | MessageReceived | RecordTaken


# ------------------------------------------------------------------------------------------------- entries


@value(kw_only=True)
class GrantFacts:
    """Facts behind one grant: enough to compute it again."""

    result: ClaimInput  #: as reported, before it was bounded
    workunit: WorkunitFacts
    app: AppStatistics
    version: VersionStatistics
    max_granted: float
    straggler: bool = False
    canonical_credit: float = 0.0  #: what a straggler gets


@value(kw_only=True)
class MessageFacts:
    """Facts behind the provisional credit of one message."""

    message: TrickleFacts
    rules: TrickleRules


@value(kw_only=True)
class BookEntry:
    """The grant of a result, by the validator or by a message, and its reasons."""

    credit: ResultCredit
    work_start: float  #: for the recent averages, Unix seconds
    facts: GrantFacts | MessageFacts


@dataclass(slots=True)
class ChangedRows:
    """Keys of the rows that events changed, for the code that stores them."""

    hosts: set[RecordKey] = field(default_factory=set[RecordKey])
    versions: set[AppVersionId] = field(default_factory=set[AppVersionId])
    apps: set[AppId] = field(default_factory=set[AppId])
    canonical_credit: set[WorkunitId] = field(default_factory=set[WorkunitId])
    messages: set[ResultId] = field(default_factory=set[ResultId])


_FRESH = HostVersionStatistics()


class CreditBook:
    """All that credit depends on and changes, but for totals."""

    def __init__(self) -> None:
        """Begin without rows."""
        self.hosts: MutableMapping[RecordKey, HostVersionStatistics] = {}
        #: all and only versions of the project: what own builds and purged versions teach has no row
        self.versions: dict[AppVersionId, VersionStatistics] = {}
        self.apps: dict[AppId, AppStatistics] = {}
        #: what stragglers of a workunit get
        self.canonical_credit: dict[WorkunitId, float] = {}
        #: run time that messages of a job were credited for, and credit
        self.messages: MutableMapping[ResultId, tuple[float, float]] = {}
        #: credit that messages of a person's open jobs brought
        self.owner_messages: MutableMapping[UserId, float] = {}
        self.changed = ChangedRows()

    def apply(self, event: Event) -> list[BookEntry]:
        """Change the rows as the event demands; the ledger entries that it brings, in the order of its results.

        Raises:
            PolicyViolation: the credit system answered for another number of results than it was asked about.
        """
        match event:
            case ResultsJudged():
                return self._judge(event)
            case MessageReceived():
                return self._credit_message(event)
            case JobSent(key=key):
                record = self._record(key)
                self._set_record(
                    key, host_records.after_sending(record, delay_bound=event.delay_bound, now=event.now)
                )
            case JobLost(key=key):
                record = self._record(key)
                self._set_record(
                    key, host_records.after_failure(record, delay_bound=event.delay_bound, now=event.now)
                )
            case RecordTaken():
                self._set_record(event.later, self.hosts.pop(event.earlier, _FRESH))
        return []

    def _judge(self, event: ResultsJudged) -> list[BookEntry]:
        inputs = [
            changed(facts, host_version=self._record((facts.host_id, facts.app_version_id)))
            for facts in event.valid
        ]
        outcome = self._grant(event, inputs) if inputs else None
        facts = self._facts(event, inputs)
        for key, valid in event.verdicts:
            record = self._record(key)
            self._set_record(
                key,
                host_records.after_valid(record, replicated=event.replicated, now=event.now)
                if valid
                else host_records.after_invalid(record),
            )
        if outcome is None:
            return []
        if not event.straggler:
            self.canonical_credit[event.workunit_id] = outcome.canonical_credit
            self.changed.canonical_credit.add(event.workunit_id)
        if outcome.pending and not event.amounts_known:
            return []
        self._learn(event.app_id, outcome.increments)
        return [
            BookEntry(credit=credit, work_start=fact.result.sent_time, facts=fact)
            for credit, fact in zip(outcome.results, facts, strict=True)
        ]

    def _credit_message(self, event: MessageReceived) -> list[BookEntry]:
        seconds, credited = self.messages.get(event.result_id, (0.0, 0.0))
        of_owner = self.owner_messages.get(event.user_id, 0.0)
        facts = replace(event.facts, credited_run_time=seconds, credited=credited, owner_credited=of_owner)
        grant = grant_trickle(facts, event.rules, unit=event.unit, now=event.now)
        if grant.amount <= 0.0:
            return []
        self.messages[event.result_id] = seconds + grant.run_time, credited + grant.amount
        self.owner_messages[event.user_id] = of_owner + grant.amount
        self.changed.messages.add(event.result_id)
        credit = ResultCredit(
            result_id=event.result_id, claimed=grant.amount, granted=grant.amount, reasons=grant.reasons
        )
        sources = MessageFacts(message=facts, rules=event.rules)
        return [BookEntry(credit=credit, work_start=grant.work_start, facts=sources)]

    # ------------------------------------------------------------------------------------------- steps

    def _grant(self, event: ResultsJudged, inputs: list[ClaimInput]) -> GrantOutcome:
        terms = event.terms
        statistics = Statistics(app=self.apps.get(event.app_id, AppStatistics()), versions=self.versions)
        of_canonical = self.canonical_credit.get(event.workunit_id, 0.0)
        return grant_workunit(
            terms.system,
            event.workunit,
            inputs,
            statistics,
            unit=terms.unit,
            max_granted=terms.max_granted,
            canonical_credit=of_canonical if event.straggler else None,
            now=event.now,
        )

    def _facts(self, event: ResultsJudged, inputs: list[ClaimInput]) -> list[GrantFacts]:
        """Return the facts for the entries: the rows as the claims saw them."""
        app = self.apps.get(event.app_id, AppStatistics())
        canonical_credit = self.canonical_credit.get(event.workunit_id, 0.0)
        return [
            GrantFacts(
                result=one,
                workunit=event.workunit,
                app=app,
                version=self.versions.get(one.app_version_id, VersionStatistics()),
                max_granted=event.terms.max_granted,
                straggler=event.straggler,
                canonical_credit=canonical_credit,
            )
            for one in inputs
        ]

    def _learn(self, app_id: AppId, increments: StatisticIncrements) -> None:
        for host in increments.host_versions:
            key = (host.host_id, host.app_version_id)
            self._set_record(key, host_version_after(self._record(key), host))
        for version in increments.versions:
            before = self.versions.get(version.app_version_id)
            if before is not None:
                self.versions[version.app_version_id] = version_after(before, version)
                self.changed.versions.add(version.app_version_id)
        if increments.app is not None and app_id in self.apps:
            self.apps[app_id] = app_after(self.apps[app_id], increments.app)
            self.changed.apps.add(app_id)

    def _record(self, key: RecordKey) -> HostVersionStatistics:
        return self.hosts.get(key) or _FRESH

    def _set_record(self, key: RecordKey, record: HostVersionStatistics) -> None:
        self.hosts[key] = record
        self.changed.hosts.add(key)
