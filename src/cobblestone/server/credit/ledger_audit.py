"""Audit of the ledger: everything that the ledger says is computed again from its own facts.

1. Each grant is computed anew by its credit system from the facts that its entry keeps; claim and amount must be the same.
2. Totals and recent averages of all hosts, users, teams and app versions are built up from the entries, in their order, with
   the passes of the daily decay between them; the rows must hold the same.
3. Each result's own figure must be the sum of its entries.
4. Means of hosts and app versions, and the sums of the second system, must be what the entries taught, to the last digit
   (`cobblestone.server.credit.statistics_audit`).
"""

from __future__ import annotations

from collections.abc import Iterator

from cobblestone.domain.ids import AppId, HostId, ResultId, WorkunitId
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.policy.credit.book import (
    CreditBook,
    Entry,
    GrantFacts,
    GrantTerms,
    MessageReceived,
    ResultsJudged,
)
from cobblestone.policy.credit.cobblestone import CreditUnit
from cobblestone.policy.credit.totals import OWNERS, CreditTotals
from cobblestone.server.credit.audit_report import Difference, LedgerAudit
from cobblestone.server.credit.statistics_audit import StatisticsChain
from cobblestone.server.credit.systems import find_system
from cobblestone.store.credit import ledger
from cobblestone.store.credit.credit_facts import read_facts, read_message_facts
from cobblestone.store.credit.ledger import LedgerLine
from cobblestone.store.engine.database import Database

DAMAGED = "entry"
"""Figure of a difference that is an entry which cannot be read."""


def recompute(db: Database) -> LedgerAudit:
    """Replay the ledger, and compare."""
    return _Recomputation(db).run()


