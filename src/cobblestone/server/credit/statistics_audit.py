"""Audit of what the credit systems learned: means of hosts and app versions, sums of the second system.

An entry keeps the statistics that its claim was computed from, and what they learned from it follows from its other facts.  So
the entries are a chain: each must find what the ones before left, and the last of them what the rows hold.  Every step is
repeated in its order with the same arithmetic, therefore figures must be equal to the last digit.  Validators that work side by
side are no exception: each reads and writes within one transaction, and entries are numbered in that order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cobblestone.domain.apps import GENERALISED
from cobblestone.domain.ids import AppId, AppVersionId, HostId
from cobblestone.domain.statistics import RunningAverage
from cobblestone.policy.credit.book import CreditBook, GrantFacts, RecordTaken
from cobblestone.policy.credit.claims import (
    AppIncrement,
    AppStatistics,
    HostVersionStatistics,
    VersionStatistics,
)
from cobblestone.server.credit.audit_report import Difference, LedgerAudit
from cobblestone.store.catalog import apps
from cobblestone.store.credit import credit_statistics, ledger
from cobblestone.store.credit.ledger import LedgerLine
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts

Figure = tuple[str, float, float]  # name, stored, computed


class StatisticsChain:
    """The rows of a book, held against what the entries say that they started from."""

    def __init__(self, db: Database, book: CreditBook, audit: LedgerAudit) -> None:
        self._db = db
        self._audit = audit
        self._book = book
        self._unknown: set[object] = set()  # what an entry taught that cannot be computed again
        self._app_of = credit_statistics.apps_of_versions(db)
        self._inheritances = iter(ledger.inheritances(db))
        self._next = next(self._inheritances, None)

    def follow_until(self, entry_id: int) -> None:
        """Let new versions take over the records that they took over before this entry."""
        while self._next is not None and self._next.last_entry_id < entry_id:
            host_id = HostId(self._next.host_id)
            earlier = host_id, AppVersionId(self._next.from_version_id)
            later = host_id, AppVersionId(self._next.to_version_id)
            self._book.apply(RecordTaken(earlier=earlier, later=later))
            if earlier in self._unknown:
                self._unknown.add(later)
            self._next = next(self._inheritances, None)

    def adopt(self, group: Sequence[LedgerLine], facts: Sequence[GrantFacts]) -> AppId:
        """Compare what entries started from with what the ones before left, and go on from their figures; their app."""
        for line, fact in zip(group, facts, strict=True):
            self._find(line, fact)
        return self._app(AppVersionId(group[0].app_version_id or 0))

    def skip(self, group: Sequence[LedgerLine]) -> None:
        """Take what an entry that cannot be computed again taught from the entries that follow."""
        for line in group:
            version_id = AppVersionId(line.app_version_id or 0)
            self._unknown |= {(HostId(line.host_id), version_id), version_id, ("app", self._app(version_id))}

    def _app(self, version_id: AppVersionId) -> AppId:
        return self._app_of.get(version_id, AppId(version_id // GENERALISED))

    def _find(self, line: LedgerLine, fact: GrantFacts) -> None:
        book = self._book
        key = host_id, version_id = HostId(line.host_id), AppVersionId(line.app_version_id or 0)
        where = f"host {host_id}, app version {version_id}"
        fresh = HostVersionStatistics()
        found = fact.result.host_version or fresh
        self._compare(line.id, key, where, _of_host(found, book.hosts.get(key, fresh)))
        book.hosts[key] = found
        if version_id in self._app_of:
            version = book.versions.get(version_id, VersionStatistics())
            figures = _of_mean("version pfc", fact.version.pfc, version.pfc)
            self._compare(line.id, version_id, where, figures)
            book.versions[version_id] = fact.version
        app_id = self._app(version_id)
        app = book.apps.get(app_id, AppStatistics())
        self._compare(line.id, ("app", app_id), f"app {app_id}", _of_app(fact.app, app))
        book.apps[app_id] = fact.app

    def _compare(self, entry_id: int, key: object, where: str, figures: Iterator[Figure]) -> None:
        if key in self._unknown:
            self._unknown.discard(key)
            return
        for name, stored, computed in figures:
            if stored != computed:
                note = f"{where}: what it started from is not what the entries before it taught"
                self._audit.note(Difference("credit_entry", entry_id, name, stored, computed, note))

    def compare(self) -> None:
        """Compare the rows with what the last entries left."""
        self.follow_until(2**62)
        audit, book = self._audit, self._book
        records = hosts.all_statistics(self._db)
        audit.rows["host_app_version"] = len(records)
        for key in sorted({*records, *book.hosts}):
            fresh = HostVersionStatistics()
            figures = _of_host(records.get(key, fresh), book.hosts.get(key, fresh))
            self._compare_row("host_app_version", key[0], key, f"app version {key[1]}", figures)
        versions = credit_statistics.version_statistics(self._db, sorted(self._app_of))
        for version_id, version in versions.items():
            computed = book.versions.get(version_id, VersionStatistics())
            figures = _of_mean("pfc", version.pfc, computed.pfc)
            self._compare_row("app_version", version_id, version_id, "", figures)
        all_apps = [app.id for app in apps.list_apps(self._db)]
        for app_id, app in credit_statistics.app_statistics(self._db, all_apps).items():
            computed_app = book.apps.get(app_id, AppStatistics())
            self._compare_row("app", app_id, ("app", app_id), "", _of_app(app, computed_app))
        audit.rows["app"] = len(all_apps)

    def _compare_row(
        self, table: str, row_id: int, key: object, note: str, figures: Iterator[Figure]
    ) -> None:
        for name, stored, computed in figures:
            if key not in self._unknown and stored != computed:
                self._audit.note(Difference(table, row_id, name, stored, computed, note))


def _of_mean(name: str, stored: RunningAverage, computed: RunningAverage) -> Iterator[Figure]:
    yield f"{name} n", stored.n, computed.n
    yield f"{name} mean", stored.mean, computed.mean
    yield f"{name} variance", stored.variance, computed.variance
    yield f"{name} q", stored.q, computed.q


def _of_host(stored: HostVersionStatistics, computed: HostVersionStatistics) -> Iterator[Figure]:
    yield from _of_mean("pfc", stored.pfc, computed.pfc)
    yield from _of_mean("elapsed", stored.elapsed, computed.elapsed)
    yield from _of_mean("turnaround", stored.turnaround, computed.turnaround)


def _of_app(stored: AppStatistics, computed: AppStatistics) -> Iterator[Figure]:
    found, expected = stored.counted or AppIncrement(), computed.counted or AppIncrement()
    yield "benchmark_credit", found.benchmark_credit, expected.benchmark_credit
    yield "counted_credit", found.counted_credit, expected.counted_credit
    yield "cpu_seconds", found.cpu_seconds, expected.cpu_seconds
    yield "jobs", found.jobs, expected.jobs
    yield "flops_scale", stored.flops_scale, computed.flops_scale
