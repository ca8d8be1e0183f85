"""Comparison of credit systems on one synthetic population: what each pays for the same work, and what cheating gains.

Credit systems side by side on one synthetic population: who is paid what for the same work, and what cheating brings.

The unit pays 200 (or another number) for a day of a processor with a *peak* speed of 1 GFLOPS, so a program that reaches a
third of the peak earns three times the unit per true operation: 1 is not the aim, but no figure should drift from its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cobblestone.credit_lab.figures import Replay
from cobblestone.credit_lab.population import OWN_BUILD, Cheat, LabelledLog, PopulationOptions, synthetic_log
from cobblestone.credit_lab.replay import replay
from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import float_sum
from cobblestone.policy.credit.claims import DEPLOYED
from cobblestone.policy.credit.system import CreditSystem
from cobblestone.simulator.report.picture import load_matplotlib, save_picture

COMPARED = ("benchmark", "counted", "creditnew-designed", "creditnew-deployed", "steady", "steady-measured")
"""First, second, third as designed and as deployed, and ours."""

CHEATS = tuple(cheat for cheat in Cheat if cheat is not Cheat.NONE)

WINDOW = 200
"""Results over which the level is looked at while it settles."""

SETTLED_WITHIN = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemFigures:
    """The results of a system.  *Level*: credit / what the unit pays for the job's true operations.

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
    """Run one population, honest and with each cheat, through systems; ``progress`` is called before each step."""
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


def _lines(sample: LabelledLog, done: Replay) -> list[_Line]:
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
    """Return how many results passed until every following window is near ``level``; None if the last one is not."""
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


_COLOURS = ("#8d6e63", "#7e57c2", "#e69f00", "#c1121f", "#0a7e5c", "#0072b2", "#555555")
_LABELS = {
    Cheat.RUN_TIME: "run time × 10",
    Cheat.BENCHMARK: "benchmark × 10",
    Cheat.COUNTS: "counts × 10",
    Cheat.NOW_AND_THEN: "run time × 10,\none result in ten",
    Cheat.IDENTITIES: "run time × 10,\nnew identities",
    Cheat.CHERRY_PICKING: "cherry picking",
}
_SUFFIXES = (".svg", ".png", ".pdf")


def check_picture(path: Path) -> None:
    """Raise `ConfigError` when a picture cannot be drawn there, before anything is computed for it."""
    load_matplotlib()
    if path.suffix not in _SUFFIXES:
        raise ConfigError(f"{path}: a picture is a {', '.join(_SUFFIXES)} file")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}")


def draw_comparison(found: Sequence[SystemFigures], path: Path) -> None:
    """Write the picture: levels as results come in, spreads, and gains by cheating.

    Raises:
        ConfigError: Matplotlib is missing, or the file cannot be written.
    """
    check_picture(path)
    plt = load_matplotlib()
    plt.rcParams.update(
        {"svg.hashsalt": "cobblestone", "svg.fonttype": "none"}
    )  # the same figures, the same file
    fig, axes = plt.subplots(3, 1, figsize=(8.5, 11), layout="constrained")
    colours = [_COLOURS[place % len(_COLOURS)] for place in range(len(found))]
    _levels(axes[0], found, colours)
    _groups(
        axes[1],
        found,
        colours,
        ["results,\nestimates with errors", "results,\nexact estimates", "hosts"],
        [[each.spread, each.spread_exact, each.spread_hosts] for each in found],
    )
    axes[1].set_title("Credit of equal work: standard deviation / mean (lower is better)")
    axes[1].set_ylim(bottom=0.0)
    labels = [_LABELS[cheat] for cheat in CHEATS]
    gains = [[each.gains[cheat.value] for cheat in CHEATS] for each in found]
    _groups(axes[2], found, colours, labels, gains, base=1.0)
    axes[2].set_title("Credit of cheaters: times what they get when honest (1 is best)")
    axes[2].axhline(1.0, color="black", linewidth=0.8)
    axes[2].set_yscale("log")
    axes[2].set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
    axes[2].set_yticks([], minor=True)
    save_picture(plt, fig, path, 110)


def _levels(axis: Any, found: Sequence[SystemFigures], colours: Sequence[str]) -> None:
    for each, colour in zip(found, colours, strict=True):
        results = [(place + 1) * WINDOW for place in range(len(each.levels))]
        axis.plot(results, each.levels, color=colour, label=each.system, marker=".")
    axis.set_title(f"Credit per true operation, in units, means of {WINDOW} results (flat is good)")
    axis.set_xlabel("results")
    axis.set_ylim(bottom=0.0)
    axis.legend(ncols=2, frameon=False)


def _groups(
    axis: Any,
    found: Sequence[SystemFigures],
    colours: Sequence[str],
    labels: Sequence[str],
    heights: Sequence[Sequence[float]],
    *,
    base: float = 0.0,
) -> None:
    """Bars side by side, a group per label, from ``base`` up or down."""
    width = 0.8 / len(found)
    for place, (each, colour) in enumerate(zip(found, colours, strict=True)):
        left = [group - 0.4 + (place + 0.5) * width for group in range(len(labels))]
        above = [height - base for height in heights[place]]
        axis.bar(left, above, width * 0.92, bottom=base, color=colour, label=each.system)
    axis.set_xticks(range(len(labels)), labels)
