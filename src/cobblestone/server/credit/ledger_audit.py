"""Audit of the ledger and of what the credit systems learned: both are recomputed from stored facts.

Audit of what the credit systems learned: means of hosts and app versions, sums of the second system.

An entry keeps the statistics that its claim was computed from, and what they learned from it follows from its other facts.  So
the entries are a chain: each must find what the ones before left, and the last of them what the rows hold.  Every step is
repeated in its order with the same arithmetic, therefore figures must be equal to the last digit.  Validators that work side by
side are no exception: each reads and writes within one transaction, and entries are numbered in that order.

Audit of the ledger: everything that the ledger says is computed again from its own facts.

1. Each grant is computed again by its credit system from the facts that its entry keeps; claim and amount must be the same.
2. Totals and recent averages of all hosts, users, teams and app versions are built up from the entries, in their order, with
   the passes of the daily decay between them; the rows must hold the same.
3. Each result's own figure must be the sum of its entries.
4. Means of hosts and app versions, and the sums of the second system, must be what the entries taught, to the last digit
   (`cobblestone.server.credit.ledger_audit`).
5. What happened under the ledger system is applied again (`cobblestone.server.credit.ledger_replay`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain

from cobblestone.api_schema.operation import CreditDifference
from cobblestone.domain.apps import GENERALISED
from cobblestone.domain.statistics import CreditStatement, RecentAverage, RunningAverage
from cobblestone.domain.values import DAY, AppId, AppVersionId, HostId, ResultId, UserId, WorkunitId
from cobblestone.policy.credit import book as books
from cobblestone.policy.credit import claims
from cobblestone.policy.credit.rac import OWNERS, SMALLEST_IDLE, CreditTotals, idle_decayed, update_average
from cobblestone.server.credit.ledger_replay import LedgerReplay
from cobblestone.server.credit.systems import find_system
from cobblestone.store.catalog import apps
from cobblestone.store.credit import credit_statistics, ledger
from cobblestone.store.credit.credit_facts import COUNTED, HOST_MEANS, read_facts, read_message_facts
from cobblestone.store.credit.ledger import LedgerLine
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.spilled import Spilled
from cobblestone.store.people import hosts

MAX_LISTED = 1000
#: Computers differ in the last digit of an exponential; a wrong entry differs in the first.
RELATIVE_TOLERANCE = 1e-9


@dataclass(slots=True)
class LedgerAudit:
    """The result of a recomputation."""

    entries: int = 0
    grants: int = 0  #: entries whose amount was computed again
    corrections: int = 0
    rows: dict[str, int] = field(default_factory=dict[str, int])  #: compared rows by table
    differences: list[CreditDifference] = field(default_factory=list[CreditDifference])
    more: int = 0  #: differences beyond those listed

    @property
    def agrees(self) -> bool:
        """Return whether everything agrees with the ledger."""
        return not self.differences

    def compare(self, table: str, row_id: int, figure: str, stored: float, computed: float) -> None:
        """Note a difference, if there is one."""
        if not math.isclose(stored, computed, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-9):
            self.note(CreditDifference(table, row_id, figure, stored, computed, ""))

    def note(self, difference: CreditDifference) -> None:
        """Add a difference; the list is bounded."""
        if len(self.differences) < MAX_LISTED:
            self.differences.append(difference)
        else:
            self.more += 1


Figure = tuple[str, float, float]  # name, stored, computed
_NOT_TAUGHT = "what it started from is not what the entries before it taught"


class StatisticsChain:
    """The rows of a book, compared with the state that the entries say they started from."""

    def __init__(self, db: Database, book: books.CreditBook, audit: LedgerAudit) -> None:
        self._db = db
        self._audit = audit
        self._book = book
        #: What entries taught that cannot be computed again.
        self._unknown: Spilled[Hashable, None] = Spilled()
        self._app_of = credit_statistics.apps_of_versions(db)
        self._inheritances = ledger.inheritances(db)
        self._next = next(self._inheritances, None)

    def follow_until(self, entry_id: int) -> None:
        """Let new versions take over the records that they took over before this entry."""
        while self._next is not None and self._next.last_entry_id < entry_id:
            host_id = HostId(self._next.host_id)
            earlier = host_id, AppVersionId(self._next.from_version_id)
            later = host_id, AppVersionId(self._next.to_version_id)
            self._book.apply(books.RecordTaken(earlier=earlier, later=later))
            if earlier in self._unknown:
                self._unknown[later] = None
            self._next = next(self._inheritances, None)

    def adopt(self, group: Sequence[LedgerLine], facts: Sequence[books.GrantFacts]) -> AppId:
        """Compare the start of entries with the end of the previous ones, and continue from their figures; return their app."""
        for line, fact in zip(group, facts, strict=True):
            self._find(line, fact)
        return self.app_of(group[0])

    def skip(self, group: Sequence[LedgerLine]) -> None:
        """Take the effect of an entry that cannot be recomputed from the entries that follow."""
        for line in group:
            version_id = AppVersionId(line.app_version_id or 0)
            for key in ((HostId(line.host_id), version_id), version_id, ("app", self._app(version_id))):
                self._unknown[key] = None

    def app_of(self, line: LedgerLine) -> AppId:
        """Return the app that an entry is about."""
        return self._app(AppVersionId(line.app_version_id or 0))

    def _app(self, version_id: AppVersionId) -> AppId:
        return self._app_of.get(version_id, AppId(version_id // GENERALISED))

    def _find(self, line: LedgerLine, fact: books.GrantFacts) -> None:
        book = self._book
        key = host_id, version_id = HostId(line.host_id), AppVersionId(line.app_version_id or 0)
        note = f"host {host_id}, app version {version_id}: {_NOT_TAUGHT}"
        fresh = claims.HostVersionStatistics()
        found = fact.result.host_version or fresh
        self._compare("credit_entry", line.id, key, note, _of_host(found, book.hosts.get(key, fresh)))
        book.hosts[key] = found
        if version_id in self._app_of:
            version = book.versions.get(version_id, claims.VersionStatistics())
            figures = _of_mean("version pfc", fact.version.pfc, version.pfc)
            self._compare("credit_entry", line.id, version_id, note, figures)
            book.versions[version_id] = fact.version
        app_id = self._app(version_id)
        app = book.apps.get(app_id, claims.AppStatistics())
        note = f"app {app_id}: {_NOT_TAUGHT}"
        self._compare("credit_entry", line.id, ("app", app_id), note, _of_app(fact.app, app))
        book.apps[app_id] = fact.app

    def compare(self) -> None:
        """Compare the rows with the state after the last entries."""
        self.follow_until(2**62)
        audit, book = self._audit, self._book
        fresh = claims.HostVersionStatistics()
        audit.rows["host_app_version"] = 0
        stored = ((key, row, book.hosts.pop(key, fresh)) for key, row in hosts.all_statistics(self._db))
        others = ((key, fresh, record) for key, record in book.hosts.items())  # what is left after that
        for key, row, record in chain(stored, others):
            audit.rows["host_app_version"] += row is not fresh
            self._compare("host_app_version", key[0], key, f"app version {key[1]}", _of_host(row, record))
        versions = credit_statistics.version_statistics(self._db, sorted(self._app_of))
        for version_id, version in versions.items():
            computed = book.versions.get(version_id, claims.VersionStatistics())
            figures = _of_mean("pfc", version.pfc, computed.pfc)
            self._compare("app_version", version_id, version_id, "", figures)
        all_apps = [app.id for app in apps.list_apps(self._db)]
        for app_id, app in credit_statistics.app_statistics(self._db, all_apps).items():
            computed_app = book.apps.get(app_id, claims.AppStatistics())
            self._compare("app", app_id, ("app", app_id), "", _of_app(app, computed_app))
        audit.rows["app"] = len(all_apps)

    def _compare(self, table: str, row_id: int, key: Hashable, note: str, figures: Iterator[Figure]) -> None:
        if key in self._unknown:
            del self._unknown[key]
            return
        for name, stored, computed in figures:
            if stored != computed:
                self._audit.note(CreditDifference(table, row_id, name, stored, computed, note))


def _of_mean(name: str, stored: RunningAverage, computed: RunningAverage) -> Iterator[Figure]:
    for part in ("n", "mean", "variance", "q"):
        yield f"{name} {part}", getattr(stored, part), getattr(computed, part)


def _of_host(
    stored: claims.HostVersionStatistics, computed: claims.HostVersionStatistics
) -> Iterator[Figure]:
    for name in HOST_MEANS:
        yield from _of_mean(name, getattr(stored, name), getattr(computed, name))


def _of_app(stored: claims.AppStatistics, computed: claims.AppStatistics) -> Iterator[Figure]:
    found, expected = stored.counted or claims.AppIncrement(), computed.counted or claims.AppIncrement()
    for name in COUNTED:
        yield name, getattr(found, name), getattr(expected, name)
    yield "flops_scale", stored.flops_scale, computed.flops_scale


#: Figure of a difference that is an entry which cannot be read.
DAMAGED = "entry"


def recompute(db: Database) -> LedgerAudit:
    """Replay the ledger, and compare."""
    return _Recomputation(db).run()


class SpilledStatements(Spilled[int, CreditStatement]):
    """Totals and averages; those that are not in memory decay in their file, many times faster than one by one."""

    _columns = "total, value, time"

    def __init__(self) -> None:
        super().__init__()
        self._far.create_function("decayed", 3, _decayed, deterministic=True)

    def _packed(self, value: CreditStatement) -> tuple[object, ...]:
        return value.total, value.recent.value, value.recent.time

    def _unpacked(self, row: tuple[float, ...]) -> CreditStatement:
        return CreditStatement(row[0], RecentAverage(row[1], row[2]))

    def decay(self, ids: range, *, now: float) -> None:
        """Bring the averages of rows with these ids up to date that nothing touched for a day."""
        near = self._near
        for row_id in ids if len(ids) < len(near) else near:
            if row_id in ids and row_id in near and (recent := idle_decayed(near[row_id].recent, now=now)):
                near[row_id] = CreditStatement(near[row_id].total, recent)
        # What is in memory as well is out of date here, and will be written again; an infinite time does not pass.
        self._far.execute(
            "UPDATE entry SET value = decayed(value, time, :now), time = :now"
            " WHERE key BETWEEN :first AND :last AND value > :least AND :now - time BETWEEN :day AND 1e300",
            {"now": now, "first": ids.start, "last": ids.stop - 1, "least": SMALLEST_IDLE, "day": DAY},
        )


def _decayed(value: float, time: float, now: float) -> float:
    return update_average(RecentAverage(value, time), credit=0.0, work_start=now, now=now).value


class _Recomputation:
    """State of one replay."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._audit = LedgerAudit()
        self._totals = CreditTotals()
        self._statements = {table: SpilledStatements() for table in OWNERS}
        self._totals.rows.update(self._statements)
        # All owners twice, at the beginning and at the end.
        db.will_look_at("credit_entry", "credit_entry", "result", "host_app_version", *OWNERS, *OWNERS)
        for table in OWNERS:
            self._begin(table, ((id_, made) for id_, made, _ in ledger.all_statements(db, table)))
        created: Spilled[int, float] = Spilled()
        for host_id, made in ledger.creation_before_merges(db):
            created.setdefault(host_id, made)
        self._begin("host", created.items())
        self._book = books.CreditBook()
        self._book.hosts, self._book.messages, self._book.owner_messages = Spilled(), Spilled(), Spilled()
        self._statistics = StatisticsChain(db, self._book, self._audit)
        self._passes = ledger.decay_passes(db)
        self._next_pass = next(self._passes, None)
        self._replay = LedgerReplay(db, self._audit.note, self._statistics.app_of)

    def _begin(self, table: str, created: Iterable[tuple[int, float]]) -> None:
        for row_id, made in created:
            self._totals.rows[table][row_id] = CreditStatement(0.0, RecentAverage(0.0, made))

    def run(self) -> LedgerAudit:
        for group in grouped(ledger.ledger(self._db, self._note_damage)):
            self._statistics.follow_until(group[0].id)
            self._check_amounts(group)
            for line in group:
                self._decay_until(line.id)
                try:
                    self._replay.check(line)
                    self._add(line)
                except (KeyError, TypeError, ValueError) as error:
                    self._note_damage(ledger.DamagedEntry(line.id, f"its facts do not fit it ({error})"))
        self._decay_until(2**63)
        self._compare()
        return self._audit

    def _note_damage(self, damage: ledger.DamagedEntry) -> None:
        self._audit.note(
            CreditDifference("credit_entry", damage.entry_id, DAMAGED, None, None, damage.problem)
        )

    def _add(self, line: LedgerLine) -> None:
        self._audit.entries += 1
        if line.kind == ledger.MERGE:
            self._totals.merge("host", line.facts["from_host"], line.host_id, now=line.time)
        elif line.kind in (ledger.RELEASE, ledger.SETTLEMENT) and not line.granted:
            pass  # it moves nothing, not even the time of an average
        elif line.kind in (*ledger.CORRECTIONS, ledger.SETTLEMENT):
            granted_time = float(line.facts["granted_time"])
            self._totals.correct(line.owners(), credit=line.granted, granted_time=granted_time, now=line.time)
        else:
            self._totals.credit([(line.owners(), line.granted, line.work_start)], now=line.time)

    def _decay_until(self, entry_id: int) -> None:
        while (done := self._next_pass) is not None and done.last_entry_id < entry_id:
            self._statements[done.table].decay(range(done.first_id, done.last_id + 1), now=done.time)
            self._next_pass = next(self._passes, None)

    def _check_amounts(self, group: list[LedgerLine]) -> None:
        first = group[0]
        self._book.changed = books.ChangedRows()  # which nobody asks for
        if first.kind in ledger.CORRECTIONS:
            self._audit.corrections += 1
        if first.kind not in (*ledger.GRANTS, ledger.TRICKLE):
            return
        try:
            entries = self._message_again(first) if first.kind == ledger.TRICKLE else self._grant_again(group)
        except Exception as error:  # noqa: BLE001  # damaged facts fail in any way, and the others must be proved too
            note = f"cannot be recomputed: {str(error) or type(error).__name__}"
            self._audit.note(CreditDifference("credit_entry", first.id, "facts", None, None, note))
            if first.kind in ledger.GRANTS:
                self._statistics.skip(group)
            return
        if len(entries) != len(group):
            note = f"entries: {len(group)}; by the facts: {len(entries)}"
            self._audit.note(CreditDifference("credit_entry", first.id, "facts", None, None, note))
        for line, entry in zip(group, entries, strict=False):
            self._audit.grants += 1
            self._audit.compare("credit_entry", line.id, "claimed", line.claimed, entry.credit.claimed)
            self._audit.compare("credit_entry", line.id, "granted", line.granted, entry.credit.granted)

    def _grant_again(self, group: list[LedgerLine]) -> list[books.BookEntry]:
        """Recompute the grants of a group from the facts in its entries.

        Raises:
            ConfigError: its credit system is not installed any more.
        """
        first = group[0]
        facts = [read_facts(line) for line in group]
        terms = books.GrantTerms(
            system=find_system(first.system),
            unit=claims.CreditUnit(first.unit),
            max_granted=facts[0].max_granted,
        )
        app_id = self._statistics.adopt(group, facts)
        workunit_id = WorkunitId(first.workunit_id)
        self._book.canonical_credit = {workunit_id: facts[0].canonical_credit}
        event = books.ResultsJudged(
            terms=terms,
            app_id=app_id,
            workunit_id=workunit_id,
            workunit=facts[0].workunit,
            valid=[each.result for each in facts],
            straggler=facts[0].straggler,
            now=first.time,
        )
        return self._book.apply(event)

    def _message_again(self, line: LedgerLine) -> list[books.BookEntry]:
        result_id, facts = ResultId(line.result_id), read_message_facts(line.facts)
        told, user_id = facts.message, UserId(line.user_id)
        self._book.messages[result_id] = told.credited_run_time, told.credited
        self._book.owner_messages[user_id] = told.owner_credited
        event = books.MessageReceived(
            result_id=result_id,
            user_id=user_id,
            facts=told,
            rules=facts.rules,
            unit=claims.CreditUnit(line.unit),
            now=line.time,
        )
        return self._book.apply(event)

    def _compare(self) -> None:
        self._statistics.compare()
        self._replay.compare()
        audit = self._audit
        for table, rows in self._totals.rows.items():
            audit.rows[table] = len(rows)
            for row_id, _, stored in ledger.all_statements(self._db, table):
                computed = rows[row_id]
                audit.compare(table, row_id, "total", stored.total, computed.total)
                audit.compare(table, row_id, "average", stored.recent.value, computed.recent.value)
                if computed.recent.value:
                    audit.compare(table, row_id, "average_time", stored.recent.time, computed.recent.time)
        audit.rows["result"] = 0
        for stored, computed, result_id in ledger.granted_credits(self._db):
            audit.rows["result"] += 1
            audit.compare("result", result_id, "granted", stored, computed)


def grouped(lines: Iterator[LedgerLine]) -> Iterator[list[LedgerLine]]:
    """Yield entries that were granted together: those of the replicas of a workunit; others form a group of one."""
    group: list[LedgerLine] = []
    for line in lines:
        alone = line.kind not in ledger.GRANTS or bool(line.facts.get("straggler"))
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
