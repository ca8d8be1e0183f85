"""Job logs, one line per event of a result, driven through the book of credit: for figures that are worked out by hand.

A line tells that a result was found valid or invalid, failed, was sent, or sent a message.  Results of a workunit stand together;
one that comes later is a straggler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.statistics import CreditStatement
from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, UserId, WorkunitId, float_sum
from cobblestone.policy.credit.book import (
    BookEntry,
    CreditBook,
    GrantTerms,
    JobLost,
    JobSent,
    MessageReceived,
    RecordKey,
    ResultsJudged,
    TrickleFacts,
    TrickleRules,
)
from cobblestone.policy.credit.claims import (
    DEPLOYED,
    MAX_OPERATIONS,
    AppStatistics,
    ClaimInput,
    ClaimMode,
    CreditUnit,
    PlatformKind,
    VersionStatistics,
    WorkunitFacts,
)
from cobblestone.policy.credit.rac import OWNERS, CreditTotals, common_moment
from cobblestone.policy.credit.registry import find_scales
from cobblestone.policy.credit.scales import VersionRecord
from cobblestone.policy.credit.system import CreditSystem

OUTCOMES = ("valid", "invalid", "error", "sent", "trickle")
"""What a line tells; the column ``outcome`` holds places in this list."""

VALID, INVALID, ERROR, SENT, TRICKLE = range(len(OUTCOMES))

REQUIRED = ("workunit_id", "host_id")

#: Identifiers and flags, with their defaults.
WHOLE_NUMBERS: dict[str, int] = {
    "workunit_id": 0,
    "host_id": 0,
    "outcome": VALID,
    "result_id": 0,
    "user_id": 0,
    "team_id": 0,
    "app_id": 1,
    "app_version_id": 1,
    "anonymous": 0,
    "is_gpu": 0,
    "canonical": 0,
    "straggler": 0,
    "outlier": 0,
}

#: Figures, with their defaults.
FIGURES: dict[str, float] = {
    "time": 0.0,
    "elapsed_time": 0.0,
    "cpu_time": 0.0,
    "sent_time": 0.0,
    "received_time": 0.0,
    "peak_flops": 0.0,
    "ncpus": 1.0,
    "p_fpops": 0.0,
    "p_iops": 0.0,
    "fpops_counted": 0.0,
    "intops_counted": 0.0,
    "trickle_credit": 0.0,
    "claimed_credit": 0.0,
    "rsc_fpops_est": 1e12,
    "rsc_fpops_bound": MAX_OPERATIONS,
    "fixed_credit": 0.0,
    "delay_bound": 604_800.0,
}


@dataclass(frozen=True, slots=True)
class JobLog:
    """Columns of equal length; lists, or NumPy arrays where the ``lab`` extra read them."""

    columns: Mapping[str, Sequence[Any]]  # Any: int or float, by column
    length: int

    def column(self, name: str) -> list[Any]:  # Any: int or float, by column
        """Return a column as a list of plain numbers; its default where the log has none."""
        values = self.columns.get(name)
        if values is None:
            if name == "result_id":
                return list(range(1, self.length + 1))
            if name == "time":
                return self.column("received_time")
            default = WHOLE_NUMBERS[name] if name in WHOLE_NUMBERS else FIGURES[name]
            return [default] * self.length
        as_list: Callable[[], list[Any]] | None = getattr(values, "tolist", None)  # NumPy's
        return as_list() if as_list is not None else list(values)


def job_log(columns: Mapping[str, Sequence[Any]], origin: str = "job log") -> JobLog:  # Any: int or float
    """Return a log from given columns; raises `ConfigError` if they are not valid."""
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise ConfigError(
            f"{origin}: column {', '.join(missing)} is missing; required are {', '.join(REQUIRED)}"
        )
    lengths = {len(values) for values in columns.values()}
    if len(lengths) != 1:
        raise ConfigError(f"{origin}: columns have different lengths {sorted(lengths)}")
    length = lengths.pop()
    outcome: Any = columns.get("outcome")  # Any: a list, or a NumPy array
    if outcome is not None and length:
        smallest, largest = (
            (outcome.min(), outcome.max()) if hasattr(outcome, "min") else (min(outcome), max(outcome))
        )
        if smallest < 0 or largest >= len(OUTCOMES):
            raise ConfigError(
                f"{origin}: outcome must be one of {', '.join(OUTCOMES)}, or 0 … {len(OUTCOMES) - 1}"
            )
    return JobLog(columns, length)


MODES: tuple[ClaimMode, ...] = tuple(ClaimMode)
NO_CLAIM = len(MODES)
"""Stands in `Replay.modes` for lines that are not of valid results."""

SCALE_INTERVAL = 600.0
"""Seconds of log time between updates of version scales (server-semantics: version scales)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Options of a replay beyond the system."""

    unit: CreditUnit = DEPLOYED
    max_granted: float | None = None
    scale_interval: float = SCALE_INTERVAL
    host_scale_check: bool = False  #: the app's option: host scales of proven hosts only
    credit_per_cpu_second: float = 0.0  #: second system: published average; 0: of the log's own sums
    trickles: TrickleRules = TrickleRules()

    @property
    def limit(self) -> float:
        """Return the limit of a single grant."""
        return self.unit.tflops_year if self.max_granted is None else self.max_granted


@dataclass(frozen=True, slots=True)
class Statements:
    """Total and recent average credit of all hosts (users, teams, app versions) of a log."""

    ids: Sequence[int]
    totals: Sequence[float]
    values: Sequence[float]
    times: Sequence[float]

    def __len__(self) -> int:
        """Return their number."""
        return len(self.ids)

    def rows(self) -> Iterator[tuple[int, float, float, float]]:
        """Return (id, total, recent average, its time), as plain numbers."""
        for row in zip(self.ids, self.totals, self.values, self.times, strict=True):
            yield int(row[0]), float(row[1]), float(row[2]), float(row[3])


@dataclass(frozen=True, slots=True)
class HostRecords:
    """The final record of every app version on every host of a log."""

    host_ids: Sequence[int]
    version_ids: Sequence[int]
    samples: Sequence[int]  #: of PFC / estimate
    means: Sequence[float]
    consecutive_valid: Sequence[int]
    error_rates: Sequence[float]
    on_probation: Sequence[bool]
    host_scale_times: Sequence[float]

    def rows(self) -> Iterator[tuple[int | float | bool, ...]]:
        """Yield the figures of one record after the other, as plain numbers."""
        kinds = (int, int, int, float, int, float, bool, float)
        columns = (getattr(self, each.name) for each in fields(self))
        for row in zip(*columns, strict=True):
            yield tuple(kind(figure) for kind, figure in zip(kinds, row, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Figures per line, in the order of the log, and their totals.  Lists, or NumPy arrays of the compiled twin.

    Lines of trickle messages were granted provisional credit; those of wrong results the negative of it, which is taken back.
    """

    system: str
    unit: CreditUnit
    claimed: Sequence[float]
    granted: Sequence[float]
    modes: Sequence[int]  #: places in `MODES`, or `NO_CLAIM`
    hosts: Statements
    users: Statements
    teams: Statements
    versions: Statements
    records: HostRecords
    version_scales: dict[int, float] = field(default_factory=dict[int, float])


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


