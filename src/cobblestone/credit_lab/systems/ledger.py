"""The ledger system, driven job by job through the engine that the server runs."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cobblestone.credit_lab.systems.chance import uniform
from cobblestone.credit_lab.systems.pay import Watcher
from cobblestone.credit_lab.systems.tape import ERROR, INVALID, VALID, Result
from cobblestone.credit_lab.systems.tape import Job as TapeJob
from cobblestone.policy.credit.claims import DEPLOYED
from cobblestone.policy.credit.ledger_system.engine import (
    decide_check,
    inherit,
    relative_size,
    step,
    third_opinion,
)
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    AuditFinished,
    Cell,
    CellKey,
    CheckFailed,
    Event,
    HostKey,
    HostRecord,
    Job,
    JobDecided,
    JobRefused,
    LedgerRules,
    LedgerState,
    Report,
    VersionKey,
    VersionRecord,
)

NEW_HOST = HostRecord()


class _App:
    """State of one app."""

    def __init__(self) -> None:
        self.record = AppRecord(unit=DEPLOYED.per_flop)
        self.versions: dict[VersionKey, VersionRecord] = {}
        self.hosts: dict[HostKey, HostRecord] = {}
        self.cells: dict[CellKey, Cell] = {}
        self.latest: dict[int, HostKey] = {}  # by identity

    def meet(self, key: HostKey) -> None:
        """Let a version that is new on a computer inherit what is known of the computer."""
        before = self.latest.get(key[0])
        if before != key and key not in self.hosts and before in self.hosts:
            self.hosts[key] = inherit(self.hosts[before])
        self.latest[key[0]] = key

    def state(self) -> LedgerState:
        return LedgerState(app=self.record, versions=self.versions, hosts=self.hosts, cells=self.cells)

    def take(self, state: LedgerState) -> None:
        self.record = state.app
        self.versions.update(state.versions)
        self.hosts.update(state.hosts)
        self.cells.update(state.cells)


class LedgerWatcher(Watcher):
    """Runs the ledger system over a run."""

    def __init__(self, quorum: int, accounts: list[int], seed: int, *, rules: LedgerRules) -> None:
        """Begin without records; ``accounts`` grows with the run's identities."""
        super().__init__()
        self.quorum, self.accounts, self.rules, self.seed = quorum, accounts, rules, seed
        self.apps: dict[int, _App] = {}
        self.wrong = bytearray()  # by row
        self.escrow: dict[HostKey, list[int]] = {}
        self.drawn: set[int] = set()  # computers whose report in the present job is checked
        self.now = 0.0

    # ---------------------------------------------------------------------------------------- the run

    def wants(self, reports: Sequence[Result], job: TapeJob) -> int:
        """Draw a check once the quorum has reported, and ask for a third opinion where it is wanted."""
        app, work = self._app(job), _job(job)
        more = 0
        if len(reports) == self.quorum:
            keys = [_key(report) for report in reports]
            for key in keys:
                app.meet(key)
            drawn = uniform(self.seed, reports[0].job, 0)
            for host in (app.hosts.get(key, NEW_HOST) for key in keys):
                size = relative_size(app.record, host, work)
                decision = decide_check(host, self.rules, quorum=self.quorum, draw=drawn, size=size)
                more = max(more, decision.replicas)
            self.drawn = {key[0] for key in keys} if more else set()
        if not more and len(reports) == 2 and reports[0].answer == reports[1].answer:
            found = [self._report(report, place) for place, report in enumerate(reports)]
            more = int(third_opinion(app.state(), work, found, self.rules))
        return more

    def decided(self, results: Sequence[Result], job: TapeJob) -> None:
        """Price the valid results, settle the refused ones, look at those that were wrong."""
        first = self.open(results, job)
        self.now = job.time
        self.wrong.extend(result.answer != 0 for result in results)
        app, work = self._app(job), _job(job)
        for result in results:
            app.meet(_key(result))
        valid = tuple(
            self._report(result, row) for row, result in enumerate(results, first) if result.outcome == VALID
        )
        if valid:
            checked = tuple(one.result_id for one in valid if one.host[0] in self.drawn)
            event = JobDecided(job=work, reports=valid, quorum=self.quorum, checked=checked)
            self._step(app, event, {one.host: one.result_id for one in valid})
        for row, result in enumerate(results, first):
            if result.outcome == ERROR and valid:
                self._refused(app, work, _key(result), valid, row)
            elif result.outcome == INVALID:
                same = sum(one.outcome != ERROR and one.answer == result.answer for one in results)
                if self.quorum == 1 or same > 1:
                    self._step(app, CheckFailed(host=_key(result), agreed=same > 1))
        self.drawn = set()

    def records(self) -> object:
        """Return the records of all apps."""
        return [app.state() for app in self.apps.values()]

    # ------------------------------------------------------------------------------------------ steps

    def _app(self, job: TapeJob) -> _App:
        return self.apps.get(job.app) or self.apps.setdefault(job.app, _App())

    def _refused(self, app: _App, work: Job, key: HostKey, valid: tuple[Report, ...], row: int) -> None:
        replicated = self.quorum > 1 or app.hosts.get(key, NEW_HOST).trusted <= self.rules.check_scale
        event = JobRefused(job=work, host=key, reports=valid, replicated=replicated)
        self._step(app, event, {key: row})

    def _step(self, app: _App, event: Event, rows: dict[HostKey, int] | None = None) -> None:
        """Apply an event; ``rows``: those of the computers that it may correct."""
        outcome = step(app.state(), event, self.rules)
        app.take(outcome.state)
        for key in outcome.released:
            for row in self.escrow.pop(key, ()):
                self.final[row] = self.now
        for key in outcome.revoked:
            for row in self.escrow.pop(key, ()):
                self.revoked[row] = self.now
        for price in outcome.prices:
            self.price[price.result_id] = price.amount
            if price.provisional:
                self.final[price.result_id] = math.inf
                self.escrow.setdefault(price.host, []).append(price.result_id)
        for key, amount in outcome.corrections.items():
            if rows is not None:
                self.extra[rows[key]] += amount
        for key, wanted in outcome.audits.items():
            self._audit(app, key, wanted)

    def _audit(self, app: _App, key: HostKey, wanted: int | None) -> None:
        rows = self.escrow.get(key, [])
        chosen = sorted(rows, key=lambda row: uniform(self.seed, row, 1))[:wanted]
        self.audits += len(chosen)
        right = {row for row in chosen if not self.wrong[row]}
        bad = len(chosen) - len(right)
        if bad:  # what was found right stays
            for row in right:
                self.final[row] = self.now
            self.escrow[key] = [row for row in rows if row not in right]
        self._step(app, AuditFinished(host=key, bad=bad))

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
