"""The fast replay: columns in, figures out, by the compiled twin of the policy.  Needs the extra ``lab``."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cobblestone.credit_lab import kernels, rows
from cobblestone.credit_lab.figures import HostRecords, Replay, ReplayOptions, Statements
from cobblestone.credit_lab.joblog import FIGURES, INVALID, TRICKLE, VALID, WHOLE_NUMBERS, JobLog
from cobblestone.credit_lab.rows import Flags, Floats, Integers, ReplayRules, Rows, compiled, inlined
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.statistics import HOST_VERSION_RULE, VERSION_RULE
from cobblestone.policy.credit import credit_new, rac
from cobblestone.policy.credit.claims import MAX_TIME, AppStatistics, HostVersionStatistics
from cobblestone.policy.credit.early_systems import BenchmarkSystem, CountedSystem
from cobblestone.policy.credit.registry import credit_system
from cobblestone.policy.credit.steady import MEASURED, STEADY, STEADY_RULE


@compiled
def replay_averages(
    place: Integers,
    credit: Floats,
    work_start: Floats,
    time: Floats,
    half_life: float,
    largest: float,
    totals: Floats,
    values: Floats,
    times: Floats,
) -> None:
    """Return totals and recent averages of the hosts (users, teams, versions) at ``place``; -1 is none."""
    rate = math.log(2.0) / half_life
    for i in range(place.size):
        k = place[i]
        if k < 0:
            continue
        amount = credit[i]
        now = time[i] if math.isfinite(time[i]) else times[k]
        first = times[k] == 0.0 and amount > 0.0
        seconds = now - (work_start[i] if first else times[k])
        if not 0.0 < seconds < math.inf:
            seconds = 0.0
        weight = math.exp(-seconds * rate)
        if 1.0 - weight <= 1e-6:
            value = values[k] * weight + rate * 86400.0 * amount
        elif first:
            value = amount / (seconds / 86400.0)
        else:
            value = values[k] * weight + (1.0 - weight) * amount / (seconds / 86400.0)
        values[k] = min(value, largest) if value > 0.0 else 0.0
        times[k] = now
        totals[k] = min(totals[k] + amount, largest)


@compiled
def group_lines(
    workunit: Integers, marked: Integers, outcome: Integers, seen: Flags, start: Integers, late: Flags
) -> int:
    """Fill in the first lines of workunits, stragglers and other events; return how many there are."""
    count = 0
    i = 0
    while i < workunit.size:
        k = workunit[i]
        end = i + 1
        judged = outcome[i] <= INVALID
        is_late = judged and (marked[i] != 0 or seen[k])
        granted = outcome[i] == VALID
        while (
            judged
            and not is_late
            and end < workunit.size
            and workunit[end] == k
            and outcome[end] <= INVALID
            and marked[end] == 0
        ):
            granted = granted or outcome[end] == VALID
            end += 1
        if granted:
            seen[k] = True
        start[count], late[count] = i, is_late
        count += 1
        i = end
    start[count] = workunit.size
    return count


@inlined
def bounded(value: float, limit: float) -> float:
    """Return one reported figure within 0 … ``limit``."""
    if 0.0 <= value <= limit:
        return value
    if value < 0.0 or not math.isfinite(value):
        return 0.0
    return limit


@compiled
def bound_lines(rules: ReplayRules, lines: Rows, start: Integers) -> None:
    """Limit the figures of every line to plausible values, in place.

    Facts of the job, and the time of the grant, are those of the first line of each workunit.
    """
    for group in range(start.size - 1):
        first = lines[start[group]]
        for i in range(start[group] + 1, start[group + 1]):
            lines[i].time = first.time
            lines[i].rsc_fpops_est = first.rsc_fpops_est
            lines[i].rsc_fpops_bound = first.rsc_fpops_bound
            lines[i].fixed_credit = first.fixed_credit
    for line in lines:
        line.elapsed_time = bounded(line.elapsed_time, rules.max_seconds)
        line.cpu_time = bounded(line.cpu_time, rules.max_seconds)
        line.sent_time = bounded(line.sent_time, rules.max_time)
        line.received_time = bounded(line.received_time, rules.max_time)
        line.peak_flops = bounded(line.peak_flops, rules.max_peak_flops)
        line.ncpus = max(1.0, bounded(line.ncpus, rules.max_processors))
        line.p_fpops = bounded(line.p_fpops, rules.max_speed)
        line.p_iops = bounded(line.p_iops, rules.max_speed)
        line.fpops_counted = bounded(line.fpops_counted, rules.max_operations)
        line.intops_counted = bounded(line.intops_counted, rules.max_operations)
        line.trickle_credit = bounded(line.trickle_credit, rules.max_credit)
        line.claimed_credit = bounded(line.claimed_credit, rules.max_credit)
        line.fixed_credit = bounded(line.fixed_credit, rules.max_credit)
        if not 0.0 < line.rsc_fpops_est <= rules.max_operations:
            line.rsc_fpops_est = rules.default_estimate
        if not 0.0 < line.rsc_fpops_bound <= rules.max_operations:
            line.rsc_fpops_bound = rules.max_operations
        if line.received_time > line.time + rules.clock_tolerance:
            line.received_time = line.time
        if line.sent_time != 0.0 and line.received_time != 0.0:
            line.sent_time = min(line.sent_time, line.received_time)
            window = line.received_time - line.sent_time
            line.elapsed_time = min(line.elapsed_time, window)
            line.cpu_time = min(line.cpu_time, window * line.ncpus)


_CODES = {
    "creditnew-designed": rows.DESIGNED,
    "creditnew-deployed": rows.DEPLOYED,
    "fixed": rows.FIXED,
    "runtime": rows.RUNTIME,
    "assigned": rows.ASSIGNED,
    "after-assimilation": rows.ASSIGNED,
    "none": rows.NONE,
    "trickle": rows.NONE,
    STEADY: rows.STEADY,
    MEASURED: rows.MEASURED,
}
_COMBINATIONS = {"mean": rows.MEAN, "minimum": rows.MINIMUM, "drop-extremes": rows.DROP_EXTREMES}

_FLAGS = ("anonymous", "is_gpu", "canonical", "outlier")

LINES_AT_A_TIME = 200_000
_LAYOUT = ("C", "W")  # one layout: a kernel is compiled again for any other


def rules_of(name: str, options: ReplayOptions) -> ReplayRules:
    """Return the rules of a built-in system; raises `ConfigError` for one that has no compiled twin."""
    system = credit_system(name)
    code, combination, both = _CODES.get(name), rows.MEAN, False
    if isinstance(system, BenchmarkSystem):
        code, combination, both = rows.BENCHMARK, _COMBINATIONS[system.combination], system.both
    elif isinstance(system, CountedSystem):
        code, combination = rows.COUNTED, _COMBINATIONS[system.combination]
    if code is None:
        raise ConfigError(f"credit system {name!r} has no fast replay; replay it with the policy")
    host_rule = credit_new.DESIGN_HOST_RULE if code == rows.DESIGNED else HOST_VERSION_RULE
    version_rule = STEADY_RULE if code in (rows.STEADY, rows.MEASURED) else VERSION_RULE
    constants = {
        name.lower(): getattr(module, name)
        for module, names in rows.CONSTANTS.items()
        for name in names.split()
    }
    return rows.make_rules(
        system=code,
        combination=combination,
        both=both,
        per_flop=options.unit.per_flop,
        max_granted=float(options.limit),
        scale_interval=float(options.scale_interval),
        host_scale_check=options.host_scale_check,
        credit_per_cpu_second=float(options.credit_per_cpu_second),
        host_threshold=host_rule.threshold,
        host_weight=host_rule.weight,
        host_limit=host_rule.limit,
        version_threshold=version_rule.threshold,
        version_weight=version_rule.weight,
        version_limit=version_rule.limit,
        **constants,
    )


def _whole(log: JobLog, name: str) -> Integers:
    values = log.columns.get(name)
    if values is None:
        return np.full(log.length, WHOLE_NUMBERS[name], dtype=np.int64)
    return np.require(values, dtype=np.int64, requirements=_LAYOUT)


def _figure(log: JobLog, name: str) -> Floats:
    values = log.columns.get(name)
    if values is None:
        if name == "time":
            return _figure(log, "received_time")
        return np.full(log.length, FIGURES[name], dtype=np.float64)
    return np.require(values, dtype=np.float64, requirements=_LAYOUT)


def places(ids: Integers) -> tuple[Integers, Integers]:
    """Return (place of each id among the distinct ones, the distinct ids in order)."""
    if ids.size == 0:
        return ids, ids
    smallest, largest = int(ids.min()), int(ids.max())
    span = largest - smallest + 1
    if span > 4 * ids.size + 1_000_000:
        distinct, place = np.unique(ids, return_inverse=True)
        return place.astype(np.int64), distinct
    offset = ids - smallest
    present = np.zeros(span, dtype=np.bool_)
    present[offset] = True
    place_of = np.cumsum(present, dtype=np.int64) - 1
    return place_of[offset], np.flatnonzero(present) + smallest


def _grouped(log: JobLog) -> tuple[Integers, Flags, Integers, int]:
    """Return (first line of each workunit or straggler, and the end; stragglers; place of workunits; their number)."""
    workunit, distinct = places(_whole(log, "workunit_id"))
    start = np.empty(log.length + 1, dtype=np.int64)
    late = np.empty(log.length, dtype=np.bool_)
    seen = np.zeros(distinct.size, dtype=np.bool_)
    count = group_lines(workunit, _whole(log, "straggler"), _whole(log, "outcome"), seen, start, late)
    return start[: count + 1], late[:count], workunit, distinct.size


def statements(
    ids: Integers, credit: Floats, work_start: Floats, time: Floats, options: ReplayOptions
) -> Statements:
    """Return totals and recent averages of the owners of ``ids``; id 0 is none."""
    place, distinct = places(ids)
    if distinct.size and (distinct == 0).any():
        nobody = int(np.flatnonzero(distinct == 0)[0])
        place = np.where(place == nobody, -1, place - (place > nobody))
        distinct = np.delete(distinct, nobody)
    bearers: Integers = distinct
    totals: Floats = np.zeros(distinct.size)
    values: Floats = np.zeros(distinct.size)
    times: Floats = np.zeros(distinct.size)
    replay_averages(
        place, credit, work_start, time, float(options.half_life), rac.LARGEST, totals, values, times
    )
    return Statements(bearers, totals, values, times)


@dataclass(frozen=True, slots=True)
class _World:
    """Every row that a server would store, and which lines of the log belong to which."""

    places: dict[str, Integers]
    hosts: Integers  #: place of each line's host
    records: Rows
    record_ids: Integers  #: place of the host x number of versions + place of the version
    host_ids: Integers
    versions: Rows
    version_ids: Integers
    apps: Rows
    canonical_credit: Floats


def _world(log: JobLog, workunit: Integers, workunits: int) -> _World:
    version, version_ids = places(_whole(log, "app_version_id"))
    host, host_ids = places(_whole(log, "host_id"))
    record, record_ids = places(host * max(1, version_ids.size) + version)
    app, app_ids = places(_whole(log, "app_id"))
    records: Rows = np.zeros(record_ids.size, dtype=rows.RECORD)
    fresh = HostVersionStatistics()
    records["error_rate"], records["probation"] = fresh.error_rate, fresh.scale_probation
    versions: Rows = np.zeros(version_ids.size, dtype=rows.VERSION)
    versions["app"] = -1
    apps: Rows = np.zeros(app_ids.size, dtype=rows.APP)
    apps["average"], apps["scale"] = AppStatistics().min_avg_pfc, AppStatistics().flops_scale
    return _World(
        places={"workunit": workunit, "record": record, "version": version, "app": app},
        hosts=host,
        records=records,
        record_ids=record_ids,
        host_ids=host_ids,
        versions=versions,
        version_ids=version_ids,
        apps=apps,
        canonical_credit=np.zeros(workunits),
    )


def _granted(
    log: JobLog, rules: ReplayRules, world: _World, start: Integers, late: Flags
) -> tuple[Floats, Floats, Integers]:
    """Return (claimed, granted, modes) of all lines; lines are laid out by rows, some at a time to save memory."""
    claimed: Floats = np.zeros(log.length)
    granted: Floats = np.zeros(log.length)
    modes: Integers = np.zeros(log.length, dtype=np.int64)
    columns = {name: _figure(log, name) for name in FIGURES} | world.places
    columns |= {name: _whole(log, name) != 0 for name in _FLAGS}
    columns["outcome"] = _whole(log, "outcome")
    if rules.system in (rows.STEADY, rows.MEASURED):
        columns["host_age"], columns["owner_computers"] = _owners(log, start, world.hosts)
    due = float(columns["time"][0]) + rules.scale_interval if log.length else 0.0
    group = 0
    while group < late.size:
        begin = int(start[group])
        last = int(np.searchsorted(start, begin + LINES_AT_A_TIME, side="right")) - 1
        last = min(max(last, group + 1), late.size)
        end = int(start[last])
        lines: Rows = np.empty(end - begin, dtype=rows.LINE)
        for name, values in columns.items():
            lines[name] = values[begin:end]
        starts = start[group : last + 1] - begin
        bound_lines(rules, lines, starts)
        due = kernels.replay_lines(
            rules,
            lines,
            starts,
            late[group:last],
            world.records,
            world.versions,
            world.apps,
            world.canonical_credit,
            due,
            claimed[begin:end],
            granted[begin:end],
            modes[begin:end],
        )
        group = last
    return claimed, granted, modes


def _owners(log: JobLog, start: Integers, host: Integers) -> tuple[Floats, Integers]:
    """Return how long each line's host has been known, seconds, and how many computers its owner has had by then."""
    numpy: Any = np  # Any: its types do not follow through arithmetic
    time, sent = _figure(log, "time"), _figure(log, "sent_time")
    group: Integers = numpy.repeat(numpy.arange(start.size - 1), numpy.diff(start))
    _, first = numpy.unique(host, return_index=True)
    now = time[start[group[first]]]
    seen: Floats = numpy.where((sent[first] > 0.0) & (sent[first] < now), sent[first], now)
    age = time - seen[host]
    user = places(_whole(log, "user_id"))[0]
    _, at = numpy.unique(user * (int(host.max(initial=0)) + 1) + host, return_index=True)
    lines = log.length + 1
    met = numpy.sort(user[at] * lines + at)
    before: Integers = numpy.searchsorted(met, user * lines)
    known: Integers = numpy.searchsorted(met, user * lines + start[group + 1]) - before
    known[_whole(log, "user_id") == 0] = 1
    ages: Floats = numpy.where(age > 0.0, numpy.minimum(age, MAX_TIME), 0.0)
    return ages, known


