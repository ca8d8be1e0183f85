"""Events that a system of one's own sees, and its answers.

A system is an object with a ``name`` and a method ``handle(event)`` that returns answers, perhaps none.  It sees a job like
this: `Issue` and `Report` (or `Refuse`) of each computer, then `CheckRequest`, which it may answer by `Replicate`; further
reports and the same question again; at last `Verdict`, after which it owes a `Price` for every valid result.  An answer may come
with any later event, but not later than `LATEST`.  `Release` says that a version came out.
"""

from __future__ import annotations

import math
import pickle
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from cobblestone.credit_lab.joblog import ERROR, VALID
from cobblestone.credit_lab.systems.pay import Pay
from cobblestone.credit_lab.systems.tape import GPU, OWN_BUILD, Table, Tape
from cobblestone.domain.errors import ConfigError

LATEST = 30 * 86400.0
"""Seconds after the verdict within which a price must have come."""

MOST_TOLD = 100
"""Problems of a run that are told one by one."""


class Issue(NamedTuple):
    """A computer was given a job."""

    time: float  #: Unix seconds
    job: int
    host: int
    app: int
    version: int
    stratum: int  #: tag by which the scheduler routes; -1: none
    estimate: float  #: operations
    account: int
    quorum: int


class Report(NamedTuple):
    """A computer returned a result.  All figures are as it says."""

    time: float
    job: int
    host: int
    run_time: float  #: seconds
    cpu_time: float
    peak: float  #: operations per second of the devices used
    benchmark: float  #: of one processor
    ncpus: int  #: processors used
    counted: float  #: operations that the program counted
    gpu: bool
    own_build: bool
    sent: float  #: Unix seconds
    progress: float = 1.0  #: attested share of the work


class Refuse(NamedTuple):
    """A computer did not finish a job: 1 abort, 2 error, 3 time-out."""

    time: float
    job: int
    host: int
    kind: int


class Verdict(NamedTuple):
    """A job is decided."""

    time: float
    job: int
    valid: tuple[int, ...]  #: hosts
    wrong: tuple[int, ...]


class Release(NamedTuple):
    """A version came out."""

    time: float
    app: int
    version: int


class CheckRequest(NamedTuple):
    """All replicas have reported: is another one wanted?"""

    time: float
    job: int


Event = Issue | Report | Refuse | Verdict | Release | CheckRequest


class Price(NamedTuple):
    """What a result is worth.  One that is not final may be replaced by a later one, 0 to take it back."""

    job: int
    host: int
    amount: float  #: credits
    final: bool = True


class Replicate(NamedTuple):
    """Answer to `CheckRequest`: so many other computers compute the job, too."""

    job: int
    replicas: int = 1


Answer = Price | Replicate


class OwnSystem(Protocol):
    """A system under test."""

    name: str

    def handle(self, event: Event) -> Iterable[Answer] | None:
        """Take an event; return answers."""
        ...


@dataclass(slots=True)
class _Owed:
    row: int
    time: float
    priced: bool = False
    final: bool = False


class Desk:
    """Takes answers: says what is wrong with each, and keeps the others."""

    def __init__(self, *, strict: bool) -> None:
        """``strict``: stop at the first problem."""
        self.strict = strict
        self.problems: list[str] = []
        self.count = 0
        self.price: list[float] = []
        self.final: list[float] = []
        self.revoked: list[float] = []
        self.owed: dict[tuple[int, int], _Owed] = {}

    def open(self, rows: int, now: float) -> None:
        """Add rows that have no price yet."""
        self.price += [0.0] * rows
        self.final += [now] * rows
        self.revoked += [math.inf] * rows

    def problem(self, line: int, event: str, what: str) -> None:
        """Note a problem at a line (the number of the event) and event.

        Raises:
            ConfigError: problems are not tolerated.
        """
        text = f"line {line}, {event}: {what}"
        if self.strict:
            raise ConfigError(text)
        self.count += 1
        if self.count <= MOST_TOLD:
            self.problems.append(text)

    def take(self, line: int, event: str, now: float, price: Price) -> None:
        """Take a price that came with an event."""
        owed = self.owed.get((price.job, price.host))
        named = f"price of host {price.host} for job {price.job}"
        if owed is None:
            return self.problem(line, event, f"{named}: there is no such valid result")
        amount: Any = price.amount  # Any: it may be anything
        if not isinstance(amount, int | float) or not 0.0 <= amount < math.inf:
            return self.problem(line, event, f"{named}: {amount!r} is not an amount")
        if owed.final:
            return self.problem(line, event, f"{named}: it was final before")
        if now > owed.time + LATEST:
            return self.problem(line, event, f"{named}: more than 30 days after the verdict")
        if amount == 0.0 and owed.priced:
            self.revoked[owed.row] = now
        else:
            self.price[owed.row], self.revoked[owed.row] = float(amount), math.inf
        owed.priced, owed.final = True, price.final
        self.final[owed.row] = now if price.final else math.inf
        return None

    def close(self, line: int) -> None:
        """Note which results never got a price."""
        for (job, host), owed in self.owed.items():
            if not owed.priced:
                self.problem(line, "the end", f"host {host} got no price for job {job}")

    def told(self) -> tuple[str, ...]:
        """Return the problems."""
        more = self.count - len(self.problems)
        return (*self.problems, *([f"and {more} more"] if more > 0 else []))


