"""Convert outputs to decisions and credit: shared by the validator and decisions by checksum."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median

import structlog

from cobblestone.domain.apps import App
from cobblestone.domain.values import ResultId
from cobblestone.domain.work import CreditOfRows
from cobblestone.policy.dispatch.catalogue import MANY_PEOPLE
from cobblestone.policy.dispatch.limits import failed_lately
from cobblestone.policy.lifecycle.states import WorkunitView, is_success
from cobblestone.policy.validation import canonical
from cobblestone.policy.validation.comparison import kind_named, missing_output
from cobblestone.server.core.comparisons import comparison_kinds
from cobblestone.server.core.context import ServerContext
from cobblestone.server.credit.grant_batch import GrantBatch, key_of
from cobblestone.server.credit.systems import find_system
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import hosts
from cobblestone.store.work import job_results
from cobblestone.store.work.uploads import StoredOutput

log = structlog.get_logger(__name__)

FURTHER_DRAWS = 3  #: so many computers more than two may have to confirm a count

Outputs = dict[ResultId, list[StoredOutput]]  # of the results to look at, in their order


def quick_report(app: App, view: WorkunitView, outputs: Outputs) -> canonical.ValidationReport | None:
    """Compare by checksum where all agree, without a worker; return None if a closer look is needed."""
    if not outputs:
        return canonical.ValidationReport(checked=())
    if app.credit_function:
        return None
    try:
        return _compared_by_checksum(app, view, outputs)
    # a kind that is not there, or fails: the worker will say so of this workunit alone
    except (Exception, SystemExit):
        log.exception("comparison_by_checksum_failed", workunit=view.workunit.name)
        return None


def _compared_by_checksum(
    app: App, view: WorkunitView, outputs: Outputs
) -> canonical.ValidationReport | None:
    kind = kind_named(app.comparison.kind, comparison_kinds())
    if any(output.gzipped for of_result in outputs.values() for output in of_result):
        return None
    specs = view.workunit.output_specs
    checked: list[canonical.OutputCheck] = []
    sums: dict[ResultId, list[tuple[int, int, str]]] = {}
    for id_, of_result in outputs.items():
        present = {output.index for output in of_result}
        missing = [
            spec.open_name for index, spec in enumerate(specs) if index not in present and not spec.optional
        ]
        problem = missing_output(missing[0]) if missing else None
        checked.append(canonical.OutputCheck(result_id=id_, usable=not missing, problem=problem))
        sums[id_] = [(output.index, output.nbytes, output.md5) for output in of_result]
    usable = {each.result_id for each in checked if each.usable}
    comparable = [
        pair for pair in canonical.pairs_to_compare(view, tuple(outputs)) if usable.issuperset(pair)
    ]
    # Each with itself as well: who does not take even that for granted wants to read the outputs.
    pairs = [*comparable, *((one, one) for one in usable)]
    if not all(kind.agree_by_checksum(sums[one], sums[other]) for one, other in pairs):
        return None  # the worker says where they differ, and looks into packed files
    return canonical.ValidationReport(checked=tuple(checked), matches=frozenset(comparable))


def _with_counts(
    ctx: ServerContext, tx: Transaction, view: WorkunitView, report: canonical.ValidationReport
) -> canonical.ValidationReport:
    """Compare counts of instructions as well, where credit pays them.

    In a project of many people those of unknown computers, and of ones that failed lately, need a reliable witness, and
    high ones further ones.
    """
    offer, app_id = ctx.offers.get(tx), view.workunit.app_id
    system = find_system(offer.catalogue.apps[app_id].credit_system)
    if not (report.matches and getattr(system, "pays_counts", False)):
        return report
    keys = {result.id: key_of(result) for result in view.results if is_success(result)}
    known = hosts.records(tx, list(keys.values())) if offer.catalogue.population.people >= MANY_PEOPLE else {}
    doubtful = {
        id_
        for id_, key in keys.items()
        if key in known and (not known[key].statistics.consecutive_valid or failed_lately(known[key]))
    }
    programs = offer.counted_programs[app_id]
    usual = median(job_results.counted_lately(tx, app_id) or [0.0]) if known else 0.0
    rng = random.Random(f"{ctx.secret.hex()} {view.workunit.id}")
    draws = [rng.random() for _ in range(FURTHER_DRAWS)]
    estimate = view.workunit.limits.rsc_fpops_est
    return canonical.with_counts_compared(
        view, report, programs, doubtful, usual=usual * estimate, draws=draws
    )


def judge_and_grant(
    ctx: ServerContext,
    tx: Transaction,
    reports: Sequence[tuple[WorkunitView, canonical.ValidationReport]],
    *,
    now: float,
) -> tuple[list[tuple[WorkunitView, canonical.ValidationDecision]], CreditOfRows]:
    """Decide workunits that were read in this write, and grant the credit due.

    The decisions are still to be applied, and the credit is to be noted on the rows that they change.
    """
    compared = [(view, _with_counts(ctx, tx, view, report)) for view, report in reports]
    decided = [(view, canonical.judge(view, report, now=now)) for view, report in compared]
    assigned = {
        found.result_id: found.assigned_credit
        for _, report in reports
        for found in report.checked
        if found.assigned_credit is not None
    }
    batch = GrantBatch(ctx, tx, [view for view, _ in decided], assigned=assigned, now=now)
    decided = [batch.decide(view, decision) for view, decision in decided]
    return decided, batch.save()
