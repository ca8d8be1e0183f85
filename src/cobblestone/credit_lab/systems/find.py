"""Credit systems by name, or from a file of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobblestone.credit_lab.systems.book import BookWatcher
from cobblestone.credit_lab.systems.events import EventWatcher
from cobblestone.credit_lab.systems.ledger import LedgerWatcher
from cobblestone.credit_lab.systems.pay import Watcher
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.policies import class_in
from cobblestone.policy.credit.ledger_system.records import LedgerRules
from cobblestone.policy.credit.system import CreditSystem
from cobblestone.server.credit.systems import find_system

LEDGER = "ledger"

#: Systems that are run unless others are named.
COMPARED = (
    "benchmark",
    "benchmark:minimum",
    "benchmark:drop-extremes",
    "counted",
    "counted:minimum",
    "creditnew-designed",
    "creditnew-deployed",
    "fixed",
    "runtime",
    "steady",
    "steady-measured",
    LEDGER,
)

#: Who checks results of a quorum of one: the server when it gives a job out, for all to see; the server after the upload;
#: the system under test.
VISIBLE, LATE, OWN = "visible", "late", "own"


@dataclass(frozen=True, slots=True)
class Contender:
    """A system in the benchmark."""

    name: str
    system: CreditSystem | None = None  #: with claims and grants; else one that watches
    own: Any = None  #: class of a system of one's own

    @property
    def checks(self) -> str:
        """Return who checks."""
        if self.system is None:
            return OWN
        return LATE if self.name.startswith("steady") else VISIBLE

    def watcher(
        self, quorum: int, accounts: list[int], seed: int, *, early_exits: bool = False, strict: bool = False
    ) -> Watcher:
        """Return what sees a run, and pays it.  ``accounts``: of identities, to which the run may add."""
        if self.system is not None:
            return BookWatcher(self.system, accounts)
        if self.own is not None:
            return EventWatcher(self.own(), quorum, accounts, strict=strict)
        return LedgerWatcher(quorum, accounts, seed, rules=LedgerRules(early_exits=early_exits))


def find_contender(name: str) -> Contender:
    """Return a system by name, or of ``FILE.py:Name``: a class with ``claim``, ``grant`` and ``learn``, or with ``handle``.

    Raises:
        ConfigError: there is none, or the file cannot be loaded.
    """
    if name == LEDGER:
        return Contender(name)
    file, _, class_name = name.rpartition(":")
    if not file.endswith(".py"):
        try:
            return Contender(name, system=find_system(name))
        except ConfigError as error:
            raise ConfigError(f"{error}; here also {LEDGER}, or FILE.py:Class") from None
    try:
        made = class_in(Path(file).absolute(), class_name)
    except ConfigError:
        raise
    except BaseException as error:  # sys.exit too
        raise ConfigError(f"{name} cannot be loaded: {error!r}") from error
    try:
        system = made()
    except Exception as error:  # it may raise anything
        raise ConfigError(f"{name} cannot be made: {error!r}") from error
    return Contender(name, own=made) if hasattr(made, "handle") else Contender(name, system=system)