class _Recomputation:
    """State of one replay."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._audit = LedgerAudit()
        self._stored = {table: ledger.all_statements(db, table) for table in OWNERS}
        self._totals = CreditTotals()
        self._totals.rows = {
            table: {id_: CreditStatement(0.0, RecentAverage(0.0, made)) for id_, (made, _) in rows.items()}
            for table, rows in self._stored.items()
        }
        for host_id, made in ledger.creation_before_merges(db).items():
            self._totals.rows["host"][host_id] = CreditStatement(0.0, RecentAverage(0.0, made))
        self._of_result: dict[int, float] = {}
        self._book = CreditBook()
        self._statistics = StatisticsChain(db, self._book, self._audit)

    def run(self) -> LedgerAudit:
        passes = iter(ledger.decay_passes(self._db))
        next_pass = next(passes, None)
        for group in grouped(ledger.ledger(self._db, self._note_damage)):
            self._statistics.follow_until(group[0].id)
            self._check_amounts(group)
            for line in group:
                while next_pass is not None and next_pass.last_entry_id < line.id:
                    self._decay(next_pass)
                    next_pass = next(passes, None)
                try:
                    self._add(line)
                except (KeyError, TypeError, ValueError) as error:
                    self._note_damage(ledger.DamagedEntry(line.id, f"its facts do not fit it ({error})"))
        while next_pass is not None:
            self._decay(next_pass)
            next_pass = next(passes, None)
        self._compare()
        return self._audit

    def _note_damage(self, damage: ledger.DamagedEntry) -> None:
        self._audit.note(Difference("credit_entry", damage.entry_id, DAMAGED, None, None, damage.problem))

    def _add(self, line: LedgerLine) -> None:
        self._audit.entries += 1
        self._of_result[line.result_id] = self._of_result.get(line.result_id, 0.0) + line.granted
        if line.kind == ledger.MERGE:
            self._totals.merge("host", line.facts["from_host"], line.host_id, now=line.time)
        elif line.kind == ledger.CORRECTION:
            granted_time = float(line.facts["granted_time"])
            self._totals.correct(line.owners(), credit=line.granted, granted_time=granted_time, now=line.time)
        else:
            self._totals.credit([(line.owners(), line.granted, line.work_start)], now=line.time)

    def _decay(self, done: ledger.DecayPass) -> None:
        self._totals.decay(done.table, range(done.first_id, done.last_id + 1), now=done.time)

    def _check_amounts(self, group: list[LedgerLine]) -> None:
        first = group[0]
        if first.kind == ledger.CORRECTION:
            self._audit.corrections += 1
        if first.kind in (ledger.CORRECTION, ledger.MERGE):
            return
        try:
            entries = self._message_again(first) if first.kind == ledger.TRICKLE else self._grant_again(group)
        except Exception as error:  # noqa: BLE001  # damaged facts fail in any way, and the others must be proved too
            note = f"cannot be computed again: {error or type(error).__name__}"
            self._audit.note(Difference("credit_entry", first.id, "facts", None, None, note))
            if first.kind == ledger.GRANT:
                self._statistics.skip(group)
            return
        if len(entries) != len(group):
            note = f"{len(group)} entries stand there, and the facts give {len(entries)}"
            self._audit.note(Difference("credit_entry", first.id, "facts", None, None, note))
        for line, entry in zip(group, entries, strict=False):
            self._audit.grants += 1
            self._audit.compare("credit_entry", line.id, "claimed", line.claimed, entry.credit.claimed)
            self._audit.compare("credit_entry", line.id, "granted", line.granted, entry.credit.granted)

    def _grant_again(self, group: list[LedgerLine]) -> list[Entry]:
        """Grant a group anew from the facts in its entries.

        Raises:
            ConfigError: its credit system is not installed any more.
        """
        first = group[0]
        facts = [
            read_facts(
                line.facts,
                result_id=line.result_id,
                host_id=line.host_id,
                app_version_id=line.app_version_id,
            )
            for line in group
        ]
        terms = GrantTerms(
            system=find_system(first.system),
            unit=CreditUnit(first.unit),
            max_granted=facts[0].max_granted,
        )
        app_id = self._statistics.adopt(group, facts)
        return self._book.apply(_judged_again(first, facts, terms, app_id, self._book))

    def _message_again(self, line: LedgerLine) -> list[Entry]:
        result_id, facts = ResultId(line.result_id), read_message_facts(line.facts)
        told, host_id = facts.message, HostId(line.host_id)
        self._book.messages[result_id] = told.credited_run_time, told.credited
        self._book.host_messages[host_id] = told.host_credited
        event = MessageReceived(
            result_id=result_id,
            host_id=host_id,
            facts=told,
            rules=facts.rules,
            unit=CreditUnit(line.unit),
            now=line.time,
        )
        return self._book.apply(event)

    def _compare(self) -> None:
        self._statistics.compare()
        audit = self._audit
        for table, rows in self._stored.items():
            audit.rows[table] = len(rows)
            for row_id, (_, stored) in rows.items():
                computed = self._totals.rows[table][row_id]
                audit.compare(table, row_id, "total", stored.total, computed.total)
                audit.compare(table, row_id, "average", stored.recent.value, computed.recent.value)
                if computed.recent.value:
                    audit.compare(table, row_id, "average_time", stored.recent.time, computed.recent.time)
        granted = ledger.granted_credits(self._db)
        audit.rows["result"] = len(granted)
        for result_id, amount in granted.items():
            audit.compare("result", result_id, "granted", amount, self._of_result.get(result_id, 0.0))


def grouped(lines: Iterator[LedgerLine]) -> Iterator[list[LedgerLine]]:
    """Entries that were granted together: those of the replicas of a workunit; any other entry stands alone."""
    group: list[LedgerLine] = []
    for line in lines:
        alone = line.kind != ledger.GRANT or bool(line.facts.get("straggler"))
        fits = group and not alone and line.workunit_id == group[0].workunit_id and line.time == group[0].time
        if group and not fits:
            yield group
            group = []
        group.append(line)
        if alone:
            yield group
            group = []
    if group:
        yield group


def _judged_again(
    line: LedgerLine, facts: list[GrantFacts], terms: GrantTerms, app_id: AppId, book: CreditBook
) -> ResultsJudged:
    """Return the event behind a group of entries; what its hosts had done before stands in the facts."""
    workunit_id = WorkunitId(line.workunit_id)
    book.canonical_credit = {workunit_id: facts[0].canonical_credit}
    return ResultsJudged(
        terms=terms,
        app_id=app_id,
        workunit_id=workunit_id,
        workunit=facts[0].workunit,
        valid=[each.result for each in facts],
        straggler=facts[0].straggler,
        now=line.time,
    )
