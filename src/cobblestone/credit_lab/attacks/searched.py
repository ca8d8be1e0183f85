"""Attacks that the optimiser looks for: a mixture of all families, as a function of eight numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cobblestone.credit_lab.attacks.acts import ABORT, HONEST, Act, Attack, Seen
from cobblestone.domain.errors import ConfigError

#: Name, smallest and largest value of each number.
PARAMETERS: tuple[tuple[str, float, float], ...] = (
    ("log of the factor of run time", -2.0, math.log(300.0)),
    ("log of the factor of the benchmark", -2.0, math.log(300.0)),
    ("share of the jobs with a false time", 0.0, 1.0),
    ("false only in common jobs, above 0.5", 0.0, 1.0),
    ("drops jobs longer than estimated by this factor (above 4: none)", 0.3, 6.0),
    ("log of the results of an identity (above 5: all)", 0.0, 6.5),
    ("share of the jobs that are forged", 0.0, 0.6),
    ("results after a passed check within which it forges (above 30: any)", 0.0, 40.0),
)

PREFIX = "search:"


def searched(numbers: Sequence[float], *, share: float = 0.1) -> Attack:
    """Return the attack of these numbers, by a ring that has this share of the computers.

    Raises:
        ConfigError: there are too many numbers, or too few.
    """
    if len(numbers) != len(PARAMETERS):
        raise ConfigError(f"{PREFIX} needs {len(PARAMETERS)} numbers, not {len(numbers)}")
    time, benchmark, lies, common, longest, life, forged, window = numbers

    def report(seen: Seen, act: Act, strength: float) -> None:
        if seen.draw < lies and (common <= 0.5 or seen.accomplices):
            act.time *= math.exp(time)
        act.peak *= math.exp(benchmark)
        act.benchmark *= math.exp(benchmark)
        again = seen.draw * 997.0 % 1.0  # a second random number from the first
        act.forged = again < forged and (window > 30.0 or seen.since_pass < window) and seen.trusted > 3

    def refuse(seen: Seen, strength: float) -> int:
        return ABORT if longest <= 4.0 and seen.length > longest else HONEST

    def renew(seen: Seen, strength: float) -> int:
        return life <= 5.0 and seen.results + seen.refused >= math.exp(life)

    name = PREFIX + ",".join(f"{number:.3g}" for number in numbers)
    return Attack(
        name, "found by the optimiser", report=report, refuse=refuse, renew=renew, share=share, ring=True
    )
