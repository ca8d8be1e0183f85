"""Prices of the valid results of a job, and what they do to the accounts of their hosts."""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.domain.values import changed
from cobblestone.policy.credit.ledger_system import rules as formula
from cobblestone.policy.credit.ledger_system.readings import Draft, Partners, Reading, Variances, worth
from cobblestone.policy.credit.ledger_system.records import HostRecord, JobDecided, Price


def prices(
    draft: Draft,
    event: JobDecided,
    readings: Sequence[Reading],
    partners: Sequence[Partners],
    known: Variances,
) -> tuple[Price, ...]:
    """Return the price of each report, by the records before the event; accounts and keepers change."""
    value = worth(draft.app, event.job)
    own, partner, slack = draft.app.own, draft.app.partner, draft.rules.slack
    provisional = event.quorum < 3 and len(event.reports) <= event.quorum
    found: list[Price] = []
    for reading, others in zip(readings, partners, strict=True):
        report = reading.report
        host = draft.host(report.host)
        amount = value
        if len(readings) == 1:
            w = formula.weight(known.size, reading.precision)
            r = formula.tail_share(w, known.size, known.noise)
            factor = formula.size_factor(reading.u, w, r, known.tail, known.size)
            amount = formula.own_price(value, factor / draft.app.own.factor, host.bank, slack)
            own = own.after(value, formula.kept_factor(factor, known.size, known.noise))
        elif others.count:
            amount = value * (others.factor / draft.app.partner.factor)
            partner = partner.after(value, others.factor)
        paid_alone = amount if len(readings) == 1 else value
        bank = formula.bank_after(host.bank, value, paid_alone, slack)
        found.append(
            Price(result_id=report.result_id, host=report.host, amount=amount, provisional=provisional)
        )
        after = _paid(
            draft, host, amount, bank, provisional=provisional, checked=report.result_id in event.checked
        )
        draft.hosts[report.host] = after
    draft.app = changed(draft.app, own=own, partner=partner)
    return tuple(found)


def _paid(
    draft: Draft, host: HostRecord, amount: float, bank: float, *, provisional: bool, checked: bool
) -> HostRecord:
    """Return the account after a price: trust, escrow and the stake of the first jobs."""
    rules = draft.rules
    stake = host.stake + (0.5 * amount if host.jobs < rules.staked_jobs else 0.0)
    return changed(
        host,
        bank=bank,
        trusted=host.trusted + 1.0,
        jobs=host.jobs + 1,
        earned=host.earned + amount,
        escrow=(0.0 if checked else host.escrow) + (amount if provisional else 0.0),
        escrow_count=(0 if checked else host.escrow_count) + provisional,
        stake=stake if host.jobs + 1 < rules.stake_until else 0.0,
    )
