"""The replay by the policy itself: every row that a server would keep, and what each event does to them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from cobblestone.credit_lab.figures import (
    MODES,
    NO_CLAIM,
    HostRecords,
    Replay,
    ReplayOptions,
    Statements,
)
from cobblestone.credit_lab.joblog import ERROR, FIGURES, SENT, TRICKLE, VALID, JobLog
from cobblestone.domain.ids import AppVersionId, HostId, ResultId
from cobblestone.domain.statistics import CreditStatement
from cobblestone.policy.credit import host_quality
from cobblestone.policy.credit.claims import (
    AppStatistics,
    ClaimInput,
    HostVersionStatistics,
    PlatformKind,
    Statistics,
    VersionStatistics,
    WorkunitFacts,
)
from cobblestone.policy.credit.increments import app_after, host_version_after, version_after
from cobblestone.policy.credit.rac import common_moment, corrected, credited
from cobblestone.policy.credit.registry import scale_finder
from cobblestone.policy.credit.scales import VersionRecord
from cobblestone.policy.credit.system import CreditSystem, GrantOutcome, grant_straggler, grant_workunit
from cobblestone.policy.credit.trickle import TrickleFacts, grant_trickle

_OWNERS = ("host_id", "user_id", "team_id", "app_version_id")
_COLUMNS = (
    *FIGURES,
    *_OWNERS,
    "outcome",
    "workunit_id",
    "result_id",
    "app_id",
    "anonymous",
    "is_gpu",
    "canonical",
    "outlier",
)
RecordKey = tuple[HostId, AppVersionId]


class Run:
    """State of a replay."""

    def __init__(self, log: JobLog, system: CreditSystem, options: ReplayOptions) -> None:
        self.system = system
        self.options = options
        self.columns: dict[str, list[Any]] = {  # Any: int or float, by column
            name: log.column(name) for name in _COLUMNS
        }
        self.apps: dict[int, AppStatistics] = {}
        self.versions: dict[AppVersionId, VersionStatistics] = {}
        self.version_facts: dict[AppVersionId, tuple[int, bool]] = {}  # app, GPU
        self.records: dict[RecordKey, HostVersionStatistics] = {}
        self.canonical_credit: dict[int, float] = {}
        self.statements: dict[str, dict[int, CreditStatement]] = {name: {} for name in _OWNERS}
        self.provisional: dict[int, list[tuple[int, float]]] = {}  # by result: line and credit of messages
        self.message_seconds: dict[int, float] = {}
        self.over: set[int] = set()  # results
        self.claimed = [0.0] * log.length
        self.granted = [0.0] * log.length
        self.modes = [NO_CLAIM] * log.length
        self.next_scales: float | None = None

    # ------------------------------------------------------------------------------------------ events

    def event(self, start: int, end: int, late: bool) -> None:
        """What the lines from ``start`` to ``end`` tell: one workunit, straggler, failure, sending or message."""
        columns = self.columns
        now, outcome = columns["time"][start], columns["outcome"][start]
        self._scale_versions(now)
        for line in range(start, end):
            self.records.setdefault(self._key(line), HostVersionStatistics())
        if outcome == TRICKLE:
            self._message(start, now)
            return
        if outcome in (SENT, ERROR):
            key, delay_bound = self._key(start), columns["delay_bound"][start]
            after = host_quality.after_sending if outcome == SENT else host_quality.after_failure
            self.records[key] = after(self.records[key], delay_bound=delay_bound, now=now)
            if outcome == ERROR:
                self.over.add(columns["result_id"][start])
            return
        valid = [line for line in range(start, end) if columns["outcome"][line] == VALID]
        granted = self._grant(start, valid, late, now) if valid else None
        for line in range(start, end):
            key = self._key(line)
            if columns["outcome"][line] == VALID:
                self.records[key] = host_quality.after_valid(self.records[key], now=now)
            else:
                self.records[key] = host_quality.after_invalid(self.records[key])
                self._take_back(line, now)
            self.over.add(columns["result_id"][line])
        if granted is not None:
            self._learn(granted, columns["app_id"][start])
            self._pay(granted, valid)

    def _key(self, line: int) -> RecordKey:
        return HostId(self.columns["host_id"][line]), AppVersionId(self.columns["app_version_id"][line])

    def _grant(self, start: int, lines: list[int], late: bool, now: float) -> GrantOutcome:
        """Grant the valid results on ``lines``; the facts of the job are those of the line ``start``."""
        columns, options = self.columns, self.options
        app_id, workunit_id = columns["app_id"][start], columns["workunit_id"][start]
        app = self.apps.setdefault(
            app_id,
            AppStatistics(
                host_scale_check=options.host_scale_check, credit_per_cpu_second=options.credit_per_cpu_second
            ),
        )
        statistics = Statistics(app=app, versions=self.versions)
        workunit = WorkunitFacts(
            rsc_fpops_est=columns["rsc_fpops_est"][start],
            rsc_fpops_bound=columns["rsc_fpops_bound"][start],
            fixed_credit=columns["fixed_credit"][start],
        )
        inputs = [self._facts(line) for line in lines]
        if late:
            return grant_straggler(
                self.system,
                workunit,
                inputs[0],
                statistics,
                canonical_credit=self.canonical_credit.get(workunit_id, 0.0),
                unit=options.unit,
                max_granted=options.limit,
                now=now,
            )
        if not any(facts.canonical for facts in inputs):
            inputs[0] = replace(inputs[0], canonical=True)
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
        return outcome

    def _facts(self, line: int) -> ClaimInput:
        columns = self.columns
        host_id, version = self._key(line)
        anonymous, gpu = bool(columns["anonymous"][line]), bool(columns["is_gpu"][line])
        if not anonymous:
            self.version_facts.setdefault(version, (columns["app_id"][line], gpu))
        result_id = columns["result_id"][line]
        messages = sum(credit for _, credit in self.provisional.get(result_id, ()))
        return ClaimInput(
            result_id=ResultId(result_id),
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
            trickle_credit=columns["trickle_credit"][line] + messages,
            claimed_credit=columns["claimed_credit"][line],
            outlier=bool(columns["outlier"][line]),
            host_version=self.records[host_id, version],
        )

    # ------------------------------------------------------------------------------- messages while it runs

    def _message(self, line: int, now: float) -> None:
        columns = self.columns
        result_id, sent = columns["result_id"][line], columns["sent_time"][line]
        credited_seconds = self.message_seconds.get(result_id, 0.0)
        facts = TrickleFacts(
            run_time=columns["elapsed_time"][line],
            p_fpops=columns["p_fpops"][line],
            in_progress=result_id not in self.over,
            sent_time=sent if math.isfinite(sent) else now,
            credited_run_time=credited_seconds,
        )
        grant = grant_trickle(facts, self.options.trickles, unit=self.options.unit, now=now)
        self.claimed[line] = self.granted[line] = grant.amount
        if grant.amount > 0.0:
            self.message_seconds[result_id] = credited_seconds + grant.run_time
            self.provisional.setdefault(result_id, []).append((line, grant.amount))
            self._add(line, grant.amount, grant.work_start)

    def _take_back(self, line: int, now: float) -> None:
        """What messages of a wrong result brought is taken from those whom they credited."""
        messages = self.provisional.pop(self.columns["result_id"][line], [])
        if not messages:
            return
        times = self.columns["time"]
        amount = sum(credit for _, credit in messages)
        self.granted[line] = -amount
        moment = common_moment([(credit, times[place]) for place, credit in messages])
        for name, statements in self.statements.items():
            number = self.columns[name][line]
            if number:
                statements[number] = corrected(
                    statements.get(number, CreditStatement()),
                    credit=-amount,
                    granted_time=moment,
                    now=now,
                    half_life=self.options.half_life,
                )

    # ---------------------------------------------------------------------------------- what follows

    def _scale_versions(self, now: float) -> None:
        if self.next_scales is None:
            self.next_scales = now + self.options.scale_interval
        if not now >= self.next_scales:
            return
        self.next_scales = now + self.options.scale_interval
        find = scale_finder(self.system.name)
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
            self.records[key] = host_version_after(self.records[key], record)
        for version in outcome.increments.versions:
            before = self.versions.get(version.app_version_id, VersionStatistics())
            self.versions[version.app_version_id] = version_after(before, version)
        if outcome.increments.app is not None:
            self.apps[app_id] = app_after(self.apps[app_id], outcome.increments.app)

    def _pay(self, outcome: GrantOutcome, lines: list[int]) -> None:
        for line, result in zip(lines, outcome.results, strict=True):
            self.claimed[line] = result.claimed
            self.granted[line] = result.granted
            self.modes[line] = MODES.index(result.mode)
            self.provisional.pop(self.columns["result_id"][line], None)
            self._add(line, result.granted, self.columns["sent_time"][line])

    def _add(self, line: int, credit: float, work_start: float) -> None:
        """Add credit to the totals and averages of everybody whom a line names."""
        for name, statements in self.statements.items():
            number = self.columns[name][line]
            if number:
                statements[number] = credited(
                    statements.get(number, CreditStatement()),
                    credit=credit,
                    work_start=work_start,
                    now=self.columns["time"][line],
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
            records=_records(self.records),
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


def _records(records: dict[RecordKey, HostVersionStatistics]) -> HostRecords:
    ordered = sorted(records.items())
    known = [statistics for _, statistics in ordered]
    return HostRecords(
        host_ids=[host for (host, _), _ in ordered],
        version_ids=[version for (_, version), _ in ordered],
        samples=[each.pfc.n for each in known],
        means=[each.pfc.mean for each in known],
        consecutive_valid=[each.consecutive_valid for each in known],
        error_rates=[each.error_rate for each in known],
        on_probation=[each.scale_probation for each in known],
        host_scale_times=[each.host_scale_time for each in known],
    )
