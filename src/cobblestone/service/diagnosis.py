"""Integrity checks of a service: faults, and repairs that are safe."""

from __future__ import annotations

import itertools
import shutil
import stat
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, ParamSpec, Protocol, TypeVar, cast
from urllib.parse import urlsplit

from cobblestone.api_schema import operation
from cobblestone.domain.errors import CobblestoneError, StoreError
from cobblestone.domain.reasons import Finding
from cobblestone.domain.values import form_of
from cobblestone.store.engine.database import Database, Store, Transaction
from cobblestone.store.maintenance.steps import Schema
from cobblestone.store.maintenance.upgrade import upgrade_plan

MAX_LISTED = 100
OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO

C = TypeVar("C")
P = ParamSpec("P")


@dataclass(frozen=True, kw_only=True)  # no slots: an alias with the types filled in could not make one
class Check(Generic[C, P]):
    """A check and its repair.  ``C`` is the service, ``P`` what a finder examines."""

    name: str
    promise: str
    find: Callable[P, Iterator[Finding]]
    advice: str = "Report it as a bug of cobblestone, with the rows."  #: what to do about findings that are not repaired
    repair: Callable[[C], int] | None = None  #: returns how many things it mended
    repair_text: str = ""  #: what the repair does
    only_warns: bool = False  #: findings are worth a look, but nothing is broken

    def described(self, going_on: Database | None = None) -> operation.Check:
        """Return what programs and people are told of it; ``going_on``: what a run looks at."""
        rows = 0 if going_on is None else going_on.n_looked_at
        of_about = 0 if going_on is None else going_on.n_to_look_at
        return form_of(operation.Check, self, repair=self.repair_text, rows=rows, of_about=of_about)

    def look(self, *args: P.args, **options: P.kwargs) -> operation.Diagnosis:
        """Run the check; return what it found."""
        began = time.perf_counter()
        found = self.find(*args, **options)
        listed = [_told(each) for each in itertools.islice(found, MAX_LISTED)]
        more = sum(1 for _ in found)
        seconds = round(time.perf_counter() - began, 3)
        return operation.Diagnosis(name=self.name, findings=listed, more=more, seconds=seconds)

    def unread(self, error: Exception) -> operation.Diagnosis:
        """Return that it could not read the database, which is a fault, too; another check may say more of it."""
        text = str(error) if isinstance(error, CobblestoneError) else f"{type(error).__name__}: {error}"
        found = _told(Finding("unreadable", "database", None, text))
        return operation.Diagnosis(name=self.name, findings=[found], more=0, seconds=0.0)

    def mend(self, service: C) -> int:
        """Repair what can be repaired; return how many things."""
        return 0 if self.repair is None else self.repair(service)


def _told(found: Finding) -> operation.Finding:
    row = "" if found.id is None else str(found.id)
    return form_of(operation.Finding, found, id=row)


class _WithStore(Protocol):
    @property
    def store(self) -> Store: ...


def by_name(*checks: Check[C, P]) -> Mapping[str, Check[C, P]]:
    """Return checks by their names, in this order."""
    return {each.name: each for each in checks}


def in_rows(find: Callable[[Database], Iterator[Finding]]) -> Callable[[object, Database], Iterator[Finding]]:
    """Return a finder that looks at the rows of a service and at nothing else."""
    return lambda service, db: find(db)


def in_write(mend: Callable[[Transaction], int]) -> Callable[[_WithStore], int]:
    """Return a repair that is one write to the database."""
    return lambda service: service.store.write(mend)


def missing_steps(location: Path | str, schema: Schema) -> Iterator[Finding]:
    """Find steps to the schema of this program that a database has not taken."""
    try:
        plan, _ = upgrade_plan(location, schema)
    except StoreError as error:
        yield Finding("wrong_schema", "database", None, str(error))
        return
    for step in (*plan.steps, *plan.waiting):
        yield Finding("step_waits", "database", None, f"the step to schema {step.revision} was not taken yet")


def full_disk(root: Path, least: int) -> Iterator[Finding]:
    """Find that less than ``least`` bytes are free on the disk of a folder."""
    free = shutil.disk_usage(root).free
    if free < least:
        text = f"{free // 10**6} MB are free: less than {least // 10**6} MB"
        yield Finding("disk_full", "disk", None, text)


_SECRET_NAMES = ("password", "secret", "token", "secret_key")


def secret_settings(root: Path) -> list[Path]:
    """Return the settings files in a service's folder that hold a password, key or token."""
    return [path for path in sorted(root.glob("*.toml")) if holds_secret(path)]


def holds_secret(path: Path) -> bool:
    """Return whether a settings file holds a password, key or token."""
    with suppress(OSError, ValueError):  # what reads it as settings says what is wrong
        return _has_secret(tomllib.loads(path.read_text("utf-8")))
    return False


def _has_secret(part: object, name: str = "") -> bool:
    if isinstance(part, dict):
        return any(_has_secret(each, str(key)) for key, each in cast("dict[str, object]", part).items())
    if isinstance(part, list):
        return any(_has_secret(each) for each in cast("list[object]", part))
    return isinstance(part, str) and bool(part) and (name in _SECRET_NAMES or bool(urlsplit(part).password))


def readable_by_others(root: Path, secrets: Iterable[Path]) -> Iterator[Finding]:
    """Find secrets in a service's folder that other users can read."""
    for path in secrets:
        if path.stat().st_mode & OF_OTHERS:
            yield Finding("readable", str(path.relative_to(root)), None, "other users can read it")


def keep_from_others(secrets: Iterable[Path]) -> int:
    """Remove the permission of other users to read secrets; return how many files had it."""
    count = 0
    for path in secrets:
        mode = path.stat().st_mode
        if mode & OF_OTHERS:
            path.chmod(stat.S_IMODE(mode) & ~OF_OTHERS)
            count += 1
    return count
