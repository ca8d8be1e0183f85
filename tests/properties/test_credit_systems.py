"""Credit systems under any reports: grants are bounded, statistics are not poisoned, design and code agree at rest."""

from __future__ import annotations

import json
import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.credit_builders import NOW, WORKUNIT, claiming, grant, host, statistics

from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.values import AppVersionId, HostId, ResultId
from cobblestone.policy.credit.claims import (
    AppStatistics,
    ClaimInput,
    PlatformKind,
    Statistics,
    VersionStatistics,
    WorkunitFacts,
)
from cobblestone.policy.credit.host_records import app_after, host_version_after, version_after
from cobblestone.policy.credit.registry import credit_system, credit_system_names
from cobblestone.policy.credit.system import grant_workunit

hostile = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, 1e304, -1e304, 1e-304, 1e9, math.nan, math.inf]),
)


@st.composite
def hostile_reports(draw: st.DrawFn) -> ClaimInput:
    figures = ("elapsed_time", "cpu_time", "peak_flops", "ncpus", "p_fpops", "p_iops", "fpops_counted")
    times = ("sent_time", "received_time")
    amounts = ("trickle_credit", "claimed_credit", "intops_counted")
    report = ClaimInput(
        result_id=ResultId(1),
        host_id=HostId(draw(st.integers(1, 3))),
        app_version_id=AppVersionId(draw(st.integers(1, 2))),
        platform=draw(st.sampled_from(PlatformKind)),
        canonical=draw(st.booleans()),
        outlier=draw(st.booleans()),
    )
    return replace(report, **{name: draw(hostile) for name in (*figures, *times, *amounts)})


@given(
    name=st.sampled_from(credit_system_names()),
    workunits=st.lists(
        st.tuples(st.lists(hostile_reports(), min_size=1, max_size=3), hostile, hostile, hostile), max_size=6
    ),
    limit=st.floats(0.0, 1e12),
)
def test_hostile_reports_get_bounded_credit_and_poison_no_average(
    name: str, workunits: list[tuple[list[ClaimInput], float, float, float]], limit: float
) -> None:
    app = AppStatistics()
    versions: dict[AppVersionId, VersionStatistics] = {}
    hosts: dict[tuple[HostId, AppVersionId], HostVersionStatistics] = {}
    for reports, estimate, bound, fixed in workunits:
        inputs = [
            replace(
                report,
                host_version=hosts.get((report.host_id, report.app_version_id), HostVersionStatistics()),
            )
            for report in reports
        ]
        outcome = grant_workunit(
            credit_system(name),
            WorkunitFacts(rsc_fpops_est=estimate, rsc_fpops_bound=bound, fixed_credit=fixed),
            inputs,
            Statistics(app=app, versions=versions),
            max_granted=limit,
            now=NOW,
        )
        for result in outcome.results:
            assert 0.0 <= result.granted <= limit
            assert 0.0 <= result.claimed < math.inf
            json.dumps([why.as_json() for why in result.reasons], allow_nan=False)
        for record in outcome.increments.host_versions:
            key = (record.host_id, record.app_version_id)
            hosts[key] = host_version_after(hosts.get(key, HostVersionStatistics()), record)
        for version in outcome.increments.versions:
            before = versions.get(version.app_version_id, VersionStatistics())
            versions[version.app_version_id] = version_after(before, version)
        if outcome.increments.app is not None:
            app = app_after(app, outcome.increments.app)
    averages = [version.pfc for version in versions.values()]
    for record in hosts.values():
        averages += [record.pfc, record.elapsed, record.turnaround]
    for average in averages:
        assert 0.0 <= average.mean < math.inf
        assert 0.0 <= average.variance < math.inf
    for pfc in [version.pfc for version in versions.values()]:
        assert pfc.n == 0 or 1e-4 <= pfc.mean <= 1e4 * (1 + 1e-9)
    assert 0.0 < app.flops_scale < math.inf


sane_claims = st.floats(0.01, 100.0)


@given(claim=sane_claims)
def test_design_and_code_agree_on_a_single_result_of_a_new_version(claim: float) -> None:
    designed = grant("creditnew-designed", [claiming(claim)])
    deployed = grant("creditnew-deployed", [claiming(claim)])
    assert math.isclose(designed.results[0].granted, deployed.results[0].granted, rel_tol=1e-12)
    assert designed.increments.versions == deployed.increments.versions


@given(
    claims=st.lists(sane_claims, min_size=1, max_size=5),
    version_mean=st.floats(0.05, 20.0),
    host_mean=st.floats(0.05, 20.0),
    scale=st.floats(0.01, 10.0),
)
def test_design_and_code_claim_the_same_for_a_known_version_and_proven_hosts(
    claims: list[float], version_mean: float, host_mean: float, scale: float
) -> None:
    known = statistics(500, version_mean, scale=scale)
    inputs = [
        claiming(claim, number, host_version=host(50, host_mean))
        for number, claim in enumerate(claims, start=1)
    ]
    designed = grant("creditnew-designed", inputs, known)
    deployed = grant("creditnew-deployed", inputs, known)
    for one, other in zip(designed.results, deployed.results, strict=True):
        if one.mode == other.mode:  # a claim beyond 20 x the mean is a cheat to the design only
            assert math.isclose(one.claimed, other.claimed, rel_tol=1e-9)
    amounts = [result.granted for result in deployed.results]
    assert max(amounts) == min(amounts)


@given(claims=st.lists(sane_claims, min_size=2, max_size=5))
def test_all_results_of_a_workunit_are_paid_alike(claims: list[float]) -> None:
    workunit = replace(WORKUNIT, fixed_credit=7.0)
    for name in credit_system_names():
        inputs = [claiming(claim, number) for number, claim in enumerate(claims, start=1)]
        amounts = {result.granted for result in grant(name, inputs, workunit=workunit).results}
        assert len(amounts) == 1
