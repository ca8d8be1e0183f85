"""A project with the ledger system of credit, in memory."""

from __future__ import annotations

from cobblestone.policy.credit.ledger_system.engine import step
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    Event,
    HostKey,
    LedgerRules,
    LedgerState,
    Outcome,
)

UNIT = 1e-12
"""Credits per estimated FLOP."""


class Book:
    """A project's records, and what its hosts were paid."""

    def __init__(self, rules: LedgerRules | None = None) -> None:
        self.rules = rules or LedgerRules()
        self.state = LedgerState(app=AppRecord(unit=UNIT))
        self.paid: dict[HostKey, float] = {}

    def tell(self, event: Event) -> Outcome:
        """Take an event in."""
        outcome = step(self.state, event, self.rules)
        new = outcome.state
        self.state = LedgerState(
            app=new.app,
            versions={**self.state.versions, **new.versions},
            hosts={**self.state.hosts, **new.hosts},
            cells={**self.state.cells, **new.cells},
        )
        for price in outcome.prices:
            self.paid[price.host] = self.paid.get(price.host, 0.0) + price.amount
        for host, change in outcome.corrections.items():
            self.paid[host] = self.paid.get(host, 0.0) + change
        return outcome
