"""Credit: what every figure rests on, proof of the books, corrections."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import msgspec

from cobblestone.domain.errors import NotFound
from cobblestone.domain.reasons import reason
from cobblestone.domain.work import Result
from cobblestone.server.api.routing import Call, Endpoint, Line, Model, Nothing, Reply
from cobblestone.server.credit.audit_report import Proof
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.server.credit.systems import find_system, system_names
from cobblestone.store.credit import ledger
from cobblestone.store.credit.credit_facts import named_facts
from cobblestone.store.credit.ledger import LedgerLine
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people.tokens import Scope
from cobblestone.store.work import rows as work


class EntryReply(Reply):
    """A ledger entry with what it was computed from."""

    id: int
    time: float
    kind: str  # grant, trickle (provisional), correction
    provisional: bool
    result_id: int
    workunit_id: int
    host_id: int
    user_id: int
    team_id: int | None
    app_version_id: int | None  # above 1 000 000: of a volunteer's own versions
    system: str
    claimed: float
    granted: float
    unit: float  # credit per GFLOPS-day
    work_start: float
    reasons: list[dict[str, Any]]  # code, text, values
    facts: dict[str, Any]


class ExplanationReply(Reply):
    """All that is known of the credit of a result."""

    result_id: int
    name: str  # empty: the result was purged, only its entries are left
    state: str
    granted: float
    claimed: float
    report: list[dict[str, Any]]  # what was refused or bounded when it was reported
    entries: list[EntryReply]


class NewCorrection(Model, kw_only=True):
    """A correction of what a result was granted; the ledger is never changed, only continued."""

    result: Line  # id or name
    amount: Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]  # negative: claw-back
    reason: Annotated[Line, msgspec.Meta(min_length=1)]


class DifferenceReply(Reply):
    """A figure that is not what the ledger makes of it."""

    table: str
    id: int
    figure: str
    stored: float | None
    computed: float | None
    note: str


class ProofReply(Reply):
    """What a recomputation of the whole ledger found."""

    agrees: bool
    entries: int
    grants: int
    corrections: int
    rows: dict[str, int]
    differences: list[DifferenceReply]
    more: int  # differences beyond those listed


class SystemReply(Reply):
    """A credit system."""

    name: str
    summary: str


class SystemList(Reply):
    """Credit systems by name."""

    systems: list[SystemReply]


def _entry(line: LedgerLine) -> EntryReply:
    return EntryReply(
        id=line.id,
        time=line.time,
        kind=line.kind,
        provisional=line.kind == ledger.TRICKLE,
        result_id=line.result_id,
        workunit_id=line.workunit_id,
        host_id=line.host_id,
        user_id=line.user_id,
        team_id=line.team_id,
        app_version_id=line.app_version_id,
        system=line.system,
        claimed=line.claimed,
        granted=line.granted,
        unit=line.unit,
        work_start=line.work_start,
        reasons=line.reasons,
        facts=named_facts(line.facts),
    )


def _find(db: Database, wanted: str) -> tuple[int, Result | None]:
    """A result by id or name; one that was purged has only an id."""
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


def _explanation(db: Database, wanted: str) -> ExplanationReply:
    result_id, result = _find(db, wanted)
    entries = ledger.entries_of_result(db, result_id)
    if result is None and not entries:
        raise NotFound(f"There is no result {wanted}, and no ledger entry for it.")
    report = work.result_text(db, result_id).report.get("reasons", [])
    return ExplanationReply(
        result_id=result_id,
        name="" if result is None else result.name,
        state=_state(result),
        granted=sum(line.granted for line in entries),
        claimed=entries[0].claimed if entries else 0.0,
        report=report,
        entries=[_entry(line) for line in entries],
    )


async def explain(call: Call[Nothing, Nothing]) -> ExplanationReply:
    """Explain the credit of a result."""
    wanted = call.path_name("result")
    return await call.ctx.store.aread(lambda db: _explanation(db, wanted))


async def correct(call: Call[NewCorrection, Nothing]) -> EntryReply:
    """Correct the credit of a result by a further entry."""
    body = call.body

    def write(tx: Transaction) -> EntryReply:
        result_id, _ = _find(tx, body.result)
        granted = next(
            (line for line in ledger.entries_of_result(tx, result_id) if line.kind == ledger.GRANT), None
        )
        if granted is None:
            raise NotFound(f"Result {body.result} was granted nothing yet, so there is nothing to correct.")
        by = "the operator" if call.token is None else f"token {call.token.name}"
        why = reason("correction", "{amount} by {by}: {why}", amount=body.amount, by=by, why=body.reason)
        return _entry(ledger.correct(tx, granted, body.amount, why, now=call.now))

    return await call.write_once(write, EntryReply)


async def prove(call: Call[Nothing, Nothing]) -> ProofReply:
    """Compute the whole ledger again, and compare."""
    return _proof(await call.ctx.store.aread(recompute))


def _proof(proof: Proof) -> ProofReply:
    return ProofReply(
        agrees=proof.agrees,
        entries=proof.entries,
        grants=proof.grants,
        corrections=proof.corrections,
        rows=proof.rows,
        differences=[
            DifferenceReply(
                table=each.table,
                id=each.id,
                figure=each.figure,
                stored=each.stored,
                computed=each.computed,
                note=each.note,
            )
            for each in proof.differences
        ],
        more=proof.more,
    )


async def list_systems(call: Call[Nothing, Nothing]) -> SystemList:
    """List credit systems."""
    return SystemList(systems=[SystemReply(name=name, summary=_summary(name)) for name in system_names()])


def _summary(name: str) -> str:
    return (inspect.getdoc(type(find_system(name))) or "").split("\n\n")[0].replace("\n", " ")


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/credit/systems",
        summary="List credit systems",
        handler=list_systems,
        body=Nothing,
        query=Nothing,
        reply=SystemList,
        scope=Scope.READ,
        tag="credit",
    ),
    Endpoint(
        method="GET",
        path="/credit/results/{result}",
        summary="Explain the credit of a result",
        description="By id or name. Its ledger entries with reasons, and the facts that they were computed from.",
        handler=explain,
        body=Nothing,
        query=Nothing,
        reply=ExplanationReply,
        scope=Scope.READ,
        tag="credit",
        problems=(404,),
    ),
    Endpoint(
        method="GET",
        path="/credit/proof",
        summary="Recompute all credit from the ledger",
        description="Computes every grant again from the facts in its entry, and every total and average from the entries.",
        handler=prove,
        body=Nothing,
        query=Nothing,
        reply=ProofReply,
        scope=Scope.MANAGE,
        tag="credit",
    ),
    Endpoint(
        method="POST",
        path="/credit/corrections",
        summary="Correct the credit of a result",
        description="Adds an entry; a negative amount takes credit back, at most what the result got.",
        handler=correct,
        body=NewCorrection,
        query=Nothing,
        reply=EntryReply,
        scope=Scope.MANAGE,
        tag="credit",
        status=201,
        idempotent=True,
        problems=(404, 409),
    ),
)
