"""Replaying a job log under a credit system: what would everybody have got?

`replay` runs the policy itself, result by result, under any system, a project's own included; `replay_fast` runs
the compiled twin (extra ``lab``) under the built-in ones and gives the same figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from cobblestone.credit_lab.joblog import FIGURES, JobLog
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.ids import AppVersionId, HostId, ResultId
from cobblestone.domain.statistics import CreditStatement
from cobblestone.policy.credit.claims import (
    AppStatistics,
    ClaimInput,
    ClaimMode,
    HostVersionStatistics,
    PlatformKind,
    Statistics,
    VersionStatistics,
    WorkunitFacts,
)
from cobblestone.policy.credit.cobblestone import DEPLOYED, CreditUnit
from cobblestone.policy.credit.increments import app_after, host_version_after, version_after
from cobblestone.policy.credit.rac import HALF_LIFE, credited
from cobblestone.policy.credit.scales import VersionRecord, deployed_scales, designed_scales
from cobblestone.policy.credit.system import CreditSystem, GrantOutcome, grant_straggler, grant_workunit

MODES: tuple[ClaimMode, ...] = tuple(ClaimMode)
SCALE_INTERVAL = 600.0
"""Seconds of log time between updates of version scales (server-semantics: version scales)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """What a replay may be told beyond the system."""

    unit: CreditUnit = DEPLOYED
    max_granted: float | None = None
    half_life: float = HALF_LIFE
    scale_interval: float = SCALE_INTERVAL

    @property
    def limit(self) -> float:
        """Limit of a single grant."""
        return self.unit.tflops_year if self.max_granted is None else self.max_granted


