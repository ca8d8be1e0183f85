"""State of the ledger system, and the events that change it.

    ln(T x P / E) = c of the stratum + a of the version + d of the host + s of the job + e of the run

T is the run time in seconds, P a scale of the host fixed at its first report, E the estimate of the job in FLOPs.  s has
the variance sigma_E squared (error of the estimate), e has sigma_N squared (noise of a run) times the noise factor q of the
host.  All effects are natural logarithms, all amounts are credits.  Records are made by the engine: a key that a state lacks
stands for a new record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TypeAlias

from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import value

#: Host, app version, and resource usage (processors and GPUs, in a form of the caller's).
HostKey: TypeAlias = tuple[int, int, str]

#: App version and resource usage.
VersionKey: TypeAlias = tuple[int, str]

#: Stratum, app version, and resource usage.
CellKey: TypeAlias = tuple[str, int, str]


@value(kw_only=True)
class LedgerRules:
    """Rules of an app.  The defaults are those that were measured."""

    #: beta: share of the value of jobs by which own reports may raise the sum of an identity
    slack: float = 0.04
    check_scale: float = 10.0  #: a host with W trusted jobs is checked with probability scale / W ...
    check_floor: float = 0.02  #: ... or with this one, if that is more
    tail: float = 1.75  #: residuals beyond so many standard deviations are a tail
    early_exits: bool = False  #: jobs may end long before their estimate: the step detector is off
    staked_jobs: int = 2  #: half of the price of so many first jobs is held, the price of an identity ...
    stake_until: int = 20  #: ... until the host has so many valid jobs


@value(kw_only=True)
class HostRecord:
    """What is known of an app version on a host."""

    scale: float = 0.0  #: P, FLOPs per second at the first report; 0: none yet
    samples: int = 0  #: n
    effect: float = 0.0  #: d
    variance: float = 0.0  #: v, of the effect; meaningless while there are no samples
    noise: float = 1.0  #: q
    #: B, by how much own reports may raise prices; taken off the credit while it is negative
    bank: float = 0.0
    debt: float = 0.0  #: K, negative: what refused jobs cost; a positive one is never paid
    trusted: float = 0.0  #: W: valid jobs since the last failed check
    jobs: int = 0  #: valid jobs of this identity, ever
    refused: int = 0  #: jobs that it did not finish and others did
    earned: float = 0.0  #: sum of all prices, those in escrow included, those revoked not
    escrow: float = 0.0  #: sum of the prices that await a check
    escrow_count: int = 0
    stake: float = 0.0  #: held of the first prices


@value(kw_only=True)
class VersionRecord:
    """What is known of an app version, by resource usage."""

    effect: float = 0.0  #: a
    votes: float = 0.0  #: n_a; 0: not known yet
    spread: float = 0.3  #: tau squared, variance of the effects of its hosts


@value(kw_only=True)
class Keeper:
    """A running ratio sum(value x factor) / sum(value) that keeps the mean factor at 1."""

    paid: float = 0.0
    value: float = 0.0
    count: float = 0.0  #: results in its memory

    @property
    def factor(self) -> float:
        """Return what factors are divided by so that their mean is 1."""
        return min(max(self.paid / self.value, 0.25), 4.0) if self.value > 0.0 else 1.0

    def after(self, amount: float, factor: float) -> Keeper:
        """Return the keeper after a result of this value and factor.

        It begins with fifty results of factor 1, and remembers 1000 results, later 5000.
        """
        paid, value = (self.paid, self.value) if self.value > 0.0 else (50.0 * amount, 50.0 * amount)
        kept = 1.0 - 1.0 / min(1000.0 + self.count, 5000.0)
        return Keeper(paid=paid * kept + amount * factor, value=value * kept + amount, count=self.count + 1.0)


@value(kw_only=True)
class StepDetector:
    """Finds common steps of all residuals, such as an estimate that the project doubled."""

    up: float = 0.0  #: sum of what residuals exceed the allowance by
    down: float = 0.0
    shift: float = 0.0  #: location of the residuals after an alarm
    left: int = 0  #: how many of those are missing, negative at the first look; 0: no alarm


@value(kw_only=True)
class AppRecord:
    """What is known of an app."""

    unit: float  #: credits per estimated FLOP
    difference: float = 0.15  #: running median of |u1 - u2| of two known hosts in one job
    mean_size: float = 0.2  #: running median of |u1 + u2| / 2
    pairs: int = 0  #: seen for these two
    own: Keeper = Keeper()  #: G of prices by the own report
    partner: Keeper = Keeper()  #: G of prices by others' reports
    length: Keeper = Keeper()  #: L, of exp(u)
    sizes: Keeper = Keeper()  #: of exp(u) by the lowest of several reports
    factors: Keeper = Keeper()  #: of the price by that report alone
    detector: StepDetector = StepDetector()
    constant: float = 0.0  #: c of the first stratum, moved by steps
    constants: Mapping[str, float] = field(
        default_factory=dict[str, float]
    )  #: what c of a stratum is above it; absent: 0


@value(kw_only=True)
class Cell:
    """Cross table of routed work: y - d, without the constant, of jobs of a stratum that a version computed."""

    mean: float = 0.0
    count: float = 0.0


@value(kw_only=True)
class LedgerState:
    """The records that an event may look at; the engine returns those that it changed.

    ``cells`` holds all cells of the app if it has several strata, else it may be empty.
    """

    app: AppRecord
    versions: Mapping[VersionKey, VersionRecord] = field(default_factory=dict[VersionKey, VersionRecord])
    hosts: Mapping[HostKey, HostRecord] = field(default_factory=dict[HostKey, HostRecord])
    cells: Mapping[CellKey, Cell] = field(default_factory=dict[CellKey, Cell])


@value(kw_only=True)
class Job:
    """A workunit."""

    estimate: float  #: E, FLOPs
    stratum: str = ""  #: by which the scheduler routes, if it does


@value(kw_only=True)
class Report:
    """A valid result.  Figures are as the host reported them: NaN, infinite, zero or negative ones do not exist."""

    result_id: int
    host: HostKey
    owner: int = 0  #: person; results of one person are no evidence for each other.  0: unknown
    run_time: float = 0.0  #: seconds
    speed: float = 0.0  #: peak FLOPs per second of the devices used; only the first of a record counts


@value(kw_only=True)
class Begun:
    """An app takes the system, or other rules of it."""

    early_exits: bool  #: of the rules
    unit: float = 0.0  #: credits per estimated FLOP that jobs were worth under another system; 0: as before


@value(kw_only=True)
class Left:
    """An app takes another system: what is provisional becomes final.  The state needs the records of all hosts."""


@value(kw_only=True)
class VersionMet:
    """A host runs another version for the first time."""

    host: HostKey
    before: HostKey  #: its record with the version before


@value(kw_only=True)
class JobDecided:
    """A workunit has its canonical result; ``reports`` are all its valid results, by id."""

    job: Job
    reports: tuple[Report, ...]
    #: of the app; a job with more valid results is final, one with less than 3 else provisional
    quorum: int = 1
    checked: tuple[
        int, ...
    ] = ()  #: results for which a check was drawn (not those that came as the check): their escrow ends


@value(kw_only=True)
class JobRefused:
    """A job that a host did not finish (error, abort, time-out) was finished by others: its size is known."""

    job: Job
    host: HostKey
    reports: tuple[Report, ...]  #: valid results of other people
    replicated: bool = True  #: the host's results are replicated (quorum 2 or more, or a newcomer)


@value(kw_only=True)
class CheckFailed:
    """A result of this host turned out to be wrong: others agree on another one.

    With a quorum of two or more, a single wrong result that the quorum refused by itself is no failed check.
    """

    host: HostKey
    agreed: bool = False  #: another person's result agreed with it: honest errors do not


@value(kw_only=True)
class AuditFinished:
    """The results of a host that `CheckFailed` had run again are all decided."""

    host: HostKey
    bad: int  #: how many of them were wrong
    right: tuple[int, ...] = ()  #: those that were found again; they stay, whatever becomes of the others


Event: TypeAlias = Begun | Left | VersionMet | JobDecided | JobRefused | CheckFailed | AuditFinished


@value(kw_only=True)
class CheckDecision:
    """Whether other hosts compute a job, too, decided after its upload."""

    replicas: int  #: further results wanted, of hosts with `LedgerRules.check_scale` trusted jobs; 0: it is provisional
    probability: float  #: with which a check was drawn


@value(kw_only=True)
class Price:
    """What a result is worth, with the reasons in words."""

    result_id: int
    host: HostKey
    amount: float  #: credits, finite and not negative
    provisional: bool  #: in escrow until its host passes a check
    reasons: tuple[Reason, ...] = ()


@value(kw_only=True)
class Outcome:
    """What an event brings.  Mappings hold only what changed."""

    state: LedgerState
    prices: tuple[Price, ...] = ()
    corrections: Mapping[HostKey, float] = field(default_factory=dict[HostKey, float])
    """Change of the settled credit of a host beyond ``prices``: refused jobs, stakes, revoked escrow."""
    released: tuple[HostKey, ...] = ()  #: all their results in escrow are final now
    revoked: tuple[
        HostKey, ...
    ] = ()  #: all their results in escrow lose their price, but for those an audit found right
    audits: Mapping[HostKey, int | None] = field(default_factory=dict[HostKey, int | None])
    """How many random results in escrow are to be run again, by host; None: all of them."""
    reasons: tuple[Reason, ...] = ()
