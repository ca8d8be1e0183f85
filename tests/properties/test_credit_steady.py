"""The steady system: its stated bounds hold against any reports, and its factor finds what honest hosts agree on."""

from __future__ import annotations

import math
import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.credit_builders import WORKUNIT, facts, grant
from tests.helpers.stated_bounds import largest_step

from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import AppVersionId, HostId
from cobblestone.policy.credit.claims import (
    AppStatistics,
    ClaimInput,
    PlatformKind,
    Statistics,
    VersionStatistics,
)
from cobblestone.policy.credit.host_records import host_version_after, version_after
from cobblestone.policy.credit.scales import VersionRecord
from cobblestone.policy.credit.steady import PRIOR_VOTES, VOTE_EVERY, steady_scales

CPU = AppVersionId(7)
lies = st.floats(0.0, 1e30) | st.sampled_from([math.nan, math.inf, -1.0, 1e304, 1e9])


def taught(
    reports: list[ClaimInput], version: VersionStatistics, factor: float = 1.0, *, votes: bool = False
) -> list[VersionStatistics]:
    """A version after each of the reports, every host with its record; ``votes``: a host's first one here is a vote."""
    records: dict[HostId, HostVersionStatistics] = {}
    seen = [version]
    for report in reports:
        ratio = report.elapsed_time * report.peak_flops / WORKUNIT.rsc_fpops_est
        known_host = HostVersionStatistics(pfc=RunningAverage(VOTE_EVERY - 1, ratio))
        record = records.get(report.host_id, known_host if votes else HostVersionStatistics())
        told = facts(
            host_id=report.host_id,
            elapsed_time=report.elapsed_time,
            peak_flops=report.peak_flops,
            host_version=record,
        )
        known = Statistics(app=AppStatistics(min_avg_pfc=factor), versions={CPU: version})
        learned = grant("steady", [told], known).increments
        for increment in learned.host_versions:
            records[report.host_id] = host_version_after(record, increment)
        for increment in learned.versions:
            version = version_after(version, increment)
        seen.append(version)
    return seen


def saying(ratio: float, number: int) -> ClaimInput:
    """A report whose peak FLOP count is ``ratio`` times the estimate."""
    return facts(
        host_id=HostId(number), elapsed_time=1000.0, peak_flops=ratio * WORKUNIT.rsc_fpops_est / 1000.0
    )


@given(
    reported=st.lists(
        st.tuples(lies, lies, st.sampled_from(PlatformKind), st.booleans()), min_size=1, max_size=5
    ),
    factor=st.floats(1e-3, 1e3),
)
def test_all_valid_results_get_the_same_whatever_they_report(
    reported: list[tuple[float, float, PlatformKind, bool]], factor: float
) -> None:
    known = Statistics(app=AppStatistics(min_avg_pfc=factor))
    inputs = [
        facts(place, elapsed_time=elapsed, peak_flops=speed, platform=platform, is_gpu=gpu)
        for place, (elapsed, speed, platform, gpu) in enumerate(reported, start=1)
    ]
    honest = grant("steady", [facts()], known).results[0].granted
    assert {result.granted for result in grant("steady", inputs, known).results} == {honest}


@given(
    reports=st.lists(st.tuples(st.integers(1, 4), lies, lies), max_size=40),
    votes=st.integers(0, 300),
    mean=st.floats(1e-3, 1e3),
)
def test_no_report_moves_a_version_further_than_the_stated_step(
    reports: list[tuple[int, float, float]], votes: int, mean: float
) -> None:
    start = VersionStatistics(pfc=RunningAverage(PRIOR_VOTES + votes, mean) if votes else RunningAverage())
    lines = [
        facts(host_id=HostId(number), elapsed_time=time, peak_flops=speed) for number, time, speed in reports
    ]
    seen = taught(lines, start, factor=mean)
    for before, after in pairwise(seen):
        old = before.pfc.mean or mean
        new = after.pfc.mean or mean
        assert math.isfinite(new)
        assert abs(new / old - 1.0) <= largest_step(before.pfc.n) * (1 + 1e-9)


@given(seed=st.integers(0, 2**32), truth=st.floats(0.1, 10.0))
def test_the_mean_finds_what_honest_hosts_agree_on(seed: int, truth: float) -> None:
    rng = random.Random(seed)
    reports = [saying(truth * rng.lognormvariate(0.0, 0.2), number) for number in range(300)]
    end = taught(reports, VersionStatistics(), votes=True)[-1]
    assert abs(math.log(end.pfc.mean / truth)) < 0.15


@given(seed=st.integers(0, 2**32), lie=st.sampled_from([1e-3, 1e3]))
def test_a_tenth_of_liars_shifts_it_by_a_tenth_however_they_lie(seed: int, lie: float) -> None:
    rng = random.Random(seed)
    reports = [
        saying(rng.lognormvariate(0.0, 0.1) * (lie if number % 10 == 0 else 1.0), number)
        for number in range(300)
    ]
    end = taught(reports, VersionStatistics(), votes=True)[-1]
    assert abs(math.log(end.pfc.mean)) < 0.15  # 0.077 at rest, and the noise of single votes


@given(versions=st.lists(st.tuples(st.integers(1, 1000), st.floats(1e-4, 1e4), st.booleans()), max_size=5))
def test_the_factor_lies_between_the_means_of_cpu_versions(versions: list[tuple[int, float, bool]]) -> None:
    records = [
        VersionRecord(app_version_id=AppVersionId(place), is_gpu=gpu, pfc=RunningAverage(n, mean))
        for place, (n, mean, gpu) in enumerate(versions)
    ]
    means = [record.pfc.mean for record in records if not record.is_gpu]
    factor = steady_scales(records).min_avg_pfc
    if means:
        assert factor is not None
        assert min(means) * (1 - 1e-9) <= factor <= max(means) * (1 + 1e-9)
    else:
        assert factor is None
