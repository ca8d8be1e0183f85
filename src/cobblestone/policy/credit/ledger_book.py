"""The ledger system beside the book of credit: what happened in an app, in order, and what that moves.

`LedgerBook` holds the records of one app and its provisional prices.  `LedgerBook.apply` takes an event and returns `Moves`:
prices, prices that are final now or taken back, changes of what a computer has beyond its prices.  The validator keeps every
event; so the audit puts all of them into a fresh book and must find the same moves and the same records, to the last digit.

`LedgerSystem` is its face among the credit systems: it pays what the book says, and learns run times as they all do.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from cobblestone.domain.values import changed, value
from cobblestone.policy.credit.claims import Claim, ClaimInput, CreditContext, Grant, WorkunitFacts
from cobblestone.policy.credit.ledger_system import engine
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    AuditFinished,
    Cell,
    CellKey,
    CheckFailed,
    Event,
    HostKey,
    HostRecord,
    JobDecided,
    JobRefused,
    LedgerRules,
    LedgerState,
    Outcome,
    Price,
    VersionKey,
    VersionRecord,
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


@value(kw_only=True)
class Moves:
    """What an event brings."""

    prices: tuple[Price, ...] = ()
    released: tuple[int, ...] = ()  #: results whose price is final now
    revoked: Mapping[int, float] = field(default_factory=dict[int, float])  #: prices taken back, by result
    settled: Mapping[HostKey, float] = field(default_factory=dict[HostKey, float])
    """What a record gains or loses beside prices and what is taken back of them."""
    audits: Mapping[HostKey, int | None] = field(default_factory=dict[HostKey, int | None])
    """How many provisional results are to be computed again; None: all."""
    outcome: Outcome | None = None


class LedgerBook:
    """State of an app under the ledger system; records that are not there are fresh ones."""

    def __init__(self, app: AppRecord | None = None, rules: LedgerRules | None = None) -> None:
        """Begin with an app as it was stored; None: with `Begun`."""
        self.app = app or AppRecord(unit=0.0)
        self.rules = rules or LedgerRules()
        self.hosts: dict[HostKey, HostRecord] = {}
        self.versions: dict[VersionKey, VersionRecord] = {}
        self.cells: dict[CellKey, Cell] = {}
        self.escrow: dict[HostKey, dict[int, float]] = {}  #: price by result
        self.changed_hosts: set[HostKey] = set()
        self.changed_versions: set[VersionKey] = set()

    @property
    def state(self) -> LedgerState:
        """Return the state that the engine looks at."""
        return LedgerState(app=self.app, versions=self.versions, hosts=self.hosts, cells=self.cells)

    def apply(
        self, event: Happening, inherited: Sequence[Inherited] = (), right: Collection[int] = ()
    ) -> Moves:
        """Change the state as an event demands, after records that it needs took over what they inherit.

        ``right``: results that an audit found again; they stay, whatever becomes of the others.
        """
        if isinstance(event, Begun):
            before = self.app if self.app.unit > 0.0 else AppRecord(unit=event.unit)
            self.app, self.rules = engine.linked(before, event.granted), LEDGER_RULES[event.system]
            return Moves()
        if isinstance(event, Left):
            return self._release_all()
        for new, old in inherited:
            self.hosts[new] = engine.inherit(self.hosts[old])
        outcome = engine.step(self.state, event, self.rules)
        self.app = outcome.state.app
        self.hosts.update(outcome.state.hosts)
        self.versions.update(outcome.state.versions)
        self.cells.update(outcome.state.cells)
        self.changed_hosts.update(outcome.state.hosts)
        self.changed_versions.update(outcome.state.versions)
        settled = dict(outcome.corrections)
        released = [result for key in outcome.released for result in self.escrow.pop(key, ())]
        revoked: dict[int, float] = {}
        for key in outcome.revoked:
            prices = self.escrow.pop(key, {})
            released += [result for result in prices if result in right]
            revoked |= {result: price for result, price in prices.items() if result not in right}
            settled[key] = settled.get(key, 0.0) + math.fsum(prices.values())
        for price in outcome.prices:
            if price.provisional:
                self.escrow.setdefault(price.host, {})[price.result_id] = price.amount
        return Moves(
            prices=outcome.prices,
            released=tuple(released),
            revoked=revoked,
            settled={key: amount for key, amount in settled.items() if abs(amount) > NOTHING},
            audits=outcome.audits,
            outcome=outcome,
        )

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
