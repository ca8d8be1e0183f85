"""The records of one app under the ledger system, and its provisional prices: events in, moves out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import value
from cobblestone.policy.credit.ledger_system import engine
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    AuditFinished,
    Begun,
    Cell,
    CellKey,
    Event,
    HostKey,
    HostRecord,
    JobRefused,
    LedgerRules,
    LedgerState,
    Price,
    VersionKey,
    VersionRecord,
)

NOTHING = 1e-9
"""Credits that are a rounding."""


@value(kw_only=True)
class Moves:
    """What an event brings."""

    prices: tuple[Price, ...] = ()
    released: tuple[int, ...] = ()  #: results whose price is final now
    revoked: tuple[int, ...] = ()  #: results whose price is taken back
    settled: Mapping[HostKey, float] = field(default_factory=dict[HostKey, float])
    """What a record gains or loses beside prices and what is taken back of them; for a refused job also if that is nothing."""
    audits: Mapping[HostKey, int | None] = field(default_factory=dict[HostKey, int | None])
    """How many provisional results are to be computed again; None: all."""
    reasons: tuple[Reason, ...] = ()


class LedgerBook:
    """State of an app under the ledger system; records that are not there are fresh ones."""

    def __init__(self, app: AppRecord | None = None, rules: LedgerRules | None = None) -> None:
        """Begin with an app, and no other records; None: with `Begun`."""
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

    def apply(self, event: Event) -> Moves:
        """Change the state as an event demands."""
        outcome = engine.step(self.state, event, self.rules)
        if isinstance(event, Begun):
            self.rules = LedgerRules(early_exits=event.early_exits)
        self.app = outcome.state.app
        self.hosts.update(outcome.state.hosts)
        self.versions.update(outcome.state.versions)
        self.cells.update(outcome.state.cells)
        self.changed_hosts.update(outcome.state.hosts)
        self.changed_versions.update(outcome.state.versions)
        settled = dict(outcome.corrections)
        released = [result for key in outcome.released for result in self.escrow.pop(key, ())]
        right = event.right if isinstance(event, AuditFinished) else ()
        revoked: list[int] = []
        for key in outcome.revoked:
            prices = self.escrow.pop(key, {})
            released += [result for result in prices if result in right]
            revoked += [result for result in prices if result not in right]
            settled[key] = settled.get(key, 0.0) + math.fsum(prices.values())
        for price in outcome.prices:
            if price.provisional:
                self.escrow.setdefault(price.host, {})[price.result_id] = price.amount
        settled = {key: amount for key, amount in settled.items() if abs(amount) > NOTHING}
        if isinstance(event, JobRefused):
            settled.setdefault(event.host, 0.0)
        return Moves(
            prices=outcome.prices,
            released=tuple(released),
            revoked=tuple(revoked),
            settled=settled,
            audits=outcome.audits,
            reasons=outcome.reasons,
        )
