"""Run times as real clients logged them (``job_logs/``, see PROVENANCE.md), estimated beforehand as the server does.

A line of a client's log: time, ``ue`` its own first estimate, ``ct`` CPU seconds, ``fe`` operations, ``nm`` name, ``et`` elapsed
seconds.  The clients' benchmark was the default of exactly 1e9.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from cobblestone.domain.hosts import HostAppVersion, HostVersionStatistics
from cobblestone.domain.statistics import HOST_VERSION_RULE, RunningAverage
from cobblestone.domain.values import AppVersionId, HostId
from cobblestone.policy.dispatch.catalogue import HOST_SAMPLES, ResourceUsage, job_seconds, projected_flops

LOGS = sorted((Path(__file__).parent / "job_logs").glob("*.txt"))
QUIET = ("long-jobs-3",)
"""Logs of a computer with no more programs than processors."""


@dataclass(frozen=True)
class Logged:
    """A job of a log."""

    operations: float
    first_estimate: float
    cpu_seconds: float
    elapsed: float


def read_log(path: Path) -> dict[str, list[Logged]]:
    """Jobs by app, in the order in which they ended."""
    found: dict[str, list[Logged]] = {}
    for line in path.read_text().splitlines():
        words = line.split()
        said = dict(zip(words[1::2], words[2::2], strict=True))
        assert said["es"] == "0"
        app = said["nm"].partition("_")[0]
        found.setdefault(app, []).append(Logged(*(float(said[name]) for name in ("fe", "ue", "ct", "et"))))
    return found


def estimated(known: RunningAverage, operations: float) -> float:
    """Seconds that the server expects of a job on a host with these results."""
    record = HostAppVersion(
        host_id=HostId(1), app_version_id=AppVersionId(1), statistics=HostVersionStatistics(elapsed=known)
    )
    usage = ResourceUsage(avg_ncpus=1.0, flops=1e9, peak_flops=1e9)
    flops = projected_flops(usage, cpu_flops=1e9, record=record)
    return job_seconds(operations, flops, 1.0)


def errors(what: str, logs: Sequence[Path] = LOGS) -> tuple[list[float], list[float]]:
    """Errors of the estimates for each first job of an app on a host, and for those after three."""
    first: list[float] = []
    later: list[float] = []
    for path in logs:
        for jobs in read_log(path).values():
            known = RunningAverage()
            for job in jobs:
                seconds: float = getattr(job, what)
                error = abs(estimated(known, job.operations) / seconds - 1.0)
                if known.n == 0:
                    first.append(error)
                elif known.n >= HOST_SAMPLES:
                    later.append(error)
                known = known.updated(seconds / job.operations, HOST_VERSION_RULE)
    return first, later


def test_the_logs_begin_with_the_estimate_of_a_benchmark_that_never_ran():
    jobs = [job for path in LOGS for of_app in read_log(path).values() for job in of_app]
    assert len(jobs) >= 60
    assert {job.first_estimate for job in jobs} == {100.0}  # 1e11 operations at 1e9 a second


def test_after_three_jobs_the_computing_time_of_the_next_is_known_within_a_fifth():
    first, later = errors("cpu_seconds")
    assert median(first) > 5.0
    assert len(later) >= 30
    assert median(later) < 0.1


def test_after_three_jobs_the_elapsed_time_of_the_next_is_known_within_a_fifth():
    first, later = errors("elapsed", [path for path in LOGS if path.stem in QUIET])
    assert median(first) > 5.0
    assert len(later) == 9
    assert median(later) < 0.15


def test_the_elapsed_time_is_known_as_well_as_a_busy_computer_allows():
    """Six programs waited for each processor: jobs took up to five times their computing time, each another part."""
    first, later = errors("elapsed")
    assert median(first) > 2.0
    assert median(later) < 0.25
