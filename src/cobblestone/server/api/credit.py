"""Credit API: the origin of every figure, audit of the ledger, corrections, published scales."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import msgspec

from cobblestone.api_schema import endpoints
from cobblestone.api_schema import operation as schema
from cobblestone.domain.errors import NotFound
from cobblestone.domain.reasons import reason
from cobblestone.domain.values import float_sum, form_of
from cobblestone.domain.work import Result
from cobblestone.policy.credit.ledger_credit import LEDGER_RULES
from cobblestone.policy.credit.ledger_system import words
from cobblestone.server.api.endpoints.routing import LARGE_BODY, Call, answers
from cobblestone.server.credit.ledger_accounts import record_key, uses_ledger
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.server.credit.scales import ScaleChange, apply_scales
from cobblestone.server.credit.systems import find_system, system_names
from cobblestone.store.catalog import apps
from cobblestone.store.credit import ledger, ledger_state
from cobblestone.store.credit.credit_facts import named_facts
from cobblestone.store.credit.ledger import LedgerLine
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.work import rows as work


def _entry(line: LedgerLine, later: Sequence[LedgerLine] = ()) -> schema.LedgerEntry:
    ended = any(each.kind in (ledger.RELEASE, ledger.REVOKE) for each in later)
    given = {
        **msgspec.to_builtins(line),
        "provisional": line.kind == ledger.TRICKLE or (line.kind == ledger.ESCROW and not ended),
        "facts": named_facts(line.facts),
    }
    return msgspec.convert(given, schema.LedgerEntry)


def _find(db: Database, wanted: str) -> tuple[int, Result | None]:
    """Return a result by id or name; one that was purged has only an id."""
    result = work.results_by_name(db, [wanted]).get(wanted)
    if result is not None:
        return result.id, result
    if wanted.isdecimal() and len(wanted) < 18:
        return int(wanted), work.result_by_id(db, int(wanted))
    raise NotFound(f"There is no result {wanted!r}. Give its id or its name, such as demo_1_0_0.")


def _state(result: Result | None) -> str:
    if result is None:
        return "purged"
    return f"{result.server_state.name}, {result.outcome.name}, {result.validate_state.name}".lower()


def _explanation(db: Database, wanted: str) -> schema.CreditExplanation:
    result_id, result = _find(db, wanted)
    entries = ledger.entries_of_result(db, result_id)
    if result is None and not entries:
        raise NotFound(f"There is no result {wanted}, and no ledger entry for it.")
    report = work.result_text(db, result_id).report.get("reasons", [])
    return schema.CreditExplanation(
        result_id=result_id,
        name="" if result is None else result.name,
        state=_state(result),
        granted=float_sum(line.granted for line in entries if line.kind != ledger.SETTLEMENT),
        claimed=entries[0].claimed if entries else 0.0,
        report=report,
        entries=[_entry(line, entries) for line in entries],
        account=[] if result is None or not entries else _account(db, result),
    )


def _account(db: Database, result: Result) -> list[dict[str, object]]:
    """Return what the ledger system knows of the computer and version of a result, in words."""
    app = apps.app_by_id(db, result.app_id)
    if not uses_ledger(app):
        return []
    key = record_key(result)
    record = ledger_state.read_book(db, app.id, [key[0]]).hosts.get(key)
    told = () if record is None else words.account(record, LEDGER_RULES[app.credit_system])
    return [each.as_json() for each in told]


@answers(endpoints.EXPLAIN_CREDIT)
async def explain(call: Call, result: str) -> schema.CreditExplanation:
    """Explain the credit of a result.

    By id or name. Its ledger entries with reasons, and the facts that they were computed from.
    """
    return await call.read(lambda db: _explanation(db, result))


@answers(endpoints.CORRECT_CREDIT)
async def correct(call: Call, body: schema.NewCorrection) -> schema.LedgerEntry:
    """Correct the credit of a result.

    Adds an entry; a negative amount takes credit back, at most what the result got.
    """

    def write(tx: Transaction) -> schema.LedgerEntry:
        result_id, _ = _find(tx, body.result)
        granted = next(
            (line for line in ledger.entries_of_result(tx, result_id) if line.kind in ledger.GRANTS), None
        )
        if granted is None:
            raise NotFound(f"Result {body.result} has no credit yet, so there is nothing to correct.")
        by = "the operator" if call.token is None else f"token {call.token.name}"
        why = reason("correction", "{amount} by {by}: {why}", amount=body.amount, by=by, why=body.reason)
        return _entry(ledger.correct(tx, granted, body.amount, why, now=call.now))

    return await call.write_once(write, schema.LedgerEntry)


@answers(endpoints.AUDIT_LEDGER)
async def prove(call: Call) -> schema.LedgerAudit:
    """Recompute all credit from the ledger.

    Computes every grant again from the facts in its entry, and every total and average from the entries.
    """
    audit = await call.read(recompute)
    return msgspec.convert(audit, schema.LedgerAudit, from_attributes=True)


@answers(endpoints.LIST_CREDIT_SYSTEMS)
async def list_systems(call: Call) -> schema.CreditSystemList:
    """List credit systems."""
    return schema.CreditSystemList(
        systems=[schema.CreditSystem(name=name, summary=_summary(name)) for name in system_names()]
    )


def _summary(name: str) -> str:
    return (inspect.getdoc(type(find_system(name))) or "").split("\n\n")[0].replace("\n", " ")


def _scale_reply(change: ScaleChange) -> schema.VersionScaleChange:
    version = change.version
    return form_of(
        schema.VersionScaleChange,
        version,
        app=version.app_name,
        old_scale=version.scale or None,
        new_scale=change.new_scale,
        changed=change.changes,
    )


@answers(endpoints.APPLY_SCALES, max_body=LARGE_BODY)
async def apply_published(call: Call, body: schema.PublishedScales) -> schema.AppliedScales:
    """Apply published scales to GPU-only apps.

    Sets the scale of each version of the apps that have GPU versions only, by plan class. Doing it twice changes
    nothing more.
    """
    plan = await apply_scales(call.ctx, body.scales, dry_run=body.dry_run)
    return schema.AppliedScales(
        versions=[_scale_reply(change) for change in plan.changes],
        n_other_versions=plan.n_other_versions,
        dry_run=body.dry_run,
    )
