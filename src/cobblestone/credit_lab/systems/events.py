"""Events that a system of one's own sees, and its answers.

A system is an object with a ``name`` and a method ``handle(event)`` that returns answers, perhaps none.  It sees a job like
this: `Issue` and `Report` (or `Refuse`) of each computer, then `CheckRequest`, which it may answer by `Replicate`; further
reports and the same question again; at last `Verdict`, after which it owes a `Price` for every valid result.  An answer may come
with any later event, but not later than `LATEST`.  `Release` says that a version came out.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from cobblestone.credit_lab.systems.pay import Watcher
from cobblestone.credit_lab.systems.tape import ERROR, GPU, OWN_BUILD, VALID, Job, Result
from cobblestone.domain.errors import ConfigError

#: Seconds after the verdict within which a price must have come.
LATEST = 30 * 86400.0

#: Problems of a run that are told one by one.
MOST_TOLD = 100


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


class Problems:
    """What was wrong, line by line."""

    def __init__(self, *, strict: bool) -> None:
        """``strict``: stop at the first."""
        self.strict = strict
        self.texts: list[str] = []
        self.count = 0

    def add(self, line: int, event: str, what: str) -> None:
        """Note a problem at a line (the number of the event) and event.

        Raises:
            ConfigError: problems are not tolerated.
        """
        text = f"line {line}, {event}: {what}"
        if self.strict:
            raise ConfigError(text)
        self.count += 1
        if self.count <= MOST_TOLD:
            self.texts.append(text)

    def told(self) -> tuple[str, ...]:
        """Return them as texts."""
        more = self.count - len(self.texts)
        return (*self.texts, *([f"and {more} more"] if more > 0 else []))


@dataclass(slots=True)
class _Owed:
    row: int
    time: float
    priced: bool = False
    final: bool = False


class EventWatcher(Watcher):
    """Shows a run to a system of one's own; names what is wrong with its answers, and keeps the others."""

    def __init__(self, system: OwnSystem, quorum: int, accounts: list[int], *, strict: bool) -> None:
        """``accounts`` grows with the run's identities."""
        super().__init__()
        self.system, self.quorum, self.accounts = system, quorum, accounts
        self._problems = Problems(strict=strict)
        self._owed: dict[tuple[int, int], _Owed] = {}
        self._line = 0
        self._told = 0  # reports of the present job
        self._versions: set[int] = set()
        self._wanted = 0

    def wants(self, reports: Sequence[Result], job: Job) -> int:
        """Show the reports that are new, and ask whether another replica is wanted."""
        self._show(reports[self._told :], job)
        self._told = len(reports)
        self._wanted = 0
        self._send(CheckRequest(job.time, job.number))
        return self._wanted

    def decided(self, results: Sequence[Result], job: Job) -> None:
        """Show refusals and verdicts."""
        first = self.open(results, job)
        lost = [result for result in results if result.outcome == ERROR]
        self._show(lost, job)
        self._show(results[len(lost) + self._told :], job)
        self._told = 0
        valid, wrong = list[int](), list[int]()
        for place, result in enumerate(results):
            if result.outcome == VALID:
                valid.append(result.identity)
                self._owed[job.number, result.identity] = _Owed(first + place, job.time)
            elif result.outcome != ERROR:
                wrong.append(result.identity)
        self._send(Verdict(job.time, job.number, tuple(valid), tuple(wrong)))

    def records(self) -> object:
        """Return the system: it is its own state."""
        return self.system

    def problems(self) -> tuple[str, ...]:
        """Return what was wrong with its answers, those that never came included."""
        for (job, host), owed in self._owed.items():
            if not owed.priced:
                self._problems.add(self._line, "the end", f"host {host} got no price for job {job}")
        return self._problems.told()

    def _show(self, results: Sequence[Result], job: Job) -> None:
        for result in results:
            for event in events_of(result, job, self.accounts, self.quorum):
                if isinstance(event, Issue) and event.version not in self._versions:
                    self._versions.add(event.version)
                    self._send(Release(event.time, event.app, event.version))
                self._send(event)

    def _send(self, event: Event) -> None:
        self._line += 1
        name = type(event).__name__.lower()
        for answer in self._answers(event, name):
            if isinstance(answer, Replicate):
                if isinstance(event, CheckRequest) and answer.job == event.job and 0 < answer.replicas <= 4:
                    self._wanted = answer.replicas
                else:
                    self._problems.add(self._line, name, f"{answer} does not answer it")
            elif isinstance(answer, Price):
                if wrong := self._take(event.time, answer):
                    said = f"price of host {answer.host} for job {answer.job}: {wrong}"
                    self._problems.add(self._line, name, said)
            else:
                self._problems.add(self._line, name, f"{answer!r} is no answer")

    def _answers(self, event: Event, name: str) -> Iterator[object]:
        try:
            yield from self.system.handle(event) or ()
        except Exception as error:  # noqa: BLE001  # a system of one's own may raise anything; it has no answer, then
            place = traceback.extract_tb(error.__traceback__)[-1]
            what = f"it failed: {type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
            self._problems.add(self._line, name, what)

    def _take(self, now: float, price: Price) -> str:
        """Take a price; return what is wrong with it."""
        owed = self._owed.get((price.job, price.host))
        if owed is None:
            return "there is no such valid result"
        if not is_amount(price.amount):
            return f"{price.amount!r} is not an amount"
        if owed.final:
            return "it was final before"
        if now > owed.time + LATEST:
            return "more than 30 days after the verdict"
        if price.amount == 0.0 and owed.priced:
            self.revoked[owed.row] = now
        else:
            self.price[owed.row], self.revoked[owed.row] = price.amount, math.inf
        owed.priced, owed.final = True, price.final
        self.final[owed.row] = now if price.final else math.inf
        return ""


def is_amount(amount: object) -> bool:
    """Return whether this is an amount of credit."""
    return isinstance(amount, int | float) and 0.0 <= amount < math.inf


def events_of(
    result: Result, job: Job, accounts: Sequence[int], quorum: int
) -> tuple[Issue, Report | Refuse]:
    """Return the two events of a result: it was issued, and reported or refused."""
    now, host = result.time, result.identity
    account = accounts[host]
    issue = Issue(now, job.number, host, job.app, result.version, job.stratum, job.estimate, account, quorum)
    if result.outcome == ERROR:
        return issue, Refuse(now, job.number, host, result.refusal)
    told = {name: getattr(result, name) for name in REPORTED}
    gpu, own_build = result.kind == GPU, result.kind == OWN_BUILD
    return issue, Report(now, job.number, host, gpu=gpu, own_build=own_build, **told)


#: Figures that a report and a result call the same.
REPORTED = ("run_time", "cpu_time", "peak", "benchmark", "ncpus", "counted", "sent")
