"""The pure step of the ledger system: (state, event) -> outcome.

Order of a result's life: it is uploaded (`decide_check`: do others compute the job, too?), its workunit is decided
(`third_opinion`: is another report wanted first?  then `step` with `JobDecided`: prices), and at the latest with the next passed
check its price is final.  What a host does not finish is settled once others have finished it (`JobRefused`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never

from cobblestone.domain.values import changed, float_sum
from cobblestone.policy.credit.ledger_system import rules as formula
from cobblestone.policy.credit.ledger_system import words
from cobblestone.policy.credit.ledger_system.learning import learn
from cobblestone.policy.credit.ledger_system.pricing import prices
from cobblestone.policy.credit.ledger_system.readings import (
    Draft,
    constant,
    independent,
    lowest,
    partners_of,
    read,
    variances,
    worth,
)
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    AuditFinished,
    Begun,
    CheckDecision,
    CheckFailed,
    Event,
    HostKey,
    HostRecord,
    Job,
    JobDecided,
    JobRefused,
    LedgerRules,
    LedgerState,
    Left,
    Outcome,
    Report,
    VersionMet,
)

#: Results in escrow that are run again after a failed check.
AUDITED = 5


def step(state: LedgerState, event: Event, rules: LedgerRules) -> Outcome:
    """Return prices and changed records of an event.  Every figure in them is finite, whatever was reported."""
    draft = Draft(state, rules, state.app)
    match event:
        case Begun():
            app = changed(state.app, unit=event.unit, constant=0.0) if event.unit > 0.0 else state.app
            return Outcome(state=LedgerState(app=app))
        case Left():
            return _left(draft)
        case VersionMet():
            draft.hosts[event.host] = inherit(state.hosts[event.before])
            return Outcome(state=draft.changed())
        case JobDecided():
            return _decided(draft, event)
        case JobRefused():
            return _refused(draft, event)
        case CheckFailed():
            return _check_failed(draft, event)
        case AuditFinished():
            return _audited(draft, event)
    assert_never(event)


def decide_check(
    host: HostRecord | None, rules: LedgerRules, *, quorum: int, draw: float, size: float = 1.0
) -> CheckDecision:
    """Return how many more hosts compute a job that this host just uploaded.

    With a ``quorum`` of two or more, call it when the quorum is complete, for each of its hosts, with the same ``draw``.  Who
    refuses many jobs is checked often: it may choose those that an accomplice has, too.
    ``draw``: a random number in [0, 1) that is drawn after the upload; ``size``: by `relative_size`.
    """
    known = host or HostRecord()
    failed_before = known.jobs > known.trusted
    if quorum > 1 and not failed_before:
        probability = min(
            1.0, max(rules.check_floor, formula.refused_share(known.refused, known.jobs)) * size
        )
    else:
        probability = formula.check_probability(known.trusted, rules.check_scale, rules.check_floor, size)
    replicas = int(draw < probability and quorum < 3)
    return CheckDecision(replicas=replicas, probability=probability)


def relative_size(app: AppRecord, host: HostRecord, job: Job) -> float:
    """Return the value of a job / the mean price of the host's jobs."""
    return worth(app, job) * host.jobs / host.earned if host.earned > 0.0 else 1.0


def third_opinion(state: LedgerState, job: Job, reports: Sequence[Report], rules: LedgerRules) -> bool:
    """Return whether the price of two valid results waits for one more trusted host: both say that the job was very long."""
    if len(reports) != 2 or not independent(*reports):
        return False
    known = variances(state.app, rules)
    draft = Draft(state, rules, state.app)
    return all(read(draft, job, report, known).u > known.tail for report in reports)


def settled(host: HostRecord) -> float:
    """Return the credit of a record: prices less stake, debt and overdrawn bank, never below 0.  It includes the escrow."""
    return formula.settled_credit(host.earned, host.stake, host.debt, host.bank)


def inherit(old: HostRecord) -> HostRecord:
    """Return the record of a new version on a host that ran an older one: its effect and its trust.

    Prices, bank, debt, stake and escrow stay with the old record.
    """
    return HostRecord(
        scale=old.scale,
        effect=old.effect,
        variance=old.variance,
        noise=old.noise,
        trusted=old.trusted,
        jobs=old.jobs,
        refused=old.refused,
    )


