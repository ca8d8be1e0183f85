"""The folder of a service: what kind it is, its lock, and the upgrade of its database."""

from __future__ import annotations

import fcntl
import os
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, ClassVar, Protocol

import msgspec

from cobblestone import __version__
from cobblestone.domain.errors import Busy, StoreError
from cobblestone.domain.values import form_of
from cobblestone.ops.settings import DatabaseSection
from cobblestone.store.engine.database import Store
from cobblestone.store.engine.process_group import Program
from cobblestone.store.maintenance.steps import Schema, shown_program
from cobblestone.store.maintenance.upgrade import check_revision, current_revision, upgrade, upgrade_plan


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
        text = f"The {what} in {root} is already open in {owner}. Stop that first, or use its address."
        raise Busy(text) from error
    handle.seek(0)
    handle.truncate()
    handle.write(f"process {os.getpid()}")
    handle.flush()
    return handle


LOCK = "lock"


class Place:
    """A file or folder in a folder that has a ``root``."""

    def __init__(self, *parts: str) -> None:
        self._parts = parts

    def __get__(self, folder: Any, owner: type) -> Path:  # Any: whatever has a root
        return folder.root.joinpath(*self._parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of service: what its folder holds, and under which names."""

    what: str  #: for messages, such as ``project``
    settings: str  #: file of its settings
    address: Callable[[Path], str]
    """Reads the settings in a folder; returns the address of the PostgreSQL database that they name, or nothing.  Raises
    ConfigError: they are wrong."""
    secrets: str = "keys"  #: file or folder that only its owner may read
    schema: Schema | None = None  #: of its database; None: it has files only
    database: str = ""  #: file of its SQLite database
    advice_to_move: str = ""  #: what to do to have it moved to PostgreSQL


class WithDatabase(Protocol):
    """Settings of a service with a database."""

    @property
    def database(self) -> DatabaseSection: ...


@dataclass(frozen=True, slots=True)
class ServiceFolder:
    """Where the parts of a service lie on disk."""

    root: Path
    kind: ClassVar[Kind]

    @property
    def database(self) -> Path:
        """The SQLite database, unless the settings name another."""
        return self.root / self.kind.database

    @property
    def schema(self) -> Schema:
        """The schema of the database, for a service that has one."""
        if self.kind.schema is None:
            raise AssertionError(self.kind.what)
        return self.kind.schema

    def lock(self, *, shared: bool = False) -> IO[str]:
        """Take the folder; the lock is held until the returned file is closed (or the process dies).

        ``shared``: with others that say the same.

        Raises:
            Busy: another process has it.
        """
        return take_folder(self.root, self.root / LOCK, what=self.kind.what, shared=shared)

    def location(self, settings: WithDatabase) -> Path | str:
        """Return where the rows are."""
        return settings.database.url or self.database

    def check_database(self, settings: WithDatabase, *, replaces: int) -> None:
        """Check that this program could work with the database, beside those that do.

        ``replaces``: id of a process of this machine whose place this one takes.

        Raises:
            StoreError: it could not.
        """
        self._need_database(settings)
        check_revision(self.location(settings), self.schema, replaces=(socket.gethostname(), replaces))

    def _need_database(self, settings: WithDatabase) -> None:
        """Raise StoreError if the database has gone: a service must not begin again with nothing."""
        if current_revision(self.location(settings), self.schema) is None:
            text = f"The database of the {self.kind.what} in {self.root} is missing or empty."
            raise StoreError(f"{text} Restore it from a backup.")

    def open_store(self, settings: WithDatabase) -> Store:
        """Upgrade the database as far as needed and possible, and open it.  Hold the lock.

        Raises:
            Busy: older programs run that could not work with what this one needs.
        """
        program = Program(
            member=secrets.token_hex(8),
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            schema=self.schema.head,
        )
        self.upgrade_database(settings, program)
        return Store(self.location(settings), readers=settings.database.readers, program=program)

    def upgrade_database(self, settings: WithDatabase, program: Program | None = None) -> Path | None:
        """Take the steps that can be taken now; return where the database from before is kept.  Hold the lock.

        See `cobblestone.store.maintenance.upgrade.upgrade`, also for what is raised.
        """
        self._need_database(settings)
        keep = self.root if settings.database.backup_before_upgrade else None
        return upgrade(self.location(settings), self.schema, program=program, keep=keep)


LOOK_SECONDS = 0.5


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


def upgrade_state(folder: ServiceFolder, settings: WithDatabase, kept: Path | None = None) -> UpgradeState:
    """Return how far the upgrade of a service is."""
    location = folder.location(settings)
    plan, programs = upgrade_plan(location, folder.schema)
    return UpgradeState(
        schema=current_revision(location, folder.schema) or "",
        wanted=folder.schema.head,
        possible=[step.revision for step in plan.steps],
        waiting=[step.revision for step in plan.waiting],
        programs=[
            form_of(RunningProgram, each, text=shown_program(each), in_the_way=each in plan.in_the_way)
            for each in programs
        ],
        kept="" if kept is None else str(kept),
    )


def upgrade_service(folder: ServiceFolder, settings: WithDatabase, *, wait: float) -> UpgradeState:
    """Take all steps; wait up to so many seconds for programs that cannot work with them.

    Raises:
        Busy: some still run; what they can bear was done.
        StoreError: see `cobblestone.store.maintenance.upgrade.upgrade`.
    """
    end = time.monotonic() + wait
    kept: Path | None = None
    while True:
        try:
            with folder.lock(shared=bool(settings.database.url)):
                kept = folder.upgrade_database(settings) or kept
            state = upgrade_state(folder, settings, kept)
            if not state.waiting:
                return state
            raise Busy(_refusal(state))
        except Busy:
            if time.monotonic() >= end:
                raise
        time.sleep(LOOK_SECONDS)


def _refusal(state: UpgradeState) -> str:
    names = ", ".join(program.text for program in state.programs if program.in_the_way)
    return (
        f"The database has schema {state.schema}; the steps to schema {state.wanted} ({len(state.waiting)}) must wait for older"
        f" programs, which would no longer work: {names}. New programs can start beside them. Stop the old ones (or"
        " restart them with the new version), then run this again, or use --wait SECONDS."
    )
