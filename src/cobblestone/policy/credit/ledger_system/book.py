"""The records of one app under the ledger system, and its provisional prices: events in, moves out."""

from __future__ import annotations

import math
from collections.abc import Mapping, MutableMapping
from dataclasses import field

from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import value
from cobblestone.policy.credit.ledger_system import engine, records

#: Credits that are a rounding.
NOTHING = 1e-9


@value(kw_only=True)
class Moves:
    """What an event brings."""

    prices: tuple[records.Price, ...] = ()
    released: tuple[int, ...] = ()  #: results whose price is final now
    revoked: tuple[int, ...] = ()  #: results whose price is taken back
    settled: Mapping[records.HostKey, float] = field(default_factory=dict[records.HostKey, float])
    """What a record gains or loses beside prices and what is taken back of them; for a refused job also if that is nothing."""
    audits: Mapping[records.HostKey, int | None] = field(default_factory=dict[records.HostKey, int | None])
    """How many provisional results are to be computed again; None: all."""
    reasons: tuple[Reason, ...] = ()


class LedgerBook:
    """State of an app under the ledger system; records that are not there are fresh ones."""

    def __init__(
        self, app: records.AppRecord | None = None, rules: records.LedgerRules | None = None
    ) -> None:
        """Begin with an app, and no other records; None: with `Begun`."""
        self.app = app or records.AppRecord(unit=0.0)
        self.rules = rules or records.LedgerRules()
        self.hosts: MutableMapping[records.HostKey, records.HostRecord] = {}
        self.versions: dict[records.VersionKey, records.VersionRecord] = {}
        self.cells: dict[records.CellKey, records.Cell] = {}
        self.escrow: dict[records.HostKey, dict[int, float]] = {}  #: price by result
        self.changed_hosts: set[records.HostKey] = set()
        self.changed_versions: set[records.VersionKey] = set()

    @property
    def state(self) -> records.LedgerState:
        """Return the state that the engine looks at."""
        return records.LedgerState(app=self.app, versions=self.versions, hosts=self.hosts, cells=self.cells)

    def apply(self, event: records.Event) -> Moves:
        """Change the state as an event demands."""
        outcome = engine.step(self.state, event, self.rules)
        if isinstance(event, records.Begun):
            self.rules = records.LedgerRules(early_exits=event.early_exits)
        self.app = outcome.state.app
        self.hosts.update(outcome.state.hosts)
        self.versions.update(outcome.state.versions)
        self.cells.update(outcome.state.cells)
        self.changed_hosts.update(outcome.state.hosts)
        self.changed_versions.update(outcome.state.versions)
        settled = dict(outcome.corrections)
        released = [result for key in outcome.released for result in self.escrow.pop(key, ())]
        right = event.right if isinstance(event, records.AuditFinished) else ()
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
        if isinstance(event, records.JobRefused):
            settled.setdefault(event.host, 0.0)
        return Moves(
            prices=outcome.prices,
            released=tuple(released),
            revoked=tuple(revoked),
            settled=settled,
            audits=outcome.audits,
            reasons=outcome.reasons,
        )
