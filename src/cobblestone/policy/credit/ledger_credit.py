"""The ledger system among the credit systems: it pays what its book says, and learns run times as they all do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cobblestone.policy.credit.claims import Claim, ClaimInput, CreditContext, Grant, WorkunitFacts
from cobblestone.policy.credit.ledger_system.records import LedgerRules
from cobblestone.policy.credit.scales import LearnsRunTimes

#: Rules by the name under which an app chooses the system; jobs with early exits may end long before their estimate.
LEDGER_RULES: Mapping[str, LedgerRules] = {
    "ledger": LedgerRules(),
    "ledger-early-exits": LedgerRules(early_exits=True),
}


@dataclass(frozen=True, slots=True)
class LedgerSystem(LearnsRunTimes):
    """The estimate of a job, corrected by what other computers report; provisional until the computer passes a check; early
    exits: for jobs that may end long before their estimate."""

    name: str

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Return the price of this result, as the ledger system's book has it."""
        return Claim(amount=facts.claimed_credit)

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Return the price of each result."""
        return Grant(credits=tuple(claim.amount for claim in claims))
