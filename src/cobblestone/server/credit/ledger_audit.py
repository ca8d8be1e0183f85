"""Proof of the books: everything that the ledger says is computed again from its own facts.

1. Each grant is computed anew by its credit system from the facts that its entry keeps; claim and amount must be the same.
2. Totals and recent averages of all hosts, users, teams and app versions are built up from the entries, in their order, with
   the passes of the daily decay between them; the rows must hold the same.
3. Each result's own figure must be the sum of its entries.
4. Means of hosts and app versions, and the sums of the second system, must be what the entries taught, to the last digit
   (`cobblestone.server.credit.statistics_audit`).
"""

from __future__ import annotations

from collections.abc import Iterator

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.policy.credit.claims import Statistics
from cobblestone.policy.credit.cobblestone import CreditUnit
from cobblestone.policy.credit.rac import corrected, credited, idle_decayed
from cobblestone.policy.credit.system import GrantOutcome, grant_straggler, grant_workunit
from cobblestone.policy.credit.trickle import grant_trickle
from cobblestone.server.credit.audit_report import Difference, Proof
from cobblestone.server.credit.statistics_audit import StatisticsChain
from cobblestone.server.credit.systems import find_system
from cobblestone.store.credit import ledger
from cobblestone.store.credit.credit_facts import GrantFacts, read_facts, read_trickle_facts
from cobblestone.store.credit.ledger import DecayPass, LedgerLine
from cobblestone.store.engine.database import Database


def recompute(db: Database) -> Proof:
    """Replay the ledger, and compare."""
    return _Recomputation(db).run()


class _Recomputation:
    """State of one replay."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._proof = Proof()
        self._stored = {table: ledger.all_statements(db, table) for table in ledger.OWNERS}
        self._computed = {
            table: {id_: CreditStatement(0.0, RecentAverage(0.0, made)) for id_, (made, _) in rows.items()}
            for table, rows in self._stored.items()
        }
        self._of_result: dict[int, float] = {}
        self._learned = StatisticsChain(db, self._proof)

    def run(self) -> Proof:
        passes = iter(ledger.decay_passes(self._db))
        next_pass = next(passes, None)
        for group in grouped(ledger.ledger(self._db)):
            self._learned.inherit_until(group[0].id)
            self._check_amounts(group)
            for line in group:
                while next_pass is not None and next_pass.last_entry_id < line.id:
                    self._decay(next_pass)
                    next_pass = next(passes, None)
                self._add(line)
        while next_pass is not None:
            self._decay(next_pass)
            next_pass = next(passes, None)
        self._compare()
        return self._proof

    def _add(self, line: LedgerLine) -> None:
        self._proof.entries += 1
        self._of_result[line.result_id] = self._of_result.get(line.result_id, 0.0) + line.granted
        for table, row_id in line.owners():
            rows = self._computed[table]
            if row_id is None or row_id not in rows:
                continue
            if line.kind == ledger.CORRECTION:
                granted_time = float(line.facts["granted_time"])
                rows[row_id] = corrected(
                    rows[row_id], credit=line.granted, granted_time=granted_time, now=line.time
                )
            else:
                rows[row_id] = credited(
                    rows[row_id], credit=line.granted, work_start=line.work_start, now=line.time
                )

    def _decay(self, done: DecayPass) -> None:
        rows = self._computed[done.table]
        for row_id, statement in rows.items():
            if done.first_id <= row_id <= done.last_id:
                recent = idle_decayed(statement.recent, now=done.time)
                if recent is not None:
                    rows[row_id] = CreditStatement(statement.total, recent)

    def _check_amounts(self, group: list[LedgerLine]) -> None:
        first = group[0]
        if first.kind == ledger.CORRECTION:
            self._proof.corrections += 1
            return
        try:
            amounts = _trickle_amount(first) if first.kind == ledger.TRICKLE else self._grant_amounts(group)
        except (ConfigError, KeyError, ValueError, TypeError) as error:
            note = f"cannot be computed again: {error}"
            self._proof.note(Difference("credit_entry", first.id, "facts", None, None, note))
            if first.kind == ledger.GRANT:
                self._learned.skip(group)
            return
        for line, (claimed, granted) in zip(group, amounts, strict=True):
            self._proof.grants += 1
            self._proof.compare("credit_entry", line.id, "claimed", line.claimed, claimed)
            self._proof.compare("credit_entry", line.id, "granted", line.granted, granted)

    def _grant_amounts(self, group: list[LedgerLine]) -> list[tuple[float, float]]:
        outcome, facts = computed_again(group)
        self._learned.learn(group, facts, outcome.increments)
        return [(share.claimed, share.granted) for share in outcome.results]

    def _compare(self) -> None:
        self._learned.compare()
        proof = self._proof
        for table, rows in self._stored.items():
            proof.rows[table] = len(rows)
            for row_id, (_, stored) in rows.items():
                computed = self._computed[table][row_id]
                proof.compare(table, row_id, "total", stored.total, computed.total)
                proof.compare(table, row_id, "average", stored.recent.value, computed.recent.value)
                if computed.recent.value:
                    proof.compare(table, row_id, "average_time", stored.recent.time, computed.recent.time)
        granted = ledger.granted_credits(self._db)
        proof.rows["result"] = len(granted)
        for result_id, amount in granted.items():
            proof.compare("result", result_id, "granted", amount, self._of_result.get(result_id, 0.0))


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


def computed_again(group: list[LedgerLine]) -> tuple[GrantOutcome, list[GrantFacts]]:
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
    statistics = Statistics(
        app=facts[0].app, versions={each.result.app_version_id: each.version for each in facts}
    )
    system, unit = find_system(first.system), CreditUnit(first.unit)
    if facts[0].straggler:
        outcome = grant_straggler(
            system,
            facts[0].workunit,
            facts[0].result,
            statistics,
            canonical_credit=facts[0].canonical_credit,
            unit=unit,
            max_granted=facts[0].max_granted,
            now=first.time,
        )
    else:
        outcome = grant_workunit(
            system,
            facts[0].workunit,
            [each.result for each in facts],
            statistics,
            unit=unit,
            max_granted=facts[0].max_granted,
            now=first.time,
        )
    return outcome, facts


def _trickle_amount(line: LedgerLine) -> list[tuple[float, float]]:
    facts, rules = read_trickle_facts(line.facts)
    grant = grant_trickle(facts, rules, unit=CreditUnit(line.unit), now=line.time)
    return [(grant.amount, grant.amount)]
