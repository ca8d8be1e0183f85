"""The tape of a run: what the server saw of jobs and results, and what it does not see."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

#: When a run begins, Unix seconds.
START = 1_700_000_000.0

#: Seconds to the deadline of every job.
DELAY_BOUND = 7 * 86400.0

#: ``rsc_fpops_bound`` / ``rsc_fpops_est``.
BOUND = 1000.0

#: Outcomes; an error stands for every kind of refusal.
VALID, INVALID, ERROR = range(3)

#: Kinds of programs; the last is built by the volunteer.
PLAIN, FAST, GPU, OWN_BUILD = range(4)

#: Rows that are plain objects at a time; the others wait in tables.
AT_A_TIME = 50_000

Table: TypeAlias = Any  # Any: one-dimensional array of NumPy, with the fields of a class as columns


@dataclass(slots=True)
class Job:
    """A job."""

    time: float = 0.0  #: Unix seconds
    estimate: float = 0.0
    work: float = 0.0  #: true operations
    length: float = 0.0  #: work / what jobs of this estimate usually have
    fixed: float = 0.0  #: seconds that it runs on any computer; 0: until its work is done
    app: int = 0
    stratum: int = -1
    crossed: bool = False  #: given to any computer, whatever its tag
    number: int = 0


@dataclass(slots=True)
class Result:
    """A result.  It may change until it is reported."""

    job: int = 0  #: place of its job in the tape
    host: int = 0
    identity: int = 0
    version: int = 0
    kind: int = PLAIN
    ncpus: int = 1
    time: float = 0.0
    sent: float = 0.0
    run_time: float = 0.0
    cpu_time: float = 0.0
    peak: float = 0.0
    benchmark: float = 0.0
    counted: float = 0.0
    work: float = 0.0  #: true operations behind it; 0: forged or copied
    answer: int = 0  #: 0: right
    outcome: int = VALID
    refusal: int = 0
    check: bool = False  #: a replica beyond the quorum


def columns_of(cls: type) -> np.dtype[np.void]:
    """Return the type of a table of such objects; numbers that recorded streams may choose are wide."""
    kinds = {"float": "f8", "int": "i4", "bool": "?"}
    wide = {"number", "job", "identity", "version"}
    return np.dtype(
        [(each.name, "i8" if each.name in wide else kinds[str(each.type)]) for each in fields(cls)]
    )


JOB, RESULT = columns_of(Job), columns_of(Result)


def table_of(objects: Iterable[object], dtype: np.dtype[np.void]) -> Table:
    """Return objects as a table."""
    row = attrgetter(*(dtype.names or ()))
    return np.array([row(each) for each in objects], dtype=dtype)


def objects_of(table: Table, cls: Any) -> Iterator[Any]:  # Any: that class
    """Yield the rows of a table as objects."""
    for first in range(0, table.size, AT_A_TIME):
        for row in table[first : first + AT_A_TIME].tolist():
            yield cls(*row)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """A run: jobs, results in the order of their jobs, and the account of each identity."""

    jobs: Table
    results: Table
    accounts: Table  #: by identity
    quorum: int

    def of(self, name: str) -> Table:
        """Return a fact of each result's job."""
        return self.jobs[name][self.results["job"]]

    @property
    def valid(self) -> Table:
        """Return which results were found valid."""
        return self.results["outcome"] == VALID

    def decided(self) -> Iterator[tuple[list[Result], Job]]:
        """Yield the results of each job, and the job."""
        jobs = enumerate(objects_of(self.jobs, Job))
        for place, results in groupby(objects_of(self.results, Result), attrgetter("job")):
            yield list(results), next(job for at, job in jobs if at == place)
