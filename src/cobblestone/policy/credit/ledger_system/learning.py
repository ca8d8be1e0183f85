"""What the records of hosts, versions, strata and the app learn from the reports of a job."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cobblestone.domain.values import changed, float_sum
from cobblestone.policy.credit.ledger_system import rules as formula
from cobblestone.policy.credit.ledger_system.readings import (
    Draft,
    Partners,
    Reading,
    Variances,
    independent,
    lowest,
    scale_of,
    version_of,
    worth,
)
from cobblestone.policy.credit.ledger_system.records import Cell, CellKey, Job, StepDetector

#: Residuals that measure a step at first after its alarm.
FIRST_LOOK = 200

#: Residuals that measure what is left of it, per variance of a residual; again until it is small.
CLOSER_LOOK = 2000.0


def learn(
    draft: Draft, job: Job, readings: Sequence[Reading], partners: Sequence[Partners], known: Variances
) -> None:
    """Change the records by all reports; ``readings`` are by the records before."""
    usable = [each for each in readings if each.precision > 0.0]
    experienced = [each for each in usable if draft.host(each.report.host).samples >= formula.KNOWN]
    _learn_app(draft, job, experienced, known)
    if (there := lowest(usable, known)) is not None:
        value, app = worth(draft.app, job), draft.app
        sizes, factors = app.sizes.after(value, there[0]), app.factors.after(value, there[1])
        draft.app = changed(app, sizes=sizes, factors=factors)
    for reading, others in zip(readings, partners, strict=True):
        if reading.precision > 0.0:
            _learn_report(draft, reading, others, usable, known)
            if job.stratum:
                _learn_cell(draft, job.stratum, reading, known)


def _learn_app(draft: Draft, job: Job, readings: Sequence[Reading], known: Variances) -> None:
    """Variances of two known hosts, the mean of exp(u), and steps of all residuals."""
    app = draft.app
    if not readings:
        return
    if len(readings) > 1 and independent(readings[0].report, readings[1].report):
        one, other = readings[0].u, readings[1].u
        app = changed(
            app,
            difference=formula.median_after(app.difference, abs(one - other), app.pairs),
            mean_size=formula.median_after(app.mean_size, abs(one + other) / 2.0, app.pairs),
            pairs=app.pairs + 1,
        )
    value, length = worth(app, job), app.length
    for each in readings:
        length = length.after(value, formula.refused_size(each.u, known.size, known.noise, 1.0))
    detector, moved = app.detector, 0.0
    if not draft.rules.early_exits:
        u = float_sum(each.u for each in readings) / len(readings)
        detector, moved = detector_after(detector, u, known.size + known.noise)
    draft.app = changed(app, length=length, detector=detector, constant=app.constant + moved)


def detector_after(detector: StepDetector, u: float, variance: float) -> tuple[StepDetector, float]:
    """Return the step detector after the residual of a job, and by how much the constant moves now (mostly 0).

    Cumulative sums of clipped residuals beyond an allowance, which a tenth of liars does not reach; after an alarm Huber's
    location of the next residuals.
    """
    sigma = math.sqrt(variance)
    needed = max(FIRST_LOOK, int(CLOSER_LOOK * variance))
    left = detector.left
    if left != 0:
        seen = FIRST_LOOK + left if left < 0 else max(0, needed - left)
        shift = detector.shift + 1.5 * min(max(u - detector.shift, -sigma), sigma) / (seen + 1)
        left += 1 if left < 0 else -1
        if left != 0:
            return StepDetector(shift=shift, left=left), 0.0
        return (StepDetector(left=needed), shift) if abs(shift) > 0.03 else (StepDetector(), 0.0)
    allowance = max(0.05, 0.15 * sigma)
    z = min(max(u, -sigma), sigma)
    up, down = max(0.0, detector.up + z - allowance), max(0.0, detector.down - z - allowance)
    if max(up, down) > 4.0 * variance / allowance:
        return StepDetector(left=-FIRST_LOOK), 0.0
    return StepDetector(up=up, down=down), 0.0


def _learn_report(
    draft: Draft, reading: Reading, others: Partners, usable: Sequence[Reading], known: Variances
) -> None:
    report = reading.report
    key = version_of(report.host)
    host, version = draft.host(report.host), draft.version(key)
    if version.votes > 0.0 and key not in draft.state.versions:
        return  # it was read without the effect that another report of this job has just begun
    size = formula.shrunk(
        others.u, others.weight, formula.tail_share(others.weight, known.size, known.noise), known.tail
    )
    r = reading.innovation - size
    variance = (
        reading.host_variance + reading.version_variance + (1.0 - others.weight) * known.size + known.noise
    )
    # what partners say would hide an error of the version that they share
    alone = reading.host_variance + known.size + known.noise
    effect, votes = formula.version_after(
        version.effect, version.votes, reading.innovation, alone, reading.version_variance,
        version.spread + known.size + known.noise,
    )  # fmt: skip
    d, v, q = formula.host_after(
        max(host.samples, int(host.scale > 0.0)), host.effect, reading.host_variance, host.noise,
        r if version.votes > 0.0 else 0.0, variance, known.noise, version.spread,
    )  # fmt: skip
    if _refused_by_all(reading, usable, known):
        q += 0.1 * (25.0 - q)
    draft.versions[key] = changed(
        version, effect=effect, votes=votes, spread=formula.spread_after(version.spread, d, v)
    )
    draft.hosts[report.host] = changed(
        host, scale=scale_of(host, report), samples=host.samples + 1, effect=d, variance=v, noise=q
    )


def _refused_by_all(reading: Reading, usable: Sequence[Reading], known: Variances) -> bool:
    """Return whether a third opinion refused the upper tail of a report."""
    slack = 2.0 * math.sqrt(2.0 * known.noise)
    lowest = min(each.u for each in usable)
    return len(usable) > 2 and reading.u > max(known.tail, lowest + slack)


def _learn_cell(draft: Draft, stratum: str, reading: Reading, known: Variances) -> None:
    """Learn the cross table, and by it c of the stratum: versions compare it with the first one."""
    key: CellKey = (stratum, *version_of(reading.report.host))
    cells = {**draft.state.cells, **draft.cells}
    cell = cells.get(key, Cell())
    sample = reading.y - draft.app.constant - draft.host(reading.report.host).effect
    mean, count = formula.cell_after(cell.mean, cell.count, sample, known.size + known.noise)
    draft.cells[key] = cells[key] = Cell(mean=mean, count=count)
    first = min(each[0] for each in cells)
    if stratum == first:
        return
    difference = total = 0.0
    for (name, version, usage), there in cells.items():
        base = cells.get((first, version, usage))
        if name == stratum and base is not None:
            precision = 1.0 / ((known.size + known.noise) * (1.0 / there.count + 1.0 / base.count))
            difference += precision * (there.mean - base.mean)
            total += precision
    if total <= 0.0:
        return
    before = draft.app.constants.get(stratum, 0.0)
    now = formula.stratum_constant(difference / total, total)
    draft.app = changed(draft.app, constants={**draft.app.constants, stratum: now})
    for (name, version, usage), there in cells.items():
        if name == stratum:  # the share of the stratum in a version leaves the effect of the version
            whole = sum(each.count for key, each in cells.items() if key[1:] == (version, usage))
            known_version = draft.version((version, usage))
            effect = known_version.effect - there.count / whole * (now - before)
            draft.versions[version, usage] = changed(known_version, effect=effect)
