"""The ledger system, driven job by job through the engine that the server runs."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from cobblestone.credit_lab.joblog import ERROR, INVALID, VALID
from cobblestone.credit_lab.systems.chance import draw
from cobblestone.credit_lab.systems.pay import Pay
from cobblestone.credit_lab.systems.tape import Table, Tape
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


class LedgerWatcher:
    """Runs the ledger system over a run."""

    def __init__(self, quorum: int, accounts: list[int], seed: int, *, rules: LedgerRules) -> None:
        """Begin without records; ``accounts`` grows with the run's identities."""
        self.quorum, self.accounts, self.rules = quorum, accounts, rules
        self.key = np.uint64(seed)
        self.apps: dict[int, _App] = {}
        self.price: list[float] = []
        self.final: list[float] = []
        self.revoked: list[float] = []
        self.wrong: list[bool] = []
        self.extra: list[float] = []
        self.escrow: dict[HostKey, list[int]] = {}
        self.drawn: set[int] = set()  # computers whose report in the present job is checked
        self.audits = 0
        self.now = 0.0
        self.seconds = 0.0

    # ---------------------------------------------------------------------------------------- the run

    def wants(self, reports: Table, job: Table) -> int:
        """Draw a check once the quorum has reported, and ask for a third opinion where it is wanted."""
        began = time.perf_counter()
        app = self.apps.setdefault(int(job["app"]), _App())
        more = 0
        if len(reports) == self.quorum:
            keys = [_key(row) for row in reports]
            for key in keys:
                app.meet(key)
            known = [app.hosts.get(key, HostRecord()) for key in keys]
            least = min(known, key=lambda record: record.trusted)
            size = relative_size(app.record, least, _job(job), self.rules)
            drawn = draw(self.key, int(reports["job"][0]), 0)
            decision = decide_check(least, self.rules, quorum=self.quorum, draw=drawn, size=size)
            more = decision.replicas
            self.drawn = {key[0] for key in keys} if more else set()
        if not more and len(reports) == 2 and reports["answer"][0] == reports["answer"][1]:
            found = tuple(self._report(row, place) for place, row in enumerate(reports))
            more = int(third_opinion(app.state(), _job(job), found, self.rules))
        self.seconds += time.perf_counter() - began
        return more

    def decided(self, results: Table, job: Table) -> None:
        """Price the valid results, settle the refused ones, look at those that were wrong."""
        began = time.perf_counter()
        first = len(self.price)
        self.now = float(job["time"])
        self.price += [0.0] * len(results)
        self.final += [self.now] * len(results)
        self.revoked += [math.inf] * len(results)
        self.extra += [0.0] * len(results)
        self.wrong += (results["answer"] != 0).tolist()
        number = int(job["app"])
        plain: list[Any] = results.tolist()
        rows = list(enumerate(plain))
        names = results.dtype.names or ()
        outcome, answer = names.index("outcome"), names.index("answer")
        valid = tuple(self._report(results[at], first + at) for at, row in rows if row[outcome] == VALID)
        work = _job(job)
        for row in results:
            self.apps.setdefault(number, _App()).meet(_key(row))
        if valid:
            checked = tuple(one.result_id for one in valid if one.host[0] in self.drawn)
            event = JobDecided(job=work, reports=valid, quorum=self.quorum, checked=checked)
            self._step(number, event, {one.host: one.result_id for one in valid})
        for at, row in rows:
            if row[outcome] == ERROR and valid:
                self._refused(number, work, _key(results[at]), valid, first + at)
            elif row[outcome] == INVALID:
                agreed = sum(other[answer] == row[answer] for _, other in rows if other[outcome] != ERROR) > 1
                if self.quorum == 1 or agreed:
                    self._step(number, CheckFailed(host=_key(results[at]), agreed=agreed))
        self.drawn = set()
        self.seconds += time.perf_counter() - began

    def pay(self, tape: Tape) -> Pay:
        """Return what was paid."""
        records = sum(len(app.hosts) * 72 + len(app.versions) * 24 + 96 for app in self.apps.values())
        return Pay(
            price=np.array(self.price),
            final=np.array(self.final),
            revoked=np.array(self.revoked),
            extra=np.array(self.extra),
            audits=self.audits,
            seconds=self.seconds,
            state_bytes=records,
        )

    # ------------------------------------------------------------------------------------------ steps

    def _refused(self, number: int, work: Job, key: HostKey, valid: tuple[Report, ...], row: int) -> None:
        record = self.apps[number].hosts.get(key, HostRecord())
        replicated = self.quorum > 1 or record.trusted <= self.rules.check_scale
        event = JobRefused(job=work, host=key, reports=valid, replicated=replicated)
        self._step(number, event, {key: row})

    def _step(self, number: int, event: Event, rows: dict[HostKey, int] | None = None) -> None:
        """Apply an event; ``rows``: those of the computers that it may correct."""
        app = self.apps.setdefault(number, _App())
        outcome = step(app.state(), event, self.rules)
        app.take(outcome.state)
        for key in outcome.released:
            self._release(key)
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
            self._audit(number, key, wanted)

    def _release(self, key: HostKey) -> None:
        for row in self.escrow.pop(key, ()):
            self.final[row] = self.now

    def _audit(self, number: int, key: HostKey, wanted: int | None) -> None:
        rows = self.escrow.get(key, [])
        chosen = sorted(rows, key=lambda row: draw(self.key, row, 1))[:wanted]
        self.audits += len(chosen)
        right = [row for row in chosen if not self.wrong[row]]
        bad = len(chosen) - len(right)
        if bad:  # what was found right stays
            kept = set(right)
            for row in right:
                self.final[row] = self.now
            self.escrow[key] = [row for row in rows if row not in kept]
        self._step(number, AuditFinished(host=key, bad=bad))

    def _report(self, row: Any, result_id: int) -> Report:  # Any: a row of NumPy
        identity = int(row["identity"])
        return Report(
            result_id=result_id,
            host=_key(row),
            owner=self.accounts[identity],
            run_time=float(row["elapsed"]),
            speed=float(row["peak"]),
            counted=float(row["counted"]),
        )


def _key(row: Any) -> HostKey:  # Any: a row of NumPy
    return int(row["identity"]), int(row["version"]), str(int(row["threads"]).bit_length())


def _job(job: Any) -> Job:  # Any: a row of NumPy
    return Job(
        estimate=float(job["estimate"]), stratum=str(int(job["stratum"])) if job["stratum"] >= 0 else ""
    )
