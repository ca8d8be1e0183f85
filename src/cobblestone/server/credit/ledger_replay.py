"""Audit of the ledger system: all that happened is applied again, and must bring the entries and records that there are.

Events and entries of an app have the same order, so they are read side by side: what an event moves waits for its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from cobblestone.api_schema.operation import CreditDifference
from cobblestone.domain.values import AppId
from cobblestone.policy.credit.ledger_credit import LEDGER_RULES
from cobblestone.policy.credit.ledger_system.book import LedgerBook
from cobblestone.policy.credit.ledger_system.records import Event
from cobblestone.store.credit import ledger, ledger_state
from cobblestone.store.credit.ledger import LedgerLine
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.spilled import Spilled

#: Kind of an entry and its result; of a settlement, the number of its event and the record.
Key = tuple[Any, ...]

_UNKNOWN = "no event of the ledger system brings it"
_MISSING = "an event brings it, but no entry has it"


class _AppReplay:
    """The events of one app, as far as they were applied, and what they moved that has no entry yet."""

    def __init__(self, events: Iterator[tuple[int, Event]]) -> None:
        self.book = LedgerBook()
        self.book.hosts = Spilled()
        self.waiting: dict[Key, float] = {}
        self.seq = 0
        self._events = events

    def take(self, key: Key, seq: int | None) -> float | None:
        """Return the amount of an entry by the event of this number (None: any), and wait for it no longer."""
        while key not in self.waiting and (seq is None or self.seq < seq) and self.step():
            pass
        return self.waiting.pop(key, None)

    def step(self) -> bool:
        """Apply the next event; return whether there was one."""
        self.seq, event = next(self._events, (self.seq, None))
        if event is None:
            return False
        moves = self.book.apply(event)
        self.book.changed_hosts.clear()
        for price in moves.prices:
            kind = ledger.ESCROW if price.provisional else ledger.GRANT
            self.waiting[kind, price.result_id] = price.amount
        self.waiting |= {(ledger.RELEASE, result_id): 0.0 for result_id in moves.released}
        self.waiting |= {(ledger.REVOKE, result_id): 0.0 for result_id in moves.revoked}
        self.waiting |= {(ledger.SETTLEMENT, self.seq, key): amount for key, amount in moves.settled.items()}
        return True


class LedgerReplay:
    """All apps that have, or had, the ledger system."""

    def __init__(
        self, db: Database, note: Callable[[CreditDifference], None], app_of: Callable[[LedgerLine], AppId]
    ) -> None:
        self._db = db
        self._note = note
        self._app_of = app_of
        self._apps = {
            id_: _AppReplay(ledger_state.events(db, id_)) for id_ in ledger_state.apps_with_events(db)
        }

    def check(self, line: LedgerLine) -> None:
        """Compare an entry with what its event moves."""
        app = self._apps.get(self._app_of(line))
        if app is None or line.system not in LEDGER_RULES or line.facts.get("straggler"):
            return
        seq = line.facts.get("event")
        key: Key = (line.kind, line.result_id)
        stored = line.claimed if line.kind in ledger.GRANTS else line.granted
        if line.kind == ledger.SETTLEMENT:
            key = (line.kind, seq, tuple(line.facts["record"]))
        elif line.kind not in (*ledger.GRANTS, ledger.RELEASE, ledger.REVOKE):
            return
        computed = app.take(key, seq)
        if computed is None or (line.kind != ledger.REVOKE and computed != stored):
            note = _UNKNOWN if computed is None else ""
            self._note(CreditDifference("credit_entry", line.id, line.kind, stored, computed, note))

    def compare(self) -> None:
        """Compare what is left, and the records, with those that there are."""
        for app_id, app in self._apps.items():
            while app.step():
                pass
            for key, amount in app.waiting.items():
                if key[0] != ledger.REVOKE:  # of a result that had nothing left, there is no entry
                    self._note(CreditDifference("ledger_event", app_id, str(key), None, amount, _MISSING))
            stored = ledger_state.read_book(self._db, app_id, ())
            for each in ledger_state.escrow_of_hosts(self._db, app_id, None):
                stored.escrow.setdefault(each.key, {})[each.result_id] = each.price
            differ = [
                name
                for name in ("app", "versions", "escrow")
                if getattr(stored, name) != getattr(app.book, name)
            ]
            records = ledger_state.host_records(self._db, app_id)
            if any(app.book.hosts.pop(key, None) != record for key, record in records) or app.book.hosts:
                differ.append("hosts")
            for name in differ:
                note = "is not what the events bring"
                self._note(CreditDifference("ledger_record", app_id, name, None, None, note))
