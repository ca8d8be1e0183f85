"""What a system paid on a tape, and how a system watches a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cobblestone.credit_lab.systems.tape import Table, Tape


@dataclass(frozen=True, slots=True, kw_only=True)
class Pay:
    """Credit by row of a tape."""

    price: Table  #: when it was priced; open escrow included
    final: Table  #: Unix seconds from which on it cannot be taken back; infinite: still in escrow
    revoked: Table  #: Unix seconds when it was taken back; infinite: never
    extra: Table = None  #: credit that the computer got or lost then, apart from prices
    audits: int = 0  #: results that were run once more
    seconds: float = 0.0  #: that the system took
    state_bytes: int = 0  #: of all its records
    problems: tuple[str, ...] = ()  #: answers that could not be used

    @property
    def kept(self) -> Table:
        """Return what stays of each price."""
        return np.where(np.isinf(self.revoked), self.price, 0.0)


def at_once(tape: Tape, price: Table, **more: Any) -> Pay:  # Any: fields of `Pay`
    """Return pay that is final when it is granted."""
    rows = tape.results
    never = np.full(rows.size, np.inf)
    return Pay(price=price, final=rows["time"].copy(), revoked=never, **more)


class Watcher(Protocol):
    """A system that sees a run while it happens, and decides about checks."""

    def wants(self, reports: Table, job: Table) -> int:
        """Return how many replicas more it wants of a job, after these reports."""
        ...

    def decided(self, results: Table, job: Table) -> None:
        """Take the results of a job with their verdicts, those that were refused before the others."""
        ...

    def pay(self, tape: Tape) -> Pay:
        """Return what was paid, once the run is over."""
        ...
