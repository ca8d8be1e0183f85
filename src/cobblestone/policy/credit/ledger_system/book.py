"""The records of one app under the ledger system, and its provisional prices: events in, moves out."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import field

from cobblestone.domain.values import value
from cobblestone.policy.credit.ledger_system import engine
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    Cell,
    CellKey,
    Event,
    HostKey,
    HostRecord,
    LedgerRules,
    LedgerState,
    Price,
    VersionKey,
    VersionRecord,
)


@value(kw_only=True)
class Moves:
    """What an event brings."""

    prices: tuple[Price, ...] = ()
    released: tuple[int, ...] = ()  #: results whose price is final now
    revoked: tuple[int, ...] = ()  #: results whose price is taken back
    settled: Mapping[HostKey, float] = field(default_factory=dict[HostKey, float])
    """What a record gains or loses beside prices and what is taken back of them."""
    audits: Mapping[HostKey, int | None] = field(default_factory=dict[HostKey, int | None])
    """How many provisional results are to be computed again; None: all."""


class LedgerBook:
    """State of an app under the ledger system; records that are not there are fresh ones."""

    def __init__(self, app: AppRecord, rules: LedgerRules | None = None) -> None:
        """Begin with an app, and no other records."""
        self.app = app
        self.rules = rules or LedgerRules()
        self.hosts: dict[HostKey, HostRecord] = {}
        self.versions: dict[VersionKey, VersionRecord] = {}
        self.cells: dict[CellKey, Cell] = {}
        self.escrow: dict[HostKey, dict[int, float]] = {}  #: price by result

    @property
    def state(self) -> LedgerState:
        """Return the state that the engine looks at."""
        return LedgerState(app=self.app, versions=self.versions, hosts=self.hosts, cells=self.cells)

    def apply(self, event: Event, right: Collection[int] = ()) -> Moves:
        """Change the state as an event demands.

        ``right``: results that an audit found again; they stay, whatever becomes of the others.
        """
        outcome = engine.step(self.state, event, self.rules)
        self.app = outcome.state.app
        self.hosts.update(outcome.state.hosts)
        self.versions.update(outcome.state.versions)
        self.cells.update(outcome.state.cells)
        settled = dict(outcome.corrections)
        released = [result for key in outcome.released for result in self.escrow.pop(key, ())]
        revoked: list[int] = []
        for key in outcome.revoked:
            prices = self.escrow.pop(key, {})
            released += [result for result in prices if result in right]
            revoked += [result for result in prices if result not in right]
            settled[key] = settled.get(key, 0.0) + math.fsum(prices.values())
        for price in outcome.prices:
            if price.provisional:
                self.escrow.setdefault(price.host, {})[price.result_id] = price.amount
        return Moves(
            prices=outcome.prices,
            released=tuple(released),
            revoked=tuple(revoked),
            settled=settled,
            audits=outcome.audits,
        )
