"""The ledger system, driven job by job through the engine that the server runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cobblestone.credit_lab.systems.chance import uniform
from cobblestone.credit_lab.systems.pay import Watcher
from cobblestone.credit_lab.systems.tape import ERROR, INVALID, VALID, Result
from cobblestone.credit_lab.systems.tape import Job as TapeJob
from cobblestone.policy.credit.claims import DEPLOYED
from cobblestone.policy.credit.ledger_system.book import LedgerBook
from cobblestone.policy.credit.ledger_system.engine import decide_check, relative_size, third_opinion
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    AuditFinished,
    CheckFailed,
    Event,
    HostKey,
    HostRecord,
    Job,
    JobDecided,
    JobRefused,
    LedgerRules,
    Report,
    VersionMet,
)

NEW_HOST = HostRecord()


class LedgerWatcher(Watcher):
    """Runs the ledger system over a run."""

    def __init__(self, quorum: int, accounts: list[int], seed: int, *, rules: LedgerRules) -> None:
        """Begin without records; ``accounts`` grows with the run's identities."""
        super().__init__()
        self.quorum, self.accounts, self.rules, self.seed = quorum, accounts, rules, seed
        self.books: dict[int, LedgerBook] = {}  # by app
        self.latest: dict[tuple[int, int], HostKey] = {}  # by app and identity
        self.wrong = bytearray()  # by row
        self.drawn: set[int] = set()  # computers whose report in the present job is checked
        self.now = 0.0

    # ---------------------------------------------------------------------------------------- the run

    def wants(self, reports: Sequence[Result], job: TapeJob) -> int:
        """Draw a check once the quorum has reported, and ask for a third opinion where it is wanted."""
        book, work = self._book(job), _job(job)
        more = 0
        if len(reports) == self.quorum:
            keys = [_key(report) for report in reports]
            for key in keys:
                self._meet(job, key)
            drawn = uniform(self.seed, reports[0].job, 0)
            for host in (book.hosts.get(key, NEW_HOST) for key in keys):
                size = relative_size(book.app, host, work)
                decision = decide_check(host, self.rules, quorum=self.quorum, draw=drawn, size=size)
                more = max(more, decision.replicas)
            self.drawn = {key[0] for key in keys} if more else set()
        if not more and len(reports) == 2 and reports[0].answer == reports[1].answer:
            found = [self._report(report, place) for place, report in enumerate(reports)]
            more = int(third_opinion(book.state, work, found, self.rules))
        return more

    def decided(self, results: Sequence[Result], job: TapeJob) -> None:
        """Price the valid results, settle the refused ones, look at those that were wrong."""
        first = self.open(results, job)
        self.now = job.time
        self.wrong.extend(result.answer != 0 for result in results)
        book, work = self._book(job), _job(job)
        for result in results:
            self._meet(job, _key(result))
        valid = tuple(
            self._report(result, row) for row, result in enumerate(results, first) if result.outcome == VALID
        )
        if valid:
            checked = tuple(one.result_id for one in valid if one.host[0] in self.drawn)
            event = JobDecided(job=work, reports=valid, quorum=self.quorum, checked=checked)
            self._step(book, event, {one.host: one.result_id for one in valid})
        for row, result in enumerate(results, first):
            if result.outcome == ERROR and valid:
                key = _key(result)
                replicated = (
                    self.quorum > 1 or book.hosts.get(key, NEW_HOST).trusted <= self.rules.check_scale
                )
                refused = JobRefused(job=work, host=key, reports=valid, replicated=replicated)
                self._step(book, refused, {key: row})
            elif result.outcome == INVALID:
                same = sum(one.outcome != ERROR and one.answer == result.answer for one in results)
                if self.quorum == 1 or same > 1:
                    self._step(book, CheckFailed(host=_key(result), agreed=same > 1))
        self.drawn = set()

    def records(self) -> object:
        """Return the records of all apps."""
        return [book.state for book in self.books.values()]

    # ------------------------------------------------------------------------------------------ steps

    def _book(self, job: TapeJob) -> LedgerBook:
        fresh = AppRecord(unit=DEPLOYED.per_flop)
        return self.books.get(job.app) or self.books.setdefault(job.app, LedgerBook(fresh, self.rules))

    def _meet(self, job: TapeJob, key: HostKey) -> None:
        """Let a version that is new on a computer inherit what is known of the computer."""
        hosts, before = self.books[job.app].hosts, self.latest.get((job.app, key[0]))
        if before not in (None, key) and key not in hosts and before in hosts:
            self.books[job.app].apply(VersionMet(host=key, before=before))
        self.latest[job.app, key[0]] = key

    def _step(self, book: LedgerBook, event: Event, rows: dict[HostKey, int] | None = None) -> None:
        """Apply an event; ``rows``: those of the computers that it may correct."""
        moves = book.apply(event)
        for row in moves.released:
            self.final[row] = self.now
        for row in moves.revoked:
            self.revoked[row] = self.now
        for price in moves.prices:
            self.price[price.result_id] = price.amount
            self.final[price.result_id] = math.inf if price.provisional else self.now
        for key, row in (rows or {}).items():
            self.extra[row] += moves.settled.get(key, 0.0)
        for key, wanted in moves.audits.items():
            chosen = sorted(book.escrow.get(key, ()), key=lambda row: uniform(self.seed, row, 1))[:wanted]
            self.audits += len(chosen)
            found = tuple(row for row in chosen if not self.wrong[row])
            self._step(book, AuditFinished(host=key, bad=len(chosen) - len(found), right=found))

    def _report(self, result: Result, result_id: int) -> Report:
        return Report(
            result_id=result_id,
            host=_key(result),
            owner=self.accounts[result.identity],
            run_time=result.run_time,
            speed=result.peak,
        )


def _key(result: Result) -> HostKey:
    return result.identity, result.version, str(result.ncpus.bit_length())


def _job(job: TapeJob) -> Job:
    return Job(estimate=job.estimate, stratum=str(job.stratum) if job.stratum >= 0 else "")