@dataclass(frozen=True, slots=True)
class Statements:
    """Total and recent average credit of all hosts (users, teams, app versions) of a log."""

    ids: Sequence[int]
    totals: Sequence[float]
    values: Sequence[float]
    times: Sequence[float]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.ids)

    def rows(self) -> Iterator[tuple[int, float, float, float]]:
        """(id, total, recent average, its time), as plain numbers."""
        for row in zip(self.ids, self.totals, self.values, self.times, strict=True):
            yield int(row[0]), float(row[1]), float(row[2]), float(row[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Figures per result, in the order of the log, and what they add up to.  Lists, or NumPy arrays of the twin."""

    system: str
    unit: CreditUnit
    claimed: Sequence[float]
    granted: Sequence[float]
    modes: Sequence[int]  #: places in `MODES`
    hosts: Statements
    users: Statements
    teams: Statements
    versions: Statements
    version_scales: dict[int, float] = field(default_factory=dict[int, float])


def groups(log: JobLog) -> Iterator[tuple[int, int, bool]]:
    """(first line, line after the last, straggler) of each workunit and straggler, in the order of the log."""
    workunits, marked = log.column("workunit_id"), log.column("straggler")
    seen: set[int] = set()
    start = 0
    while start < log.length:
        workunit = workunits[start]
        end = start + 1
        late = bool(marked[start]) or workunit in seen
        while not late and end < log.length and workunits[end] == workunit and not marked[end]:
            end += 1
        seen.add(workunit)
        yield start, end, late
        start = end


def replay(log: JobLog, system: CreditSystem, options: ReplayOptions | None = None) -> Replay:
    """Replay a log by the policy itself."""
    run = _Run(log, system, options or ReplayOptions())
    for start, end, late in groups(log):
        run.grant(start, end, late)
    return run.result()


def replay_fast(log: JobLog, system: str, options: ReplayOptions | None = None) -> Replay:
    """Replay a log by the compiled twin; raises `ConfigError` without the extra ``lab``, or for another system."""
    try:
        from cobblestone.credit_lab.vectorised import replay_columns
    except ImportError as error:
        raise ConfigError(
            f"the fast replay needs NumPy and Numba ({error}); install `pip install 'cobblestone[lab]'`"
        ) from error
    return replay_columns(log, system, options or ReplayOptions())


class _Run:
    """State of a replay: every row that a server would keep."""

    def __init__(self, log: JobLog, system: CreditSystem, options: ReplayOptions) -> None:
        self.system = system
        self.options = options
        self.columns: dict[str, list[Any]] = {  # Any: int or float, by column
            name: log.column(name)
            for name in (
                *FIGURES,
                "workunit_id",
                "host_id",
                "result_id",
                "user_id",
                "team_id",
                "app_id",
                "app_version_id",
                "anonymous",
                "is_gpu",
                "canonical",
                "outlier",
            )
        }
        self.apps: dict[int, AppStatistics] = {}
        self.versions: dict[AppVersionId, VersionStatistics] = {}
        self.version_facts: dict[AppVersionId, tuple[int, bool]] = {}  # app, GPU
        self.records: dict[tuple[HostId, AppVersionId], HostVersionStatistics] = {}
        self.canonical_credit: dict[int, float] = {}
        self.statements: dict[str, dict[int, CreditStatement]] = {
            "host_id": {},
            "user_id": {},
            "team_id": {},
            "app_version_id": {},
        }
        self.claimed: list[float] = []
        self.granted: list[float] = []
        self.modes: list[int] = []
        self.next_scales: float | None = None

    def grant(self, start: int, end: int, late: bool) -> None:
        """Grant a workunit or a straggler, and keep what follows."""
        columns = self.columns
        now = columns["time"][start]
        self._scale_versions(now)
        app_id, workunit_id = columns["app_id"][start], columns["workunit_id"][start]
        app = self.apps.setdefault(app_id, AppStatistics())
        statistics = Statistics(app=app, versions=self.versions)
        workunit = WorkunitFacts(
            rsc_fpops_est=columns["rsc_fpops_est"][start],
            rsc_fpops_bound=columns["rsc_fpops_bound"][start],
            fixed_credit=columns["fixed_credit"][start],
        )
        inputs = [self._facts(line) for line in range(start, end)]
        options = self.options
        if late:
            outcome = grant_straggler(
                self.system,
                workunit,
                inputs[0],
                statistics,
                canonical_credit=self.canonical_credit.get(workunit_id, 0.0),
                unit=options.unit,
                max_granted=options.limit,
                now=now,
            )
        else:
            outcome = grant_workunit(
                self.system,
                workunit,
                inputs,
                statistics,
                unit=options.unit,
                max_granted=options.limit,
                now=now,
            )
            self.canonical_credit[workunit_id] = outcome.canonical_credit
        self._learn(outcome, app_id)
        self._pay(outcome, start)

    def _facts(self, line: int) -> ClaimInput:
        columns = self.columns
        version = AppVersionId(columns["app_version_id"][line])
        anonymous, gpu = bool(columns["anonymous"][line]), bool(columns["is_gpu"][line])
        if not anonymous:
            self.version_facts.setdefault(version, (columns["app_id"][line], gpu))
        host_id = HostId(columns["host_id"][line])
        return ClaimInput(
            result_id=ResultId(columns["result_id"][line]),
            host_id=host_id,
            app_version_id=version,
            platform=PlatformKind.ANONYMOUS if anonymous else PlatformKind.NORMAL,
            is_gpu=gpu,
            canonical=bool(columns["canonical"][line]),
            elapsed_time=columns["elapsed_time"][line],
            cpu_time=columns["cpu_time"][line],
            sent_time=columns["sent_time"][line],
            received_time=columns["received_time"][line],
            peak_flops=columns["peak_flops"][line],
            ncpus=columns["ncpus"][line],
            p_fpops=columns["p_fpops"][line],
            p_iops=columns["p_iops"][line],
            fpops_counted=columns["fpops_counted"][line],
            intops_counted=columns["intops_counted"][line],
            trickle_credit=columns["trickle_credit"][line],
            claimed_credit=columns["claimed_credit"][line],
            outlier=bool(columns["outlier"][line]),
            host_version=self.records.get((host_id, version), HostVersionStatistics()),
        )

    def _scale_versions(self, now: float) -> None:
        if self.next_scales is None:
            self.next_scales = now + self.options.scale_interval
        if not now >= self.next_scales:
            return
        self.next_scales = now + self.options.scale_interval
        find = designed_scales if self.system.name == "creditnew-designed" else deployed_scales
        for app_id, app in self.apps.items():
            records = [
                VersionRecord(
                    app_version_id=version,
                    is_gpu=gpu,
                    pfc=self.versions.get(version, VersionStatistics()).pfc,
                )
                for version, (of_app, gpu) in self.version_facts.items()
                if of_app == app_id
            ]
            found = find(records)
            for version, scale in found.scales.items():
                self.versions[version] = replace(self.versions[version], pfc_scale=scale)
            if found.min_avg_pfc is not None:
                self.apps[app_id] = replace(app, min_avg_pfc=found.min_avg_pfc)

    def _learn(self, outcome: GrantOutcome, app_id: int) -> None:
        for record in outcome.increments.host_versions:
            key = (record.host_id, record.app_version_id)
            self.records[key] = host_version_after(self.records.get(key, HostVersionStatistics()), record)
        for version in outcome.increments.versions:
            before = self.versions.get(version.app_version_id, VersionStatistics())
            self.versions[version.app_version_id] = version_after(before, version)
        if outcome.increments.app is not None:
            self.apps[app_id] = app_after(self.apps[app_id], outcome.increments.app)

    def _pay(self, outcome: GrantOutcome, start: int) -> None:
        columns = self.columns
        for line, result in enumerate(outcome.results, start=start):
            self.claimed.append(result.claimed)
            self.granted.append(result.granted)
            self.modes.append(MODES.index(result.mode))
            for name, statements in self.statements.items():
                number = columns[name][line]
                if number:
                    statements[number] = credited(
                        statements.get(number, CreditStatement()),
                        credit=result.granted,
                        work_start=columns["sent_time"][line],
                        now=columns["time"][line],
                        half_life=self.options.half_life,
                    )

    def result(self) -> Replay:
        """What the replay has come to."""
        return Replay(
            system=self.system.name,
            unit=self.options.unit,
            claimed=self.claimed,
            granted=self.granted,
            modes=self.modes,
            hosts=_statements(self.statements["host_id"].items()),
            users=_statements(self.statements["user_id"].items()),
            teams=_statements(self.statements["team_id"].items()),
            versions=_statements(self.statements["app_version_id"].items()),
            version_scales={
                int(version): statistics.pfc_scale
                for version, statistics in sorted(self.versions.items())
                if statistics.pfc_scale
            },
        )


def _statements(items: Iterable[tuple[int, CreditStatement]]) -> Statements:
    ordered = sorted(items)
    return Statements(
        ids=[number for number, _ in ordered],
        totals=[statement.total for _, statement in ordered],
        values=[statement.recent.value for _, statement in ordered],
        times=[statement.recent.time for _, statement in ordered],
    )
