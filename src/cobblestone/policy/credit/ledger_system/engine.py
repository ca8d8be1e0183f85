"""The pure step of the ledger system: (state, event) -> outcome.

Order of a result's life: it is uploaded (`decide_check`: do others compute the job, too?), its workunit is decided
(`third_opinion`: is another report wanted first?  then `step` with `JobDecided`: prices), and at the latest with the next passed
check its price is final.  What a host does not finish is settled once others have finished it (`JobRefused`).
"""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    CheckDecision,
    Event,
    HostRecord,
    Job,
    LedgerRules,
    LedgerState,
    Outcome,
    Price,
    Report,
)


def step(state: LedgerState, event: Event, rules: LedgerRules) -> Outcome:
    """Return prices and changed records of an event.  Every figure in them is finite, whatever was reported."""
    raise NotImplementedError


def decide_check(
    host: HostRecord | None, rules: LedgerRules, *, quorum: int, draw: float, size: float = 1.0
) -> CheckDecision:
    """Return how many more hosts compute a job that this host just uploaded.

    ``quorum``: valid results that the app asks for; ``draw``: a random number in [0, 1) that is drawn now, after the upload;
    ``size``: counted operations / estimate, for `Basis.COUNTED` (jobs that claim more are checked more often).
    """
    raise NotImplementedError


def third_opinion(state: LedgerState, job: Job, reports: Sequence[Report], rules: LedgerRules) -> bool:
    """Return whether the price of two valid results waits for one more trusted host: both say that the job was very long."""
    raise NotImplementedError


def price_part(
    state: LedgerState, job: Job, report: Report, rules: LedgerRules, *, fraction: float, paid: float
) -> Price:
    """Return what a running job is worth provisionally at this share of its work, less what was paid before (never below 0).

    All of it is due back unless the result becomes valid; then its price is due instead.
    """
    raise NotImplementedError


def settled(host: HostRecord) -> float:
    """Return the credit of a record: prices less stake and debt, never below 0.  It includes the escrow."""
    raise NotImplementedError


def inherit(old: HostRecord) -> HostRecord:
    """Return the record of a new version on a host that ran an older one: its effect, its trust, and no better bank.

    Prices, debt, stake and escrow stay with the old record.
    """
    raise NotImplementedError


def linked(app: AppRecord, granted: Sequence[tuple[float, float]]) -> AppRecord:
    """Return an app that begins at the level of another system: (credit, estimate) of its latest valid results.

    The mean credit per estimated FLOP stays, so the sum over jobs does not jump.  Without usable pairs it is unchanged.
    """
    raise NotImplementedError


def level(app: AppRecord, stratum: str = "") -> float:
    """Return credits per estimated FLOP, with which another system can go on without a jump."""
    raise NotImplementedError


def calibrated(app: AppRecord, hosts: Sequence[tuple[float, float]]) -> AppRecord:
    """Return an app on the level of others: (credit, estimated FLOPs here) per device second of hosts that run both.

    The median host gets as much per device second here as elsewhere.
    """
    raise NotImplementedError
