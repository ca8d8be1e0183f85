"""Systems with ``claim``, ``grant`` and ``learn``: the book that the server keeps, driven job by job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cobblestone.credit_lab.systems.pay import Watcher
from cobblestone.credit_lab.systems.tape import BOUND, DELAY_BOUND, ERROR, GPU, OWN_BUILD, VALID, Job, Result
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, WorkunitId
from cobblestone.policy.credit.book import CreditBook, GrantTerms, JobLost, RecordKey, ResultsJudged
from cobblestone.policy.credit.claims import (
    DEPLOYED,
    AppStatistics,
    ClaimInput,
    PlatformKind,
    VersionStatistics,
    WorkunitFacts,
)
from cobblestone.policy.credit.registry import find_scales
from cobblestone.policy.credit.scales import VersionRecord
from cobblestone.policy.credit.system import CreditSystem

#: Seconds between updates of version scales (server-semantics: version scales).
SCALE_INTERVAL = 600.0


class BookWatcher(Watcher):
    """Grants by a credit system.  As designed, the third system asks computers to prove themselves."""

    def __init__(self, system: CreditSystem, accounts: list[int]) -> None:
        """``accounts`` grows with the run's identities."""
        super().__init__()
        self.accounts = accounts
        self.book = CreditBook()
        self.terms = GrantTerms(system=system)
        self.versions: dict[AppVersionId, tuple[int, bool]] = {}  # app, GPU
        self.first_seen: dict[int, float] = {}  # by identity
        self.computers: dict[int, set[int]] = {}  # by account
        self.next_scales = 0.0

    def decided(self, results: Sequence[Result], job: Job) -> None:
        """Grant what is valid; what was refused or wrong is held against its computer."""
        first, now = self.open(results, job), job.time
        self._scale_versions(now)
        verdicts: list[tuple[RecordKey, bool]] = []
        rows: list[int] = []
        for at, result in enumerate(results, first):
            key = HostId(result.identity), AppVersionId(result.version)
            sent = result.sent
            self.first_seen.setdefault(result.identity, sent if 0.0 < sent < now else now)
            if account := self.accounts[result.identity]:
                self.computers.setdefault(account, set()).add(result.identity)
            if result.outcome == ERROR:
                self.book.apply(JobLost(key=key, delay_bound=DELAY_BOUND, now=now))
                continue
            verdicts.append((key, result.outcome == VALID))
            if result.outcome == VALID:
                rows.append(at)
        if not verdicts:
            return
        app = AppId(job.app)
        if rows and app not in self.book.apps:
            check = self.terms.system.name == "creditnew-designed"
            self.book.apps[app] = AppStatistics(host_scale_check=check)
        event = ResultsJudged(
            terms=self.terms,
            app_id=app,
            workunit_id=WorkunitId(job.number),
            workunit=WorkunitFacts(
                rsc_fpops_est=job.estimate,
                rsc_fpops_bound=BOUND * job.estimate,
                fixed_credit=DEPLOYED.of_flops(job.estimate),
            ),
            valid=[self._facts(results[row - first], row, job, canonical=row == rows[0]) for row in rows],
            verdicts=verdicts,
            now=now,
        )
        for row, entry in zip(rows, self.book.apply(event), strict=True):
            self.price[row] = entry.credit.granted
        # nothing comes later
        self.book.canonical_credit.clear()
        self.book.changed.canonical_credit.clear()

    def records(self) -> object:
        """Return the rows of the book."""
        return self.book.hosts, self.book.versions, self.book.apps

    def _facts(self, result: Result, row: int, job: Job, *, canonical: bool) -> ClaimInput:
        version, own_build = AppVersionId(result.version), result.kind == OWN_BUILD
        if not own_build and version not in self.versions:
            self.versions[version] = job.app, result.kind == GPU
            self.book.versions.setdefault(version, VersionStatistics())
        return ClaimInput(
            result_id=ResultId(row + 1),
            host_id=HostId(result.identity),
            app_version_id=version,
            platform=PlatformKind.ANONYMOUS if own_build else PlatformKind.NORMAL,
            is_gpu=result.kind == GPU,
            canonical=canonical,
            elapsed_time=result.run_time,
            cpu_time=result.cpu_time,
            sent_time=result.sent,
            received_time=result.time,
            peak_flops=result.peak,
            ncpus=64.0,
            p_fpops=result.benchmark,
            p_iops=2.0 * result.benchmark,
            fpops_counted=result.counted,
            host_age=max(0.0, job.time - self.first_seen[result.identity]),
            owner_computers=max(1, len(self.computers.get(self.accounts[result.identity], ()))),
        )

    def _scale_versions(self, now: float) -> None:
        if now < self.next_scales:
            return
        begun, self.next_scales = self.next_scales > 0.0, now + SCALE_INTERVAL
        for app_id, app in self.book.apps.items() if begun else ():
            known = [
                VersionRecord(app_version_id=version, is_gpu=gpu, pfc=self.book.versions[version].pfc)
                for version, (of_app, gpu) in self.versions.items()
                if of_app == app_id
            ]
            found = find_scales(
                self.terms.system.name, known, previous=app.min_avg_pfc, elapsed=SCALE_INTERVAL
            )
            for version, scale in found.scales.items():
                self.book.versions[version] = replace(self.book.versions[version], pfc_scale=scale)
            if found.min_avg_pfc is not None:
                self.book.apps[app_id] = replace(app, min_avg_pfc=found.min_avg_pfc)
