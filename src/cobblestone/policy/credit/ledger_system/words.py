"""The reasons of the ledger system, in words for volunteers and operators."""

from __future__ import annotations

from cobblestone.domain.reasons import Reason, reason
from cobblestone.policy.credit.ledger_system import rules as formula
from cobblestone.policy.credit.ledger_system.readings import Partners
from cobblestone.policy.credit.ledger_system.records import HostRecord, LedgerRules


def estimate_only(value: float) -> Reason:
    """Say that no report tells how long the job was."""
    return reason("ledger_estimate", "Granted {amount}: what the job's estimate is worth.", amount=value)


def by_partners(value: float, others: Partners, factor: float) -> Reason:
    """Say what other computers reported."""
    return reason(
        "ledger_partners",
        "Granted {amount}: the estimate is worth {value}, and by the report of {n} other computer(s), which count with weight "
        "{weight}, the job is worth {factor} times as much. What this computer reported did not raise it.",
        amount=value * factor,
        value=value,
        n=others.count,
        weight=others.weight,
        factor=factor,
    )


def alone(value: float, factor: float, price: float, bank: float) -> Reason:
    """Say what the computer itself reported."""
    return reason(
        "ledger_alone",
        "Granted {amount}: the estimate is worth {value}, and by its own report the job is worth {factor} times as much. Own "
        "reports only move credit between a computer's own jobs; {bank} is left for later jobs.",
        amount=price,
        value=value,
        factor=factor,
        bank=bank,
    )


def counted(amount: float, operations: float) -> Reason:
    """Say that operations were counted, and compared like results."""
    return reason(
        "ledger_counted",
        "Granted {amount}: {operations} operations, counted the same way on every computer and compared like the result.",
        amount=amount,
        operations=operations,
    )


def timed(amount: float, seconds: float, rate: float, progress: float) -> Reason:
    """Say that the job ran for the time that all jobs of its app run."""
    return reason(
        "ledger_timed",
        "Granted {amount}: {seconds} seconds (at most the app's run time) at {rate} credits per second, which this computer "
        "earned with other jobs, for the share {progress} of the work.",
        amount=amount,
        seconds=seconds,
        rate=rate,
        progress=progress,
    )


def provisional(host: HostRecord, rules: LedgerRules) -> Reason:
    """Say why a price is in escrow."""
    chance = formula.check_probability(host.trusted, rules.check_scale, rules.check_floor, 1.0)
    return reason(
        "ledger_provisional",
        "Provisional until a check of this computer's results is passed; each result is checked with probability {chance}, "
        "drawn after it arrived.",
        chance=chance,
    )


def part(amount: float, fraction: float) -> Reason:
    """Say what a running job is worth by now."""
    return reason(
        "ledger_part",
        "{amount} for the share {fraction} of a running job; taken back unless its result becomes valid.",
        amount=amount,
        fraction=fraction,
    )


def refused(charge: float, size: float, *, replicated: bool) -> Reason:
    """Say what an unfinished job cost."""
    where = "debt" if replicated else "bank"
    return reason(
        "ledger_refused",
        "A job that this computer did not finish took others {size} times its estimate: {charge} is taken off its {where} "
        "(a negative amount is added).",
        size=size,
        charge=charge,
        where=where,
    )


def check_failed(results: int | None, *, agreed: bool) -> Reason:
    """Say what a wrong result brings."""
    if agreed:
        return reason(
            "ledger_wrong_together",
            "Two computers agreed on a result that was wrong: all their provisional results are computed again.",
        )
    if not results:
        return reason("ledger_wrong", "A check found a wrong result: the computer begins again as a new one.")
    return reason(
        "ledger_audit", "A check found a wrong result: {n} provisional results are computed again.", n=results
    )


def audit_passed() -> Reason:
    """Say that an audit found no other wrong result."""
    return reason(
        "ledger_audit_passed", "The results computed again were right: provisional credit is final."
    )


def revoked(amount: float, bad: int) -> Reason:
    """Say that an audit found more wrong results."""
    return reason(
        "ledger_revoked",
        "{bad} of the results computed again were wrong: the provisional credit, {amount}, is taken back.",
        bad=bad,
        amount=amount,
    )


def checked(probability: float, replicas: int, *, newcomer: bool) -> Reason:
    """Say whether others compute a job that was uploaded."""
    if newcomer:
        return reason(
            "ledger_newcomer",
            "The computer has too few trusted jobs: {n} more computer(s) compute this job.",
            n=replicas,
        )
    if replicas:
        return reason(
            "ledger_check", "A check was drawn (probability {chance}): another computer computes the job.",
            chance=probability,
        )  # fmt: skip
    return reason("ledger_no_check", "No check was drawn (probability {chance}).", chance=probability)


def account(host: HostRecord, rules: LedgerRules) -> tuple[Reason, ...]:
    """Return the account of a computer and an app version in sentences."""
    chance = formula.check_probability(host.trusted, rules.check_scale, rules.check_floor, 1.0)
    found = [
        reason(
            "ledger_account",
            "{jobs} valid jobs, {trusted} since the last failed check; the next one is checked with probability {chance}.",
            jobs=host.jobs,
            trusted=host.trusted,
            chance=chance,
        ),
        reason(
            "ledger_escrow",
            "{amount} of {n} results is provisional until the next passed check.",
            amount=host.escrow,
            n=host.escrow_count,
        ),
        reason(
            "ledger_bank",
            "Bank: {bank}. By so much its own reports may still raise prices of its jobs.",
            bank=host.bank,
        ),
    ]
    if host.debt < 0.0:
        found.append(
            reason("ledger_debt", "{debt} is taken off for jobs that it did not finish.", debt=-host.debt)
        )
    if host.stake > 0.0:
        found.append(
            reason(
                "ledger_stake",
                "{stake} of its first jobs is held until it has {n} valid jobs.",
                stake=host.stake,
                n=rules.stake_until,
            )
        )
    return tuple(found)
