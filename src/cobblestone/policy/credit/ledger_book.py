"""The ledger system beside the book of credit: what happened in an app, in order, and what that moves.

`AppBook` holds the records of one app and its provisional prices.  The validator keeps every
event; so the audit puts all of them into a fresh book and must find the same moves and the same records, to the last digit.

`LedgerSystem` is its face among the credit systems: it pays what the book says, and learns run times as they all do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cobblestone.domain.values import changed, value
from cobblestone.policy.credit.claims import Claim, ClaimInput, CreditContext, Grant, WorkunitFacts
from cobblestone.policy.credit.ledger_system import engine
from cobblestone.policy.credit.ledger_system.book import LedgerBook, Moves
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    AuditFinished,
    CheckFailed,
    Event,
    HostKey,
    JobDecided,
    JobRefused,
    LedgerRules,
    VersionKey,
)
from cobblestone.policy.credit.scales import LearnsRunTimes

LEDGER = "ledger"
LEDGER_RULES: Mapping[str, LedgerRules] = {
    LEDGER: LedgerRules(),
    f"{LEDGER}-early-exits": LedgerRules(early_exits=True),
}
"""Rules by the name under which an app chooses the system; jobs with early exits may end long before their estimate."""


@value(kw_only=True)
class Begun:
    """An app takes the system, or other rules of it."""

    system: str
    unit: float  #: credits per estimated FLOP, unless it is known already
    granted: tuple[
        tuple[float, float], ...
    ] = ()  #: (credit, estimate) of its latest results under another system


@value(kw_only=True)
class Left:
    """An app takes another system: what is provisional becomes final."""


Happening = Begun | Left | Event
KINDS: Mapping[str, type[Happening]] = {
    kind.__name__: kind for kind in (Begun, Left, JobDecided, JobRefused, CheckFailed, AuditFinished)
}
NOTHING = 1e-9
"""Credits that are a rounding."""

Inherited = tuple[HostKey, HostKey]
"""A record, and the one of an earlier version on the same computer that it begins with."""


class AppBook(LedgerBook):
    """The book of an app whose operator may change the system, and which records changed."""

    def __init__(self, app: AppRecord | None = None, rules: LedgerRules | None = None) -> None:
        """Begin with an app as it was stored; None: with `Begun`."""
        super().__init__(app or AppRecord(unit=0.0), rules)
        self.changed_hosts: set[HostKey] = set()
        self.changed_versions: set[VersionKey] = set()

    def take(
        self, event: Happening, inherited: Sequence[Inherited] = (), right: Collection[int] = ()
    ) -> Moves:
        """Change the state as an event demands, after records that it needs took over what they inherit."""
        if isinstance(event, Begun):
            before = self.app if self.app.unit > 0.0 else AppRecord(unit=event.unit)
            self.app, self.rules = engine.linked(before, event.granted), LEDGER_RULES[event.system]
            return Moves()
        if isinstance(event, Left):
            return self._release_all()
        for new, old in inherited:
            self.hosts[new] = engine.inherit(self.hosts[old])
        moves = self.apply(event, right)
        if moves.outcome is not None:
            self.changed_hosts.update(moves.outcome.state.hosts)
            self.changed_versions.update(moves.outcome.state.versions)
        settled = {key: amount for key, amount in moves.settled.items() if abs(amount) > NOTHING}
        return changed(moves, settled=settled)

    def _release_all(self) -> Moves:
        for key in self.escrow:
            self.hosts[key] = changed(self.hosts[key], escrow=0.0, escrow_count=0)
        released = tuple(result for prices in self.escrow.values() for result in prices)
        self.changed_hosts.update(self.escrow)
        self.escrow.clear()
        return Moves(released=released)


@dataclass(frozen=True, slots=True)
class LedgerSystem(LearnsRunTimes):
    """The estimate of a job, corrected by what other computers report; provisional until the computer passes a check."""

    name: str = LEDGER

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Return the price of this result, as the ledger system's book has it."""
        return Claim(amount=facts.claimed_credit)

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Return the price of each result."""
        return Grant(credits=tuple(claim.amount for claim in claims))