class EventWatcher:
    """Shows a run to a system of one's own."""

    def __init__(self, system: OwnSystem, quorum: int, accounts: list[int], *, strict: bool) -> None:
        """``accounts`` grows with the run's identities."""
        self.system, self.quorum, self.accounts = system, quorum, accounts
        self.desk = Desk(strict=strict)
        self.line = 0
        self.told = 0  # reports of the present job
        self.versions: set[int] = set()
        self.wanted = 0
        self.seconds = 0.0

    def wants(self, reports: Table, job: Table) -> int:
        """Show the reports that are new, and ask whether another replica is wanted."""
        now = float(job["time"])
        self._show(reports[self.told :], job)
        self.told = len(reports)
        self.wanted = 0
        self._send(CheckRequest(now, int(reports["job"][0])))
        return self.wanted

    def decided(self, results: Table, job: Table) -> None:
        """Show refusals and verdicts."""
        rows, now = len(self.desk.price), float(job["time"])
        self.desk.open(len(results), now)
        number = int(results["job"][0])
        lost = results["outcome"] == ERROR
        self._show(results[lost], job)
        self._show(results[~lost][self.told :], job)
        self.told = 0
        valid, wrong = list[int](), list[int]()
        for place, row in enumerate(results):
            host = int(row["identity"])
            if row["outcome"] == VALID:
                valid.append(host)
                self.desk.owed[number, host] = _Owed(rows + place, now)
            elif not lost[place]:
                wrong.append(host)
        self._send(Verdict(now, number, tuple(valid), tuple(wrong)))

    def pay(self, tape: Tape) -> Pay:
        """Return what was paid."""
        self.desk.close(self.line)
        try:
            size = len(pickle.dumps(self.system))
        except Exception:  # noqa: BLE001  # it may hold anything
            size = 0
        return Pay(
            price=np.array(self.desk.price),
            final=np.array(self.desk.final),
            revoked=np.array(self.desk.revoked),
            seconds=self.seconds,
            state_bytes=size,
            problems=self.desk.told(),
        )

    def _show(self, rows: Table, job: Any) -> None:
        for row in rows:
            for event in events_of(row, job, self.accounts, self.quorum):
                if isinstance(event, Issue) and event.version not in self.versions:
                    self.versions.add(event.version)
                    self._send(Release(event.time, event.app, event.version))
                self._send(event)

    def _send(self, event: Event) -> None:
        self.line += 1
        name = type(event).__name__.lower()
        began = time.perf_counter()
        answers = list(self.system.handle(event) or ())
        self.seconds += time.perf_counter() - began
        for answer in answers:
            if isinstance(answer, Replicate):
                if isinstance(event, CheckRequest) and answer.job == event.job and 0 < answer.replicas <= 4:
                    self.wanted = answer.replicas
                else:
                    self.desk.problem(self.line, name, f"{answer} does not answer it")
            elif isinstance(answer, Price):  # pyright: ignore[reportUnnecessaryIsInstance]  # it may be anything
                self.desk.take(self.line, name, event.time, answer)
            else:
                self.desk.problem(self.line, name, f"{answer!r} is no answer")


def events_of(
    row: Any, job: Any, accounts: list[int], quorum: int
) -> tuple[Event, Event]:  # Any: rows of NumPy
    """Return the two events of a result: it was issued, and reported or refused."""
    now, number, host = float(row["time"]), int(row["job"]), int(row["identity"])
    issue = Issue(
        now,
        number,
        host,
        int(job["app"]),
        int(row["version"]),
        int(job["stratum"]),
        float(job["estimate"]),
        accounts[host],
        quorum,
    )
    if row["outcome"] == ERROR:
        return issue, Refuse(now, number, host, int(row["refusal"]))
    return issue, Report(
        now,
        number,
        host,
        float(row["elapsed"]),
        float(row["cpu"]),
        float(row["peak"]),
        float(row["benchmark"]),
        int(row["threads"]),
        float(row["counted"]),
        bool(row["kind"] == GPU),
        bool(row["kind"] == OWN_BUILD),
        float(row["sent"]),
    )
