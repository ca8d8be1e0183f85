"""What a system paid on a tape, and how a system watches a run."""

from __future__ import annotations

import math
import pickle
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cobblestone.credit_lab.systems.tape import Job, Result, Table, Tape


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
    """Return pay that is final when it is granted, unless ``more`` says otherwise."""
    rows = tape.results
    given: dict[str, Any] = {"final": rows["time"].copy(), "revoked": np.full(rows.size, np.inf)} | more
    return Pay(price=price, **given)


class Watcher:
    """A system that sees a run while it happens."""

    def __init__(self) -> None:
        """Begin without rows; each result that is decided adds one."""
        self.price, self.final, self.revoked, self.extra = (array("d") for _ in range(4))
        self.audits = 0
        self.seconds = 0.0

    def wants(self, reports: Sequence[Result], job: Job) -> int:
        """Return how many replicas more it wants of a job, after these reports."""
        return 0

    def decided(self, results: Sequence[Result], job: Job) -> None:
        """Take the results of a job with their verdicts, those that were refused before the others."""
        raise NotImplementedError

    def records(self) -> object:
        """Return all that it remembers."""
        raise NotImplementedError

    def problems(self) -> tuple[str, ...]:
        """Return what was wrong with its answers."""
        return ()

    def open(self, results: Sequence[Result], job: Job) -> int:
        """Add rows that have no price yet; return the place of the first."""
        first = len(self.price)
        for column, value in (
            (self.price, 0.0),
            (self.final, job.time),
            (self.revoked, math.inf),
            (self.extra, 0.0),
        ):
            column.extend([value] * len(results))
        return first

    def pay(self) -> Pay:
        """Return what was paid, once the run is over."""
        columns = {name: np.array(getattr(self, name)) for name in ("price", "final", "revoked", "extra")}
        problems = self.problems()
        try:
            size = len(pickle.dumps(self.records()))
        except Exception:  # noqa: BLE001  # a system of one's own may hold anything
            size = 0
        return Pay(**columns, audits=self.audits, seconds=self.seconds, state_bytes=size, problems=problems)