def level(app: AppRecord, stratum: str = "") -> float:
    """Return credits per estimated FLOP, with which another system can go on without a jump."""
    return app.unit * math.exp(constant(app, stratum))


def _left(draft: Draft) -> Outcome:
    held = {key: host for key, host in draft.state.hosts.items() if host.escrow_count}
    draft.hosts |= {key: changed(host, escrow=0.0, escrow_count=0) for key, host in held.items()}
    return Outcome(state=draft.changed(), released=tuple(held), reasons=(words.LEFT,))


def _decided(draft: Draft, event: JobDecided) -> Outcome:
    known = variances(draft.app, draft.rules)
    readings = [read(draft, event.job, report, known) for report in event.reports]
    partners = [partners_of(each, readings, known) for each in readings]
    before = {report.host: settled(draft.host(report.host)) for report in event.reports}
    found = prices(draft, event, readings, partners, known)
    learn(draft, event.job, readings, partners, known)
    paid: dict[HostKey, float] = {}
    for price in found:
        paid[price.host] = paid.get(price.host, 0.0) + price.amount
    released = tuple(report.host for report in event.reports if report.result_id in event.checked)
    return Outcome(
        state=draft.changed(),
        prices=found,
        corrections=_corrections(draft, {key: before[key] + paid[key] for key in before}),
        released=released,
    )


def _corrections(draft: Draft, expected: dict[HostKey, float]) -> dict[HostKey, float]:
    """Return by how much the settled credit of hosts differs from what was expected."""
    differences = {key: settled(draft.host(key)) - amount for key, amount in expected.items()}
    return {key: each for key, each in differences.items() if abs(each) > 1e-9 * (1.0 + expected[key])}


def _refused(draft: Draft, event: JobRefused) -> Outcome:
    known = variances(draft.app, draft.rules)
    readings = [read(draft, event.job, report, known) for report in event.reports]
    usable = [each for each in readings if each.precision > 0.0]
    value = worth(draft.app, event.job)
    if not usable or value <= 0.0:
        return Outcome(state=draft.changed())
    app, host = draft.app, draft.host(event.host)
    before = settled(host)
    sizes = [formula.refused_size(each.u, known.size, known.noise, app.length.factor) for each in usable]
    size = float_sum(sizes) / len(sizes)
    if event.replicated:
        factor = partners_of(None, readings, known).factor / app.partner.factor
        if (there := lowest(usable, known)) is not None:
            size, factor = there[0] / app.sizes.factor, there[1] / app.factors.factor
        charge = value * (size - factor)
        host = changed(host, debt=host.debt - charge)
    else:
        charge = value * (size - 1.0)
        host = changed(host, bank=host.bank - charge)
    draft.hosts[event.host] = changed(host, refused=host.refused + 1)
    return Outcome(
        state=draft.changed(),
        corrections=_corrections(draft, {event.host: before}),
        reasons=(words.refused(charge, size),),
    )


def _check_failed(draft: Draft, event: CheckFailed) -> Outcome:
    host = draft.host(event.host)
    results = None if event.agreed else min(AUDITED, host.escrow_count)
    trusted = host.trusted / 4.0 if results else 0.0
    draft.hosts[event.host] = changed(host, trusted=trusted)
    return Outcome(
        state=draft.changed(),
        audits={event.host: results} if host.escrow_count else {},
        reasons=(words.check_failed(results, agreed=event.agreed),),
    )


def _audited(draft: Draft, event: AuditFinished) -> Outcome:
    host = draft.host(event.host)
    before = settled(host)
    right = event.bad <= 0
    draft.hosts[event.host] = changed(
        host,
        trusted=host.trusted if right else 0.0,
        earned=host.earned if right else max(0.0, host.earned - host.escrow),
        escrow=0.0,
        escrow_count=0,
    )
    return Outcome(
        state=draft.changed(),
        corrections=_corrections(draft, {event.host: before}),
        released=(event.host,) if right else (),
        revoked=() if right else (event.host,),
        reasons=(words.audited(host.escrow, event.bad),),
    )
