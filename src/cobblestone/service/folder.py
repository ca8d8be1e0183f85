"""The folder of a service: its lock, and the upgrade of its database."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from cobblestone.domain.errors import Busy
from cobblestone.store.engine.database import Store
from cobblestone.store.engine.process_group import Program
from cobblestone.store.maintenance.steps import Schema, shown_program
from cobblestone.store.maintenance.upgrade import current_revision, upgrade, upgrade_plan


def take_folder(root: Path, lock_file: Path, *, what: str, shared: bool = False) -> IO[str]:
    """Lock a folder; the lock is held until the returned file is closed (or the process dies).

    ``what``: the kind of service, for the message.  ``shared``: with others that say the same.

    Raises:
        Busy: another process has it.
    """
    handle = lock_file.open("a+")
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        handle.seek(0)
        owner = handle.read().strip() or "another process"
        handle.close()
        raise Busy(
            f"The {what} in {root} is already open in {owner}. Stop that first, or use its address."
        ) from error
    handle.seek(0)
    handle.truncate()
    handle.write(f"process {os.getpid()}")
    handle.flush()
    return handle


LOOK_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradedDatabase:
    """The database of a service, as far as an upgrade is concerned."""

    location: Path | str
    schema: Schema
    lock: Callable[[], AbstractContextManager[object]]  #: keeps out who may not run meanwhile; raises Busy
    keep: Path | None  #: folder for the dump of a PostgreSQL database; None: none is made


def open_upgraded(of: UpgradedDatabase, *, readers: int, version: str) -> Store:
    """Upgrade a database as far as needed and possible, and open it.  The lock must be held.  ``version``: of this program.

    Raises:
        Busy: older programs run that could not work with what this one needs.
    """
    program = Program(
        member=secrets.token_hex(8),
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version,
        schema=of.schema.head,
        known=of.schema.known(),
    )
    upgrade(of.location, of.schema, program=program, keep=of.keep)
    return Store(of.location, readers=readers, program=program)


class RunningProgram(msgspec.Struct, frozen=True):
    """A program that uses the database."""

    text: str
    version: str
    schema: str
    in_the_way: bool  #: the next step must wait for its end


class UpgradeState(msgspec.Struct, frozen=True):
    """The state of an upgrade."""

    schema: str  #: of the database; empty: it has no tables yet
    wanted: str  #: of this program
    possible: list[str]  #: steps that can be taken now
    waiting: list[str]  #: steps that must wait for the end of older programs
    programs: list[RunningProgram]
    kept: str = ""  #: where the database from before lies


def upgrade_state(of: UpgradedDatabase, kept: Path | None = None) -> UpgradeState:
    """Return the state of the upgrade of a service."""
    plan, programs = upgrade_plan(of.location, of.schema)
    return UpgradeState(
        schema=current_revision(of.location, of.schema) or "",
        wanted=of.schema.head,
        possible=[step.revision for step in plan.steps],
        waiting=[step.revision for step in plan.waiting],
        programs=[_shown(program, plan.in_the_way) for program in programs],
        kept="" if kept is None else str(kept),
    )


def upgrade_service(of: UpgradedDatabase, *, wait: float) -> UpgradeState:
    """Take all steps; wait up to this many seconds for programs that are incompatible with them.

    Raises:
        Busy: some still run; what they can bear was done.
        StoreError: see `cobblestone.store.maintenance.upgrade.upgrade`.
    """
    end = time.monotonic() + wait
    kept: Path | None = None
    while True:
        try:
            with of.lock():
                kept = upgrade(of.location, of.schema, keep=of.keep) or kept
            state = upgrade_state(of, kept)
            if not state.waiting:
                return state
            raise Busy(_refusal(state))
        except Busy:
            if time.monotonic() >= end:
                raise
        time.sleep(LOOK_SECONDS)


def _shown(program: Program, in_the_way: tuple[Program, ...]) -> RunningProgram:
    return RunningProgram(
        text=shown_program(program),
        version=program.version,
        schema=program.schema,
        in_the_way=program in in_the_way,
    )


def _refusal(state: UpgradeState) -> str:
    names = ", ".join(program.text for program in state.programs if program.in_the_way)
    return (
        f"The database has schema {state.schema}; {len(state.waiting)} more steps to schema {state.wanted} must wait for older"
        f" programs, which would no longer work: {names}. New programs can start beside them. Stop the old ones (or"
        " restart them with the new version), then run this again, or use --wait SECONDS."
    )
