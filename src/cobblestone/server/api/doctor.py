"""Checks of a live project, and safe repairs."""

from __future__ import annotations

from cobblestone.server.api.routing import Call, Endpoint, Nothing, Reply
from cobblestone.server.operation import doctor
from cobblestone.server.operation.doctor import Check
from cobblestone.store.people.tokens import Scope


class CheckReply(Reply):
    """A promise that can be checked."""

    name: str
    promise: str
    advice: str
    repair: str  # what a repair does; empty: there is none
    only_warns: bool


class CheckList(Reply):
    """All checks, in the order in which they are best carried out."""

    checks: list[CheckReply]


class FindingReply(Reply):
    """Something that is not as it must be."""

    code: str  # what is wrong, for programs
    kind: str  # of the row or thing: result, file, database
    id: str  # of the row or file; empty: there is only one
    target: str  # kind and id, for people
    text: str


class DiagnosisReply(Reply):
    """What a check found."""

    name: str
    findings: list[FindingReply]
    more: int  # beyond those listed
    seconds: float


class RepairReply(Reply):
    """What a repair did."""

    name: str
    repaired: int


def _check(check: Check) -> CheckReply:
    return CheckReply(
        name=check.name,
        promise=check.promise,
        advice=check.advice,
        repair=check.repair_text,
        only_warns=check.only_warns,
    )


async def list_checks(call: Call[Nothing, Nothing]) -> CheckList:
    """List the checks."""
    return CheckList(checks=[_check(check) for check in doctor.CHECKS.values()])


async def diagnose(call: Call[Nothing, Nothing]) -> DiagnosisReply:
    """Carry out a check."""
    found = await doctor.diagnose(call.ctx, doctor.check_named(call.path_name("name")))
    return DiagnosisReply(
        name=found.check.name,
        findings=[
            FindingReply(
                code=item.code,
                kind=item.kind,
                id="" if item.id is None else str(item.id),
                target=item.target,
                text=item.text,
            )
            for item in found.findings
        ],
        more=found.more,
        seconds=round(found.seconds, 3),
    )


async def repair(call: Call[Nothing, Nothing]) -> RepairReply:
    """Repair what a check found."""
    check = doctor.check_named(call.path_name("name"))
    return RepairReply(name=check.name, repaired=await doctor.repair(call.ctx, check, call.actor))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/doctor",
        summary="List the checks of a live project",
        handler=list_checks,
        body=Nothing,
        query=Nothing,
        reply=CheckList,
        scope=Scope.MANAGE,
        tag="operation",
    ),
    Endpoint(
        method="GET",
        path="/doctor/{name}",
        summary="Carry out a check",
        description="On a snapshot of the database; large projects take minutes for some.",
        handler=diagnose,
        body=Nothing,
        query=Nothing,
        reply=DiagnosisReply,
        scope=Scope.MANAGE,
        tag="operation",
        problems=(404,),
    ),
    Endpoint(
        method="POST",
        path="/doctor/{name}/repair",
        summary="Repair what a check found, as far as that is safe",
        handler=repair,
        body=Nothing,
        query=Nothing,
        reply=RepairReply,
        scope=Scope.MANAGE,
        tag="operation",
        problems=(404,),
        quiet=True,  # noted with its count by the repair itself
    ),
)
