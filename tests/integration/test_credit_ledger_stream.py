"""The whole server, driven over HTTP by a stream of events, grants what the pure engine grants for the same events."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace

import pytest
from tests.helpers.project_world import World, failed

from cobblestone.domain.apps import App
from cobblestone.domain.work import JobLimits
from cobblestone.policy.credit.claims import CreditUnit
from cobblestone.policy.credit.ledger_system.engine import (
    decide_check,
    relative_size,
    settled,
    step,
    third_opinion,
)
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
    LedgerState,
    Report,
)
from cobblestone.server.credit import ledger_accounts
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.store.credit import ledger, ledger_state

pytestmark = pytest.mark.both_databases

ESTIMATES = (4e12, 1e13, 3e13)
RULES = LedgerRules()


@dataclass
class Task:
    """A result on its way."""

    report: Report
    right: bool = True
    refused: bool = False


@dataclass
class Workunit:
    """A job in the laboratory."""

    job: Job
    wanted: int
    tasks: list[Task] = field(default_factory=list[Task])
    checked: tuple[int, ...] = ()
    decided: bool = False


class Laboratory:
    """The pure engine, driven job by job as the stream has it."""

    def __init__(self, quorum: int) -> None:
        self.quorum = quorum
        self.state = LedgerState(app=AppRecord(unit=CreditUnit().per_flop))
        self.prices: dict[int, float] = {}
        self.escrow: dict[HostKey, list[int]] = defaultdict(list)
        self.final: set[int] = set()
        self.revoked: set[int] = set()
        self.kept = 0.0  #: of results in a revoked escrow that were found again
        self.audits: dict[int, HostKey] = {}  # results that are computed again
        self.bad: dict[HostKey, list[int]] = defaultdict(list)
        self.good: dict[HostKey, list[int]] = defaultdict(list)

    def draw(self, result_id: int) -> float:
        """Draw numbers that make checks rarer than usual with a quorum of one, and more frequent with two."""
        return random.Random(result_id).random() ** (0.5 if self.quorum == 1 else 2.0)

    def record(self, key: HostKey) -> HostRecord:
        return self.state.hosts.get(key, HostRecord())

    def reported(self, workunit: Workunit) -> None:
        """Decide a job when all results that are wanted are there, unless a check is drawn or a third is wanted."""
        tasks = sorted(
            (task for task in workunit.tasks if not task.refused), key=lambda task: task.report.result_id
        )
        if workunit.decided or len(tasks) < workunit.wanted:
            return
        if len(tasks) == self.quorum and not workunit.checked:
            least = min(tasks, key=lambda task: self.record(task.report.host).trusted).report
            draw, more = self.draw(least.result_id), 0
            for task in tasks:
                record = self.record(task.report.host)
                size = relative_size(self.state.app, record, workunit.job)
                decision = decide_check(record, RULES, quorum=self.quorum, draw=draw, size=size)
                more = max(more, decision.replicas)
            if more:
                workunit.checked = tuple(task.report.result_id for task in tasks)
                workunit.wanted += more
                return
        right = [task for task in tasks if task.right or len(tasks) == 1]  # who is alone is believed
        if len(right) < workunit.wanted // 2 + 1:
            workunit.wanted += 1
            return
        reports = tuple(task.report for task in right)
        if third_opinion(self.state, workunit.job, reports, RULES):
            workunit.wanted += 1
            return
        workunit.decided = True
        checked = tuple(each for each in workunit.checked if each in {report.result_id for report in reports})
        self.apply(JobDecided(job=workunit.job, reports=reports, quorum=self.quorum, checked=checked))
        for task in tasks:
            if task not in right and self.quorum == 1:
                self.apply(CheckFailed(host=task.report.host))
        for task in workunit.tasks:
            if task.refused:
                self.refused(workunit.job, task.report, reports)

    def refused(self, job: Job, report: Report, reports: tuple[Report, ...]) -> None:
        others = tuple(each for each in reports if each.owner != report.owner)
        replicated = self.quorum > 1 or self.record(report.host).trusted <= RULES.check_scale
        if others:
            self.apply(JobRefused(job=job, host=report.host, reports=others, replicated=replicated))

    def again(self, result_id: int, *, right: bool) -> None:
        """Take the outcome of a job that was computed again."""
        key = self.audits.pop(result_id)
        (self.good if right else self.bad)[key].append(result_id)
        if key not in self.audits.values():
            self.apply(AuditFinished(host=key, bad=len(self.bad.pop(key, []))))
            self.good.pop(key, None)

    def apply(self, event: Event) -> None:
        outcome = step(self.state, event, RULES)
        self.state = LedgerState(
            app=outcome.state.app,
            versions={**self.state.versions, **outcome.state.versions},
            hosts={**self.state.hosts, **outcome.state.hosts},
        )
        for key in outcome.released:
            self.final.update(self.escrow.pop(key, []))
        for key in outcome.revoked:
            for result_id in self.escrow.pop(key, []):
                right = result_id in self.good[key]
                (self.final if right else self.revoked).add(result_id)
                self.kept += self.prices[result_id] if right else 0.0
        for price in outcome.prices:
            self.prices[price.result_id] = price.amount
            if price.provisional:
                self.escrow[price.host].append(price.result_id)
        for key, n in outcome.audits.items():
            chosen = sorted(self.escrow[key], reverse=True)[:n]
            self.audits |= dict.fromkeys(chosen, key)


class LastOnes:
    """Draws the newest results, as the laboratory here does."""

    def sample(self, rows: list[ledger_state.Escrowed], n: int) -> list[ledger_state.Escrowed]:
        return sorted(rows, key=lambda row: row.result_id, reverse=True)[:n]


class Driver:
    """Computers that do as a seed says, over HTTP, and tell the laboratory what they did."""

    def __init__(self, world: World, app: App, laboratory: Laboratory, seed: int) -> None:
        self.world, self.app, self.laboratory = world, app, laboratory
        self.rng = random.Random(seed)
        self.hosts = [
            world.host(world.user(f"user{n}"), f"{n:032x}", p_fpops=2e9 * self.rng.uniform(0.5, 2))
            for n in range(4)
        ]
        self.speeds = [self.rng.uniform(1e9, 4e9) for _ in self.hosts]
        self.workunits: dict[int, Workunit] = {}

    def turn(self) -> None:
        """One computer asks for a job and ends it in some way."""
        place = self.rng.choice((0, 0, 0, 1, 2, 3))
        host, liar = self.hosts[place], place == 0
        host.rpc(ask=1, instances=1)
        if not host.held:
            self.add(2)
            return
        name = next(iter(host.held))
        result_id, workunit_id, user_id, version_id, peak, ncpus, estimate = self.world.query(
            "SELECT r.id, r.workunit_id, r.user_id, r.app_version_id, r.peak_flops, r.avg_ncpus, w.rsc_fpops_est"
            " FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE r.name = ?",
            name,
        )[0]
        workunit = self.workunits.setdefault(
            workunit_id, Workunit(job=Job(estimate=estimate), wanted=self.laboratory.quorum)
        )
        seconds = estimate / self.speeds[place] * self.rng.lognormvariate(0.0, 0.3)
        report = Report(
            result_id=result_id,
            host=(host.id, version_id, f"{ncpus:g}"),
            owner=user_id,
            run_time=seconds,
            speed=peak,
        )
        self.world.now += seconds + 1.0
        refuses = not workunit.decided and self.rng.random() < 0.05
        right = not (liar and self.laboratory.record(report.host).trusted > 12 and self.rng.random() < 0.5)
        if refuses:
            host.rpc(reports=[failed(name, exit_status=203, state=6)])
        else:
            done = host.finish(name, b"right" if right else b"%d" % result_id)
            host.rpc(reports=[replace(done, final_elapsed_time=seconds, final_cpu_time=seconds)])
        self.world.settle()
        self.tell(workunit, Task(report=report, right=right, refused=refuses), workunit_id)

    def tell(self, workunit: Workunit, task: Task, workunit_id: int) -> None:
        laboratory = self.laboratory
        if workunit.decided:
            again = [
                each.report.result_id for each in workunit.tasks if each.report.result_id in laboratory.audits
            ]
            first = next(each for each in workunit.tasks if not each.refused)
            for result_id in again:
                laboratory.again(result_id, right=task.right == first.right)
            return
        workunit.tasks.append(task)
        laboratory.reported(workunit)

    def add(self, n: int) -> None:
        for _ in range(n):
            estimate = self.rng.choice(ESTIMATES)
            limits = JobLimits(rsc_fpops_est=estimate, rsc_fpops_bound=1e17, delay_bound=1e8)
            self.world.add_jobs(self.app, limits=limits)


@pytest.mark.parametrize("quorum", [1, 2])
def test_the_server_grants_what_the_engine_grants_for_the_same_events(
    world: World, monkeypatch: pytest.MonkeyPatch, quorum: int
):
    monkeypatch.setattr(ledger_accounts.random, "SystemRandom", LastOnes)
    app = world.add_app(quorum=quorum, credit_system="ledger", limits=JobLimits(rsc_fpops_est=1e13))
    laboratory = Laboratory(quorum)
    monkeypatch.setattr(ledger_accounts, "draw_of", lambda _secret, result_id: laboratory.draw(result_id))
    driver = Driver(world, app, laboratory, seed=7)
    driver.add(8)
    for turn in range(600):
        driver.turn()
        if turn >= 120 and laboratory.final and (laboratory.revoked or quorum > 1):
            break
    stored = world.ctx.store.read(lambda db: ledger_state.read_book(db, app.id, None))
    lines = world.ctx.store.read(lambda db: list(ledger.ledger(db)))
    granted = {line.result_id: line.claimed for line in lines if line.kind in ledger.GRANTS and line.claimed}
    assert granted == laboratory.prices
    assert {line.result_id for line in lines if line.kind == ledger.RELEASE} == laboratory.final
    assert {line.result_id for line in lines if line.kind == ledger.REVOKE} == laboratory.revoked
    assert (stored.app, stored.versions, stored.hosts) == (
        laboratory.state.app,
        laboratory.state.versions,
        laboratory.state.hosts,
    )
    assert {line.kind for line in lines} >= {"grant", "escrow", "release", "settlement"}
    assert quorum == 2 or laboratory.revoked
    totals = dict(world.query("SELECT id, total_credit FROM host"))
    beside = laboratory.kept + sum(line.granted for line in lines if line.facts.get("straggler"))
    assert sum(totals.values()) == pytest.approx(sum(map(settled, stored.hosts.values())) + beside)
    assert world.ctx.store.read(recompute).differences == []
