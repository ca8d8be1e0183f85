"""From the validator's decisions to ledger entries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import entry_points

from cobblestone.domain.errors import ConfigError, PolicyViolation
from cobblestone.domain.hosts import HostDescription
from cobblestone.domain.ids import HostId, ResultId, WorkunitId
from cobblestone.domain.work import Result
from cobblestone.ops.settings import CreditSection
from cobblestone.policy.credit.cobblestone import CreditUnit
from cobblestone.policy.credit.registry import credit_system
from cobblestone.policy.credit.system import (
    ClaimInput,
    CreditSystem,
    GrantOutcome,
    Statistics,
    WorkunitFacts,
    grant_straggler,
    grant_workunit,
)
from cobblestone.policy.lifecycle.effects import WorkunitView
from cobblestone.policy.validation.canonical import ValidationDecision
from cobblestone.store import apps, credit, hosts
from cobblestone.store.database import Database, Transaction

ENTRY_POINTS = "cobblestone.credit_systems"


@lru_cache(maxsize=64)
def find_system(name: str) -> CreditSystem:
    """A built-in credit system, or one that an installed package offers.

    Raises:
        ConfigError: there is none of that name.
    """
    try:
        return credit_system(name or "benchmark")
    except ConfigError:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            system: CreditSystem = entry.load()()
            return system
        raise


def grant_decisions(
    tx: Transaction,
    decided: Sequence[tuple[WorkunitView, ValidationDecision]],
    *,
    settings: CreditSection,
    now: float,
) -> None:
    """Grant credit for the results that these decisions found valid."""
    due = [(view, decision) for view, decision in decided if decision.newly_valid]
    if not due:
        return
    descriptions = _descriptions(tx, due)
    systems = {app.id: app.credit_system for app in apps.list_apps(tx)}
    entries: list[credit.CreditEntry] = []
    canonical: dict[WorkunitId, float] = {}
    for view, decision in due:
        system = find_system(systems.get(view.workunit.app_id, ""))
        for outcome in _outcomes(system, view, decision, descriptions, settings, now):
            entries += _entries(view, outcome)
            if decision.newly_canonical:
                canonical[view.workunit.id] = outcome.canonical_credit
    credit.grant(tx, entries, now=now)
    credit.set_canonical_credit(tx, canonical)


def _outcomes(
    system: CreditSystem,
    view: WorkunitView,
    decision: ValidationDecision,
    descriptions: dict[HostId, HostDescription],
    settings: CreditSection,
    now: float,
) -> list[GrantOutcome]:
    workunit = view.workunit
    facts = WorkunitFacts(
        rsc_fpops_est=workunit.limits.rsc_fpops_est, rsc_fpops_bound=workunit.limits.rsc_fpops_bound
    )
    inputs = [
        _claim_input(result, descriptions, now)
        for result in view.results
        if result.id in decision.newly_valid
    ]
    unit = CreditUnit(settings.per_gflops_day)
    if decision.newly_canonical:
        return [
            grant_workunit(
                system, facts, inputs, Statistics(), unit=unit, max_granted=settings.max_granted, now=now
            )
        ]
    return [
        grant_straggler(
            system,
            facts,
            one,
            Statistics(),
            canonical_credit=workunit.canonical_credit,
            unit=unit,
            max_granted=settings.max_granted,
            now=now,
        )
        for one in inputs
    ]


def _claim_input(result: Result, descriptions: dict[HostId, HostDescription], now: float) -> ClaimInput:
    host_id, app_version_id = result.host_id, result.app_version_id
    if host_id is None or app_version_id is None:
        raise PolicyViolation(f"{result.name} is valid but was never sent to a host.")
    description = descriptions.get(host_id, HostDescription())
    return ClaimInput(
        result_id=result.id,
        host_id=host_id,
        app_version_id=app_version_id,
        elapsed_time=result.elapsed_time,
        cpu_time=result.cpu_time,
        sent_time=result.sent_time or now,
        received_time=result.received_time or now,
        peak_flops=result.peak_flops,
        ncpus=float(description.p_ncpus),
        p_fpops=description.p_fpops,
        p_iops=description.p_iops,
    )


def _entries(view: WorkunitView, outcome: GrantOutcome) -> list[credit.CreditEntry]:
    results: dict[ResultId, Result] = {result.id: result for result in view.results}
    entries: list[credit.CreditEntry] = []
    for share in outcome.results:
        result = results[share.result_id]
        if result.host_id is None or result.user_id is None:
            raise PolicyViolation(f"{result.name} is valid but belongs to nobody.")
        entries.append(
            credit.CreditEntry(
                result_id=result.id,
                workunit_id=view.workunit.id,
                host_id=result.host_id,
                user_id=result.user_id,
                app_version_id=result.app_version_id,
                system=outcome.system,
                claimed=share.claimed,
                granted=share.granted,
                unit=outcome.unit.per_gflops_day,
                work_start=result.sent_time or 0.0,
                reasons=share.reasons,
            )
        )
    return entries


def _descriptions(
    db: Database, due: Sequence[tuple[WorkunitView, ValidationDecision]]
) -> dict[HostId, HostDescription]:
    ids = {
        result.host_id
        for view, decision in due
        for result in view.results
        if result.id in decision.newly_valid and result.host_id is not None
    }
    return hosts.descriptions(db, sorted(ids))
