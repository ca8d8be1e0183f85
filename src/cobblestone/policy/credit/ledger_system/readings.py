"""Reports as the state reads them: residuals, how far they count, and what the others of a job say together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from cobblestone.domain.values import value
from cobblestone.policy.credit.ledger_system import rules as formula
from cobblestone.policy.credit.ledger_system.records import (
    AppRecord,
    Cell,
    CellKey,
    HostKey,
    HostRecord,
    Job,
    LedgerRules,
    LedgerState,
    Report,
    VersionKey,
    VersionRecord,
)

_NEW_HOST, _NEW_VERSION = HostRecord(), VersionRecord()


@dataclass(slots=True)
class Draft:
    """The records while an event changes them."""

    state: LedgerState
    rules: LedgerRules
    app: AppRecord
    hosts: dict[HostKey, HostRecord] = field(default_factory=dict[HostKey, HostRecord])
    versions: dict[VersionKey, VersionRecord] = field(default_factory=dict[VersionKey, VersionRecord])
    cells: dict[CellKey, Cell] = field(default_factory=dict[CellKey, Cell])

    def host(self, key: HostKey) -> HostRecord:
        """Return the record as it is by now."""
        return self.hosts.get(key) or self.state.hosts.get(key, _NEW_HOST)

    def version(self, key: VersionKey) -> VersionRecord:
        """Return the record as it is by now."""
        return self.versions.get(key) or self.state.versions.get(key, _NEW_VERSION)

    def changed(self) -> LedgerState:
        """Return the records that changed."""
        return LedgerState(app=self.app, versions=self.versions, hosts=self.hosts, cells=self.cells)


@value()
class Variances:
    """What the app knows of its jobs and runs."""

    size: float  #: sigma_E squared
    noise: float  #: sigma_N squared
    tail: float  #: k


@value()
class Reading:
    """A report in the light of the state.  One that does not exist has no precision."""

    report: Report
    y: float = 0.0
    u: float = 0.0  #: within bounds
    innovation: float = 0.0  #: the same without them
    host_variance: float = 0.0
    version_variance: float = 0.0
    precision: float = 0.0


@value()
class Partners:
    """What other reports say of a job together."""

    u: float = 0.0
    weight: float = 0.0  #: 0: nothing
    factor: float = 1.0  #: size of the job relative to its estimate
    count: int = 0


def variances(app: AppRecord, rules: LedgerRules) -> Variances:
    """Return the variances of an app."""
    noise = formula.noise_variance(app.difference)
    size = formula.size_variance(app.mean_size, noise)
    return Variances(size, noise, formula.tail_begin(size, noise, rules.tail))


def constant(app: AppRecord, stratum: str) -> float:
    """Return c of a stratum."""
    return app.constant + app.constants.get(stratum, 0.0)


def worth(app: AppRecord, job: Job) -> float:
    """Return the value of a job by its estimate; 0 if that is unusable."""
    return (
        app.unit * job.estimate * math.exp(constant(app, job.stratum))
        if formula.usable(job.estimate)
        else 0.0
    )


def version_of(key: HostKey) -> VersionKey:
    """Return the version that a host's record is about."""
    return key[1], key[2]


def scale_of(host: HostRecord, report: Report) -> float:
    """Return P of a host: that of its first report."""
    if host.scale > 0.0:
        return host.scale
    return report.speed if formula.usable(report.speed) else 1.0


def read(draft: Draft, job: Job, report: Report, known: Variances) -> Reading:
    """Return what a report says."""
    if not (formula.usable(report.run_time) and formula.usable(job.estimate)):
        return Reading(report)
    host, version = draft.host(report.host), draft.version(version_of(report.host))
    y = formula.measured(report.run_time, scale_of(host, report), job.estimate)
    innovation = y - constant(draft.app, job.stratum) - version.effect - host.effect
    v = host.variance if host.scale > 0.0 else formula.FIRST_VARIANCE * version.spread
    v_a = formula.version_variance(version.spread, known.size, known.noise, version.votes)
    precision = formula.precision(known.noise, host.noise, v, v_a)
    return Reading(report, y, formula.bounded(innovation), innovation, v, v_a, precision)


def independent(one: Report, other: Report) -> bool:
    """Return whether two results are of different hosts and, as far as is known, of different people."""
    return one.host[0] != other.host[0] and (one.owner != other.owner or one.owner == 0)


def partners_of(reading: Reading | None, readings: Sequence[Reading], known: Variances) -> Partners:
    """Return what the others say about the job of ``reading``; None: what all of them say.

    Of each, the upper tail needs the consent of all further reports, of the claimant's own, too.  The claimant's has no other
    influence.
    """
    slack = 2.0 * math.sqrt(2.0 * known.noise)
    total = mean = 0.0
    count = 0
    for each in readings:
        if each.precision <= 0.0 or (reading is not None and not independent(each.report, reading.report)):
            continue
        u = each.u
        if reading is not None:
            u = formula.vetoed(u, reading.u if reading.precision > 0.0 else known.tail, known.tail)
        for third in readings:
            if third is not each and third is not reading and third.precision > 0.0:
                u = formula.vetoed(u, third.u + slack, known.tail)
        total += each.precision
        mean += each.precision * u
        count += 1
    if not count:
        return Partners()
    u = mean / total
    w = formula.weight(known.size, total)
    r = formula.tail_share(w, known.size, known.noise)
    return Partners(u, w, formula.size_factor(u, w, r, known.tail, known.size), count)


def lowest(readings: Sequence[Reading], known: Variances) -> tuple[float, float] | None:
    """Return (size, price factor) of a job by the lowest of several reports, as if it were one partner's; None: fewer than two.

    Both are biased alike for all jobs, so their running means make their difference 0 on average, whoever lies upwards.
    """
    usable = [each for each in readings if each.precision > 0.0]
    if len(usable) < 2:
        return None
    least = min(usable, key=lambda each: each.u)
    return formula.refused_size(least.u, known.size, known.noise, 1.0), partners_of(
        None, [least], known
    ).factor
