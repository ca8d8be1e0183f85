"""Checks of a live project, and safe repairs."""

from __future__ import annotations

from cobblestone.api_schema import operation as schema
from cobblestone.domain.people import Scope
from cobblestone.server.api.routing import Call, endpoint
from cobblestone.server.operation import doctor


@endpoint("GET", "/doctor", scope=Scope.MANAGE, tag="operation")
async def list_checks(call: Call) -> schema.CheckList:
    """List the checks of a live project."""
    return schema.CheckList(checks=[check.described() for check in doctor.CHECKS.values()])


@endpoint("GET", "/doctor/{name}", scope=Scope.MANAGE, tag="operation", problems=(404,))
async def diagnose(call: Call, name: str) -> schema.Diagnosis:
    """Carry out a check.

    On a snapshot of the database; large projects take minutes for some.
    """
    found = await doctor.diagnose(call.ctx, doctor.check_named(name))
    return found.described()


@endpoint("POST", "/doctor/{name}/repair", scope=Scope.MANAGE, tag="operation", problems=(404,), quiet=True)
async def repair(call: Call, name: str) -> schema.Repair:
    """Repair what a check found, as far as that is safe."""
    check = doctor.check_named(name)
    return schema.Repair(name=check.name, repaired=await doctor.repair(call.ctx, check, call.actor))
