"""The reasons of the ledger system, in words for volunteers and operators."""

from __future__ import annotations

from cobblestone.domain.reasons import Reason, reason
from cobblestone.policy.credit.ledger_system import rules as formula
from cobblestone.policy.credit.ledger_system.readings import Partners
from cobblestone.policy.credit.ledger_system.records import HostRecord, LedgerRules

RELEASED = reason("ledger_released", "Final: this computer passed a check.")
LEFT = reason("ledger_left", "Final: the app has another credit system now.")
HELD = reason(
    "ledger_held",
    "Part of the first credit of a new computer is held, and paid later, less what unfinished jobs cost.",
)


def estimate_only(value: float) -> Reason:
    """Say that no report tells how long the job was."""
    return reason("ledger_estimate", "Granted {amount}: what the job's estimate is worth.", amount=value)


def by_partners(value: float, others: Partners, factor: float) -> Reason:
    """Say what other computers reported."""
    return reason(
        "ledger_partners",
        "Granted {amount}: the estimate is worth {value}, and other computers ({n}) found the job {factor} times as long. Their "
        "reports count with weight {weight}; its own report did not raise the credit.",
        amount=value * factor, value=value, n=others.count, weight=others.weight, factor=factor,
    )  # fmt: skip


def alone(value: float, factor: float, price: float, bank: float) -> Reason:
    """Say what the computer itself reported."""
    return reason(
        "ledger_alone",
        "Granted {amount}: the estimate is worth {value}, and by its own report the job was {factor} times as long. Own reports "
        "only move credit between a computer's own jobs; {bank} is left for later ones.",
        amount=price, value=value, factor=factor, bank=bank,
    )  # fmt: skip


def provisional(host: HostRecord, rules: LedgerRules) -> Reason:
    """Say why a price is in escrow."""
    return reason(
        "ledger_provisional",
        "Provisional until the computer passes its next check. A job of ordinary size is checked with probability {chance}, "
        "drawn after its result arrived.",
        chance=_chance(host, rules),
    )


def refused(charge: float, size: float) -> Reason:
    """Say what an unfinished job cost."""
    return reason(
        "ledger_refused",
        "A job that this computer did not finish took others {size} times its estimate: {charge} is charged to its account.",
        size=size, charge=charge,
    )  # fmt: skip


def check_failed(results: int | None, *, agreed: bool) -> Reason:
    """Say what a wrong result brings."""
    if agreed:
        return reason(
            "ledger_wrong_together",
            "Two computers agreed on a wrong result: all their provisional results are computed again.",
        )
    return reason(
        "ledger_audit",
        "A check found a wrong result: provisional results ({n}) are computed again.",
        n=results or 0,
    )


def audited(amount: float, bad: int) -> Reason:
    """Say whether an audit found more wrong results, and what becomes of the provisional credit."""
    if not bad:
        return reason(
            "ledger_audit_passed", "The results computed again were right: provisional credit is final."
        )
    return reason(
        "ledger_revoked",
        "Of the results computed again, {bad} {bad:was|were} wrong: the provisional credit, {amount}, is taken back.",
        bad=bad, amount=amount,
    )  # fmt: skip


def account(host: HostRecord, rules: LedgerRules) -> tuple[Reason, ...]:
    """Return the account of a computer and an app version in sentences."""
    return (
        reason(
            "ledger_account",
            "{jobs} valid {jobs:job|jobs}, {trusted} since the last failed check; the next one is checked with probability "
            "{chance}. {amount} for {n} {n:result|results} is provisional until the next passed check.",
            jobs=host.jobs, trusted=round(host.trusted), chance=_chance(host, rules), amount=host.escrow, n=host.escrow_count,
        ),
        reason(
            "ledger_bank",
            "Taken off for unfinished jobs ({refused}): {debt}. Held of its first jobs until it has {n} valid ones: {stake}. "
            "Its own reports may raise later credit by {bank}.",
            refused=host.refused, debt=max(0.0, -host.debt) + max(0.0, -host.bank), n=rules.stake_until, stake=host.stake,
            bank=max(0.0, host.bank),
        ),
    )  # fmt: skip


def _chance(host: HostRecord, rules: LedgerRules) -> float:
    return formula.check_probability(host.trusted, rules.check_scale, rules.check_floor, 1.0)