class Run:
    """State of a replay: the book and the totals, which the lines of a log drive."""

    def __init__(self, log: JobLog, system: CreditSystem, options: ReplayOptions) -> None:
        self.options = options
        self.columns: dict[str, list[Any]] = {  # Any: int or float, by column
            name: log.column(name) for name in _COLUMNS
        }
        self.book = CreditBook()
        self.terms = GrantTerms(system=system, unit=options.unit, max_granted=options.limit)
        self.totals = CreditTotals()
        self.version_facts: dict[AppVersionId, tuple[int, bool]] = {}  # app, GPU
        self.provisional: dict[int, list[tuple[int, float]]] = {}  # by result: line and credit of messages
        self.over: set[int] = set()  # results
        self.first_seen: dict[int, float] = {}  # by host
        self.computers: dict[int, set[int]] = {}  # by user
        self.claimed = [0.0] * log.length
        self.granted = [0.0] * log.length
        self.modes = [NO_CLAIM] * log.length
        self.next_scales: float | None = None

    # ------------------------------------------------------------------------------------------ events

    def event(self, start: int, end: int, late: bool) -> None:
        """Tell the book about the lines: one workunit, straggler, failure, sending or message."""
        columns = self.columns
        now, outcome = columns["time"][start], columns["outcome"][start]
        self._scale_versions(now)
        for line in range(start, end):
            self.book.hosts.setdefault(self._key(line), HostVersionStatistics())
            host, user = columns["host_id"][line], columns["user_id"][line]
            sent = columns["sent_time"][line]
            self.first_seen.setdefault(host, sent if 0.0 < sent < now else now)
            if user:
                self.computers.setdefault(user, set()).add(host)
        if outcome == TRICKLE:
            self._message(start, now)
        elif outcome in (SENT, ERROR):
            happened = JobSent if outcome == SENT else JobLost
            self.book.apply(
                happened(key=self._key(start), delay_bound=columns["delay_bound"][start], now=now)
            )
            if outcome == ERROR:
                self.over.add(columns["result_id"][start])
        else:
            self._judge(range(start, end), late, now)

    def _key(self, line: int) -> RecordKey:
        return HostId(self.columns["host_id"][line]), AppVersionId(self.columns["app_version_id"][line])

    def _judge(self, lines: range, late: bool, now: float) -> None:
        """Judge the results on ``lines``; the facts of the job are those of the first line."""
        columns, options, first = self.columns, self.options, lines[0]
        app_id = AppId(columns["app_id"][first])
        valid = [line for line in lines if columns["outcome"][line] == VALID]
        if valid:
            self.book.apps.setdefault(
                app_id,
                AppStatistics(
                    host_scale_check=options.host_scale_check,
                    credit_per_cpu_second=options.credit_per_cpu_second,
                ),
            )
        inputs = [self._facts(line) for line in valid]
        if inputs and not late and not any(facts.canonical for facts in inputs):
            inputs[0] = replace(inputs[0], canonical=True)
        event = ResultsJudged(
            terms=self.terms,
            app_id=app_id,
            workunit_id=WorkunitId(columns["workunit_id"][first]),
            workunit=WorkunitFacts(
                rsc_fpops_est=columns["rsc_fpops_est"][first],
                rsc_fpops_bound=columns["rsc_fpops_bound"][first],
                fixed_credit=columns["fixed_credit"][first],
            ),
            valid=inputs,
            verdicts=[(self._key(line), columns["outcome"][line] == VALID) for line in lines],
            straggler=late,
            now=now,
        )
        entries = self.book.apply(event)
        for line in lines:
            if columns["outcome"][line] != VALID:
                self._take_back(line, now)
            self.over.add(columns["result_id"][line])
        for line, entry in zip(valid, entries, strict=True):
            self.modes[line] = MODES.index(entry.credit.mode)
            self.provisional.pop(columns["result_id"][line], None)
            self._add(line, entry)

    def _facts(self, line: int) -> ClaimInput:
        columns = self.columns
        host_id, version = self._key(line)
        anonymous, gpu = bool(columns["anonymous"][line]), bool(columns["is_gpu"][line])
        if not anonymous:
            self.version_facts.setdefault(version, (columns["app_id"][line], gpu))
            self.book.versions.setdefault(version, VersionStatistics())
        result_id = columns["result_id"][line]
        messages = float_sum(credit for _, credit in self.provisional.get(result_id, ()))
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
            host_age=max(0.0, columns["time"][line] - self.first_seen[host_id]),
            owner_computers=max(1, len(self.computers.get(columns["user_id"][line], ()))),
        )

    # ------------------------------------------------------------------------------- messages while it runs

    def _message(self, line: int, now: float) -> None:
        columns = self.columns
        result_id, sent = columns["result_id"][line], columns["sent_time"][line]
        facts = TrickleFacts(
            run_time=columns["elapsed_time"][line],
            p_fpops=columns["p_fpops"][line],
            in_progress=result_id not in self.over,
            sent_time=sent if math.isfinite(sent) else now,
            most_credit=self.options.unit.of_flops(columns["rsc_fpops_bound"][line]),
        )
        event = MessageReceived(
            result_id=ResultId(result_id),
            user_id=UserId(columns["user_id"][line]),
            facts=facts,
            rules=self.options.trickles,
            unit=self.options.unit,
            now=now,
        )
        for entry in self.book.apply(event):
            self.provisional.setdefault(result_id, []).append((line, entry.credit.granted))
            self._add(line, entry)

    def _take_back(self, line: int, now: float) -> None:
        """Take back what messages of an invalid result granted, from those who got it."""
        messages = self.provisional.pop(self.columns["result_id"][line], [])
        if not messages:
            return
        times = self.columns["time"]
        amount = float_sum(credit for _, credit in messages)
        self.granted[line] = -amount
        moment = common_moment([(credit, times[place]) for place, credit in messages])
        self.totals.correct(self._owners(line), credit=-amount, granted_time=moment, now=now)

    # ---------------------------------------------------------------------------------- what follows

    def _scale_versions(self, now: float) -> None:
        if self.next_scales is None:
            self.next_scales = now + self.options.scale_interval
        if not now >= self.next_scales:
            return
        self.next_scales = now + self.options.scale_interval
        for app_id, app in self.book.apps.items():
            records = [
                VersionRecord(app_version_id=version, is_gpu=gpu, pfc=self.book.versions[version].pfc)
                for version, (of_app, gpu) in self.version_facts.items()
                if of_app == app_id
            ]
            found = find_scales(
                self.terms.system.name, records, previous=app.min_avg_pfc, elapsed=self.options.scale_interval
            )
            for version, scale in found.scales.items():
                self.book.versions[version] = replace(self.book.versions[version], pfc_scale=scale)
            if found.min_avg_pfc is not None:
                self.book.apps[app_id] = replace(app, min_avg_pfc=found.min_avg_pfc)

    def _owners(self, line: int) -> tuple[int | None, ...]:
        return tuple(self.columns[name][line] or None for name in _OWNERS)

    def _add(self, line: int, entry: BookEntry) -> None:
        """Record the grant of a line, and add it to the totals and averages of all that it names."""
        self.claimed[line], self.granted[line] = entry.credit.claimed, entry.credit.granted
        owners = self._owners(line)
        self.totals.open(owners)
        self.totals.credit([(owners, entry.credit.granted, entry.work_start)], now=self.columns["time"][line])

    def result(self) -> Replay:
        """Return the result of the replay."""
        hosts, users, teams, versions = (_statements(self.totals.rows[kind].items()) for kind in OWNERS)
        return Replay(
            system=self.terms.system.name,
            unit=self.options.unit,
            claimed=self.claimed,
            granted=self.granted,
            modes=self.modes,
            hosts=hosts,
            users=users,
            teams=teams,
            versions=versions,
            records=_records(self.book.hosts),
            version_scales={
                int(version): statistics.pfc_scale
                for version, statistics in sorted(self.book.versions.items())
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


def _records(records: Mapping[RecordKey, HostVersionStatistics]) -> HostRecords:
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


def groups(log: JobLog) -> Iterator[tuple[int, int, bool]]:
    """(first line, line after the last, straggler) of each workunit, straggler and other event, in the order of the log.

    A workunit is what its validator looked at together: its valid and invalid results that stand together.
    """
    workunits, marked, outcomes = log.column("workunit_id"), log.column("straggler"), log.column("outcome")
    seen: set[int] = set()
    start = 0
    while start < log.length:
        workunit, judged = workunits[start], outcomes[start] <= INVALID
        end = start + 1
        late = judged and (bool(marked[start]) or workunit in seen)
        while (
            judged
            and not late
            and end < log.length
            and workunits[end] == workunit
            and outcomes[end] <= INVALID
            and not marked[end]
        ):
            end += 1
        if VALID in outcomes[start:end]:
            seen.add(workunit)
        yield start, end, late
        start = end


def replay(log: JobLog, system: CreditSystem, options: ReplayOptions | None = None) -> Replay:
    """Replay a log by the policy itself."""
    run = Run(log, system, options or ReplayOptions())
    for start, end, late in groups(log):
        run.event(start, end, late)
    return run.result()