def _credited(log: JobLog, name: str, outcome: Integers) -> Integers:
    """Return the owner credited by each line; 0: none."""
    ids = _whole(log, name)
    return ids if (outcome == VALID).all() else np.where(outcome == VALID, ids, 0)


def _records(world: _World) -> HostRecords:
    n_versions = max(1, world.version_ids.size)
    records = world.records
    return HostRecords(
        host_ids=world.host_ids[world.record_ids // n_versions],
        version_ids=world.version_ids[world.record_ids % n_versions],
        samples=records["n"],
        means=records["mean"],
        consecutive_valid=records["consecutive_valid"],
        error_rates=records["error_rate"],
        on_probation=records["probation"],
        host_scale_times=records["host_scale_time"],
    )


def _run(log: JobLog, rules: ReplayRules) -> tuple[Floats, Floats, Integers, _World]:
    start, late, workunit, workunits = _grouped(log)
    world = _world(log, workunit, workunits)
    return *_granted(log, rules, world, start, late), world


def grants(log: JobLog, system: str, options: ReplayOptions) -> tuple[Floats, int]:
    """Return what each line is granted, as `replay_columns` has it, and the bytes of the rows that were needed."""
    _, granted, _, world = _run(log, rules_of(system, options))
    return granted, world.records.nbytes + world.versions.nbytes + world.apps.nbytes


def replay_columns(log: JobLog, system: str, options: ReplayOptions) -> Replay:
    """Replay a log under a built-in system; figures are NumPy arrays, equal to the policy's.

    Raises:
        ConfigError: the system has no compiled twin, or the log has trickle messages, which it does not know.
    """
    outcome = _whole(log, "outcome")
    if (outcome == TRICKLE).any():
        raise ConfigError("the fast replay does not support trickle messages; replay the log with the policy")
    claimed, granted, modes, world = _run(log, rules_of(system, options))
    sent_time, time = _figure(log, "sent_time"), _figure(log, "time")
    found = {
        name: statements(_credited(log, name, outcome), granted, sent_time, time, options)
        for name in ("host_id", "user_id", "team_id", "app_version_id")
    }
    return Replay(
        system=system,
        unit=options.unit,
        claimed=claimed,
        granted=granted,
        modes=modes,
        hosts=found["host_id"],
        users=found["user_id"],
        teams=found["team_id"],
        versions=found["app_version_id"],
        records=_records(world),
        version_scales={
            int(version): float(scale)
            for version, scale in zip(world.version_ids, world.versions["scale"], strict=True)
            if scale
        },
    )
