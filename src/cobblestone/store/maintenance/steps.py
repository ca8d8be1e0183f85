"""The steps from one schema to the next, and which are possible while older programs run.

A step *expands* (it adds what the next program needs, and hurts no program that knows nothing of it), or it *contracts* (it
takes away what programs before a certain schema need).  So a new program is let in beside the old ones in two moves: it expands,
both work side by side, and when the last old one has gone, it contracts.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store.engine.process_group import Program

if TYPE_CHECKING:
    import sqlalchemy as sa

#: The commit that still has the steps from schemas before the first release.
LAST_WITH_EARLIER_STEPS = "98976528"
_NAMES = re.compile(r"""^(revision|down_revision|bears) = (?:["'](\w+)["']|None)$""", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaStep:
    """One step, which leads to the schema ``revision``."""

    revision: str
    before: str | None  #: the schema that it begins with; None: an empty database
    bears: str | None  #: the oldest schema whose programs work afterwards; None: those that did before
    needed: bool  #: whether the program of this schema needs it; a step that contracts can wait


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradePlan:
    """The steps that an upgrade takes now, and those left for later."""

    steps: tuple[SchemaStep, ...]
    waiting: tuple[SchemaStep, ...] = ()
    in_the_way: tuple[Program, ...] = ()  #: running programs that cannot work after the first step that waits
    #: the oldest schema whose programs work when the steps are taken; None: as before
    bears: str | None = None

    def refuse(self, name: str) -> None:
        """Refuse a plan that leaves out what this program needs.

        Raises:
            Busy: it does; the text says who is in the way.
        """
        if any(step.needed for step in self.waiting):
            raise Busy(
                f"The upgrade of {name} to schema {self.waiting[-1].revision} must wait for older programs, which could not"
                f" work with it: {', '.join(map(shown_program, self.in_the_way))}. Nothing was changed. Stop them, then start"
                " again; `cobblestone upgrade --wait SECONDS` waits for them."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The tables of one kind of database, as the steps that make them."""

    what: str  #: the kind in messages, such as ``project database``
    migrations: Path  #: folder with ``env.py`` and ``versions``
    command: str = "cobblestone upgrade"  #: what takes the steps

    def steps(self) -> tuple[SchemaStep, ...]:
        """Return all steps, in order.

        Read from the steps' files: Alembic and SQLAlchemy, which take 26 MB, are loaded when there are steps to take.  What
        kind of step it is stands at the end of the file's name, ``_expand`` or ``_contract``; without either no older
        program can work afterwards.

        Raises:
            StoreError: they are missing, or do not follow each other.
        """
        by_before: dict[str | None, SchemaStep] = {}
        paths = list((self.migrations / "versions").glob("*.py"))
        for path in paths:
            found = {name: value or None for name, value in _NAMES.findall(path.read_text(encoding="utf-8"))}
            revision, before = found.get("revision"), found.get("down_revision")
            if revision:
                contracts, expands = path.stem.endswith("_contract"), path.stem.endswith("_expand")
                bears = found.get("bears") or (None if expands else before if contracts else revision)
                by_before[before] = SchemaStep(
                    revision=revision, before=before, bears=bears, needed=not contracts
                )
        steps: list[SchemaStep] = []
        while following := by_before.pop(steps[-1].revision if steps else None, None):
            steps.append(following)
        if not steps or by_before:  # a broken installation
            raise StoreError("This installation of cobblestone is missing its migrations. Install it again.")
        return tuple(steps)

    @property
    def head(self) -> str:
        """Return the newest revision, which this program upgrades a database to."""
        return self.steps()[-1].revision

    def known(self) -> frozenset[str]:
        """Return all revisions with steps to them."""
        return frozenset(step.revision for step in self.steps())

    def unknown(self, name: str, revision: str) -> StoreError:
        """Return the error for a database with a revision that there are no steps to; revisions sort as the steps follow."""
        first = self.steps()[0].revision
        if revision > first:
            return StoreError(
                f"{name} was made by a newer cobblestone (schema {revision}). Install that version, or restore a backup."
            )
        return StoreError(
            f"{name} was made by a development version before 0.1.0 (schema {revision}), and this version has no steps from"
            f" there. Nothing was changed. Run `{self.command}` of commit {LAST_WITH_EARLIER_STEPS}, which brings it to schema"
            f" {first}, then start this version again; or begin with a new folder."
        )

    def plan(self, current: str | None, programs: Sequence[Program] = ()) -> UpgradePlan:
        """Return which steps are possible from a known revision while ``programs`` run."""
        order = [None, *(step.revision for step in self.steps())]
        place = {revision: number for number, revision in enumerate(order)}
        rest = self.steps()[place[current] :]
        bears: str | None = None
        for number, step in enumerate(rest):
            if step.bears is not None and current is not None:
                oldest = place[step.bears]
                # A schema that is not known here belongs to a program from before schemas were told.
                barred = tuple(program for program in programs if place.get(program.schema, 0) < oldest)
                if barred:
                    return UpgradePlan(
                        steps=rest[:number], waiting=rest[number:], in_the_way=barred, bears=bears
                    )
                bears = step.bears if bears is None or place[bears] < oldest else bears
        return UpgradePlan(steps=rest, bears=bears)


def shown_program(program: Program) -> str:
    """Return the name of a running program for messages."""
    return f"process {program.pid} on {program.host} (cobblestone {program.version}, schema {program.schema})"


def take_steps(connection: sa.Connection, schema: Schema, target: str) -> None:
    """Take the steps to a revision on a connection, without ending its transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(schema.migrations).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, target)


def name_of_backup(stem: str, revision: str | None, now: float) -> str:
    """Return the name, without an ending, of the copy of a database that is kept."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{stem}-before-upgrade-{revision or 'none'}-{stamp}"
