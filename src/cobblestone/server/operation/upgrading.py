"""Upgrade a project's database, and say who is in the way."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from cobblestone.domain.errors import Busy
from cobblestone.server.core.project import ProjectFolder
from cobblestone.store.engine.process_group import Program
from cobblestone.store.maintenance.steps import shown_program
from cobblestone.store.maintenance.upgrade import current_revision, upgrade, upgrade_plan
from cobblestone.store.schema.project import PROJECT

LOOK_SECONDS = 0.5


class RunningProgram(msgspec.Struct, frozen=True):
    """A program that works on the database."""

    text: str
    version: str
    schema: str
    in_the_way: bool  #: the next step must wait for its end


class UpgradeState(msgspec.Struct, frozen=True):
    """How far an upgrade is."""

    schema: str  #: of the database; empty: it has no tables yet
    wanted: str  #: of this program
    possible: list[str]  #: steps that can be taken now
    waiting: list[str]  #: steps that must wait for the end of older programs
    programs: list[RunningProgram]
    kept: str = ""  #: where the database from before lies


def upgrade_state(folder: ProjectFolder, kept: Path | None = None) -> UpgradeState:
    """Return how far the upgrade of a project is."""
    location = folder.location(folder.settings())
    plan, programs = upgrade_plan(location, PROJECT)
    return UpgradeState(
        schema=current_revision(location, PROJECT) or "",
        wanted=PROJECT.head,
        possible=[step.revision for step in plan.steps],
        waiting=[step.revision for step in plan.waiting],
        programs=[_shown(program, plan.in_the_way) for program in programs],
        kept="" if kept is None else str(kept),
    )


def upgrade_project(folder: ProjectFolder, *, wait: float) -> UpgradeState:
    """Take all steps; wait up to so many seconds for programs that cannot work with them.

    Raises:
        Busy: some still run; what they can bear was done.
        StoreError: see `cobblestone.store.maintenance.upgrade.upgrade`.
    """
    settings = folder.settings()
    end = time.monotonic() + wait
    kept: Path | None = None
    while True:
        try:
            with folder.lock(shared=bool(settings.database.url)):
                keep = folder.root if settings.database.backup_before_upgrade else None
                kept = upgrade(folder.location(settings), PROJECT, keep=keep) or kept
            state = upgrade_state(folder, kept)
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
        f" programs, which could not work after them: {names}. New programs can start beside them. Stop the old ones (or"
        " restart them with the new version), then call this again, or with --wait SECONDS."
    )
