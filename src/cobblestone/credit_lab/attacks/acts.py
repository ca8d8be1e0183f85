"""What an attacker sees when it has a job, what it may do with it, and what an attack consists of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

#: Kinds of refusal; `HONEST`: the job is computed.
HONEST, ABORT, ERROR, TIMEOUT = range(4)


@dataclass(slots=True)
class Seen:
    """What the owner of an attacking computer knows when it decides.  Counts are of the present identity."""

    job: int = 0
    time: float = 0.0  #: Unix seconds
    length: float = 1.0  #: true size of the job / what jobs of this estimate usually have
    alone: bool = False  #: the server shows that no other computer has the job
    first: bool = False  #: it is the first replica
    accomplices: int = 0  #: in this job
    results: int = 0  #: judged so far
    refused: int = 0
    trusted: int = 0  #: valid results since the last wrong one, unreplicated ones too
    since_pass: int = 0  #: results since the last one that agreed with another computer's
    passes: int = 0  #: results that agreed with another computer's
    caught: int = 0  #: results found wrong
    draw: float = 0.0  #: a random number from 0 to 1 of its own for this job and computer


@dataclass(slots=True)
class Act:
    """What an attacker reports instead of the truth."""

    time: float = 1.0  #: factor of run time and CPU time
    peak: float = 1.0  #: factor of the peak speed
    benchmark: float = 1.0  #: factor of the benchmark
    counts: float = 1.0  #: factor of the counted operations
    threads: float = 1.0  #: factor of the processors that it says the job used
    run_time: float | None = None  #: reported as it is, also NaN
    benchmark_failed: bool = False  #: reports a speed of exactly 1e9
    forged: bool = False  #: the output is invented; accomplices invent the same
    copied: bool = False  #: the right output of an accomplice


def truthful(seen: Seen, act: Act, strength: float) -> None:
    """Report the truth."""


def never(seen: Seen, strength: float) -> int:
    """Refuse no job, keep the identity."""
    return HONEST


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack: three functions of what is seen and of a strength, and who takes part."""

    name: str
    about: str
    _: KW_ONLY
    strength: float = 10.0
    report: Callable[[Seen, Act, float], None] = truthful  #: changes the act
    refuse: Callable[[Seen, float], int] = never  #: the kind of refusal
    renew: Callable[[Seen, float], int] = never  #: whether it begins as a new computer of a new account
    share: float = 0.02  #: of the computers
    quorums: tuple[int, ...] = (2, 1)
    world: str = "normal"  #: the scenario without attackers that it happens in
    device: str = ""  #: only "gpu" or "cpu" computers take part
    ring: bool = False  #: the attackers are accomplices of each other
    meets: bool = False  #: where one is first, an accomplice gets the same job
    arrives: float = 0.0  #: share of the time after which all arrive at once
    lasting: bool = False  #: needs computers with 1,000 jobs
