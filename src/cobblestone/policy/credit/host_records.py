"""The record of an app version on a host: its quality, its statistics, and how new samples are added.

What a host's record of an app version gains and loses beyond samples: error rate, consecutive valid,
probation.

Source: CreditNew page ("host punishment", "cherry picking"); ``sched/validate_util2`` for consecutive valid
results and for the error rate of earlier versions: an average in which each result weighs 0.05.

A host that finishes short jobs and drops long ones drives its host scale up.  Therefore, for apps that ask
for it (``host_scale_check``), a host scale is used only after a whole delay bound without a lost job:

* the first job is sent while the record is on probation: no host scale before now + delay bound;
* a result becomes valid after that time: the probation ends;
* a job fails or times out: probation again, for another delay bound;
* a claim cannot be (`after_suspicion`): probation again from the next job on, and the host's row of valid results is broken,
  so that dispatch does not take it for reliable and replicates its jobs.

Adding what was learned to what is known.

Increments are applied to whatever a row holds by then, so those of several validators, in any order, lose nothing.
"""

from __future__ import annotations

from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.values import changed
from cobblestone.policy.credit.claims import (
    AppIncrement,
    AppStatistics,
    HostVersionIncrement,
    VersionIncrement,
    VersionStatistics,
)
from cobblestone.policy.credit.early_systems import scale_from

INITIAL_ERROR_RATE = 0.1
ERROR_WEIGHT = 0.05


def _after_result(record: HostVersionStatistics, *, failed: bool) -> float:
    rate = record.error_rate if 0.0 <= record.error_rate <= 1.0 else INITIAL_ERROR_RATE
    return rate * (1.0 - ERROR_WEIGHT) + (ERROR_WEIGHT if failed else 0.0)


def after_sending(record: HostVersionStatistics, *, delay_bound: float, now: float) -> HostVersionStatistics:
    """Return the statistics after a job was sent at ``now`` (Unix seconds) with ``delay_bound`` seconds to run."""
    if not record.scale_probation or record.host_scale_time > 0.0:
        return record  # a wait that has begun is not prolonged by more work, or it would never end
    return changed(record, host_scale_time=now + delay_bound)


def after_valid(
    record: HostVersionStatistics, *, replicated: bool = True, now: float
) -> HostVersionStatistics:
    """Return the record after a result became valid; a job that no other computed proves nothing about the host."""
    if not replicated:
        return record
    return HostVersionStatistics(  # twice as fast as a changed copy, for every result comes here
        pfc=record.pfc,
        elapsed=record.elapsed,
        turnaround=record.turnaround,
        consecutive_valid=record.consecutive_valid + 1,
        error_rate=_after_result(record, failed=False),
        scale_probation=record.scale_probation and now < record.host_scale_time,
        host_scale_time=record.host_scale_time,
    )


def after_invalid(record: HostVersionStatistics) -> HostVersionStatistics:
    """Return a result became invalid."""
    return changed(record, consecutive_valid=0, error_rate=_after_result(record, failed=True))


def after_failure(record: HostVersionStatistics, *, delay_bound: float, now: float) -> HostVersionStatistics:
    """Return the statistics after a job failed or timed out: it may have been dropped on purpose."""
    return changed(
        record,
        consecutive_valid=0,
        error_rate=_after_result(record, failed=True),
        scale_probation=True,
        host_scale_time=now + delay_bound,
    )


def after_suspicion(record: HostVersionStatistics) -> HostVersionStatistics:
    """Put a host that claimed the impossible on probation again."""
    return changed(
        record,
        consecutive_valid=0,
        error_rate=max(record.error_rate, INITIAL_ERROR_RATE),
        scale_probation=True,
        host_scale_time=0.0,
    )


def host_version_after(
    record: HostVersionStatistics, increment: HostVersionIncrement
) -> HostVersionStatistics:
    """Return a host's record after samples, and after a suspicion that puts it on probation."""
    rule = increment.rule
    learned = HostVersionStatistics(  # twice as fast as a changed copy, for every result comes here
        pfc=record.pfc.with_samples(increment.pfc, rule),
        elapsed=record.elapsed.with_samples(increment.elapsed, rule),
        turnaround=record.turnaround.with_samples(increment.turnaround, rule),
        consecutive_valid=record.consecutive_valid,
        error_rate=record.error_rate,
        scale_probation=record.scale_probation,
        host_scale_time=record.host_scale_time,
    )
    return after_suspicion(learned) if increment.on_probation else learned


def version_after(version: VersionStatistics, increment: VersionIncrement) -> VersionStatistics:
    """Return a version's statistics after samples."""
    pfc = version.pfc.with_samples(increment.pfc, increment.rule)
    return VersionStatistics(pfc=pfc, pfc_scale=version.pfc_scale)


def app_after(app: AppStatistics, increment: AppIncrement) -> AppStatistics:
    """Return an app's sums and the scale that follows from them."""
    counted = _sum(app.counted or AppIncrement(), increment)
    return changed(app, counted=counted, flops_scale=scale_from(counted, app.flops_scale))


def _sum(one: AppIncrement, other: AppIncrement) -> AppIncrement:
    return AppIncrement(
        **{each: getattr(one, each) + getattr(other, each) for each in AppIncrement.__slots__}
    )
