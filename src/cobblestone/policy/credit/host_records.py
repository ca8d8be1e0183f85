"""The stored record of an app version on a host, and the statistics that credit systems see of it."""

from __future__ import annotations

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import changed
from cobblestone.policy.credit.claims import HostVersionStatistics


def statistics_of(record: HostAppVersion) -> HostVersionStatistics:
    """Return what credit systems may know of a record."""
    return HostVersionStatistics(
        pfc=RunningAverage(record.pfc_n, record.pfc_avg, record.pfc_var, record.pfc_q),
        elapsed=RunningAverage(record.et_n, record.et_avg, record.et_var, record.et_q),
        turnaround=RunningAverage(
            record.turnaround_n, record.turnaround_avg, record.turnaround_var, record.turnaround_q
        ),
        consecutive_valid=record.consecutive_valid,
        error_rate=record.error_rate,
        scale_probation=record.scale_probation,
        host_scale_time=record.host_scale_time,
    )


def with_statistics(record: HostAppVersion, statistics: HostVersionStatistics) -> HostAppVersion:
    """Return the record with new statistics; its quota stays."""
    pfc, elapsed, turnaround = statistics.pfc, statistics.elapsed, statistics.turnaround
    return changed(
        record,
        pfc_n=pfc.n,
        pfc_avg=pfc.mean,
        pfc_var=pfc.variance,
        pfc_q=pfc.q,
        et_n=elapsed.n,
        et_avg=elapsed.mean,
        et_var=elapsed.variance,
        et_q=elapsed.q,
        turnaround_n=turnaround.n,
        turnaround_avg=turnaround.mean,
        turnaround_var=turnaround.variance,
        turnaround_q=turnaround.q,
        consecutive_valid=statistics.consecutive_valid,
        error_rate=statistics.error_rate,
        scale_probation=statistics.scale_probation,
        host_scale_time=statistics.host_scale_time,
    )
