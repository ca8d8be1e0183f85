"""Credit systems side by side on one synthetic population: who is paid what for the same work, and what cheating brings.

The unit pays 200 (or another number) for a day of a processor with a *peak* speed of 1 GFLOPS, so a program that reaches a
third of the peak earns three times the unit per true operation: 1 is not the aim, but no figure should drift from its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cobblestone.credit_lab.figures import Replay
from cobblestone.credit_lab.population import OWN_BUILD, Cheat, PopulationOptions, Sample, synthetic_log
from cobblestone.credit_lab.replay import replay
from cobblestone.domain.sums import float_sum
from cobblestone.policy.credit.cobblestone import DEPLOYED
from cobblestone.policy.credit.system import CreditSystem

COMPARED = ("benchmark", "counted", "creditnew-designed", "creditnew-deployed", "steady", "steady-measured")
"""First, second, third as designed and as deployed, and ours."""

CHEATS = tuple(cheat for cheat in Cheat if cheat is not Cheat.NONE)

WINDOW = 200
"""Results over which the level is looked at while it settles."""

SETTLED_WITHIN = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFigures:
    """What a system did.  *Level*: credit / what the unit pays for the job's true operations.

    Spreads are standard deviation / mean over the second half of the results.
    """

    system: str
    level: float  #: of the second half
    spread: float  #: of results, with errors in estimates
    spread_exact: float  #: of results, with estimates that are proportional to the work
    spread_hosts: float  #: of hosts: is the same work paid the same, whoever does it
    own_build: float  #: level of own builds / level of all
    newcomers: float  #: level of each host's first ten results / level of the second half
    settled_after: (
        int | None
    )  #: results; from there on each window is within `SETTLED_WITHIN` of the level; None: never
    gains: dict[str, float]  #: by cheat: cheaters' credit per operation / the same hosts' when honest
    harm: dict[str, float]  #: by cheat: the same quotient of the honest hosts
    levels: list[float]  #: of one window after the other


@dataclass(frozen=True, slots=True)
class _Line:
    host: int
    paid: float  # credit
    worth: float  # what the unit pays for the true operations
    cheater: bool
    own_build: bool
    rank: int  # which result of its host

    @property
    def level(self) -> float:
        return self.paid / self.worth


def compare(
    systems: Sequence[CreditSystem],
    options: PopulationOptions,
    *,
    progress: Callable[[str], None] = lambda text: None,
) -> list[SystemFigures]:
    """Run one population, honest and with each cheat, through systems; ``progress`` is told what begins."""
    samples = {cheat: synthetic_log(options, cheat) for cheat in Cheat}
    exact = synthetic_log(replace(options, estimate_error=0.0))
    found: list[SystemFigures] = []
    for system in systems:
        runs: dict[Cheat, list[_Line]] = {}
        progress(f"{system.name}: {len(samples) + 1} histories of {options.jobs} jobs …")
        for cheat, sample in samples.items():
            runs[cheat] = _lines(sample, replay(sample.log, system))
        found.append(_figures(system.name, runs, _lines(exact, replay(exact.log, system))))
    return found


def _lines(sample: Sample, done: Replay) -> list[_Line]:
    """Return valid results in their order."""
    lines: list[_Line] = []
    ranks: dict[int, int] = {}
    hosts, versions = sample.log.column("host_id"), sample.log.column("app_version_id")
    for place, valid in enumerate(sample.valid):
        if valid:
            host = hosts[place]
            ranks[host] = ranks.get(host, 0) + 1
            worth = DEPLOYED.of_flops(sample.work[place])
            own = versions[place] == OWN_BUILD
            lines.append(_Line(host, done.granted[place], worth, sample.cheated[place], own, ranks[host]))
    return lines


def _level(lines: Sequence[_Line]) -> float:
    worth = float_sum(line.worth for line in lines)
    return float_sum(line.paid for line in lines) / worth if worth else 0.0


def spread(values: Sequence[float]) -> float:
    """Return standard deviation / mean; 0 without values or when their mean is 0."""
    if not values:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values)) / mean if mean else 0.0


def _second_half(lines: Sequence[_Line]) -> Sequence[_Line]:
    return lines[len(lines) // 2 :]


def settled_after(levels: Sequence[float], level: float) -> int | None:
    """How many results passed until every window that follows is near ``level``; None when the last one is not."""
    far = [place for place, each in enumerate(levels) if abs(each - level) > SETTLED_WITHIN * level]
    if not far:
        return 0
    return None if far[-1] + 1 == len(levels) else (far[-1] + 1) * WINDOW


def _quotient(one: float, other: float) -> float:
    return one / other if other else 0.0


def _figures(name: str, runs: dict[Cheat, list[_Line]], exact: list[_Line]) -> SystemFigures:
    honest = runs[Cheat.NONE]
    late = _second_half(honest)
    level = _level(late)
    hosts = sorted({line.host for line in late})
    levels = [_level(honest[place : place + WINDOW]) for place in range(0, len(honest) - WINDOW + 1, WINDOW)]
    return SystemFigures(
        system=name,
        level=level,
        spread=spread([line.level for line in late]),
        spread_exact=spread([line.level for line in _second_half(exact)]),
        spread_hosts=spread([_level([line for line in late if line.host == host]) for host in hosts]),
        own_build=_quotient(_level([line for line in late if line.own_build]), level),
        newcomers=_quotient(_level([line for line in honest if line.rank <= 10]), level),
        settled_after=settled_after(levels, level),
        gains={cheat.value: _quotient(_of(runs[cheat], True), _of(honest, True)) for cheat in CHEATS},
        harm={cheat.value: _quotient(_of(runs[cheat], False), _of(honest, False)) for cheat in CHEATS},
        levels=levels,
    )


def _of(lines: Sequence[_Line], cheaters: bool) -> float:
    return _level([line for line in lines if line.cheater is cheaters])
