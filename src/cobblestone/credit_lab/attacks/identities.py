"""New identities: the record of a computer and its account are thrown away as soon as they hurt."""

from __future__ import annotations

from collections.abc import Callable

from cobblestone.credit_lab.attacks.acts import Act, Attack, Seen
from cobblestone.credit_lab.attacks.inflating import faster, longer


def after(jobs: int, *, refusals: bool = False) -> Callable[[Seen, float], bool]:
    """Begin again after so many results; ``refusals`` count, too, or not."""
    return lambda seen, strength: seen.results + refusals * seen.refused >= jobs


EACH_20 = after(20, refusals=True)


def each_third(seen: Seen, strength: float) -> int:
    """Begin again after three results, or after a refusal."""
    return seen.results >= 3 or seen.refused >= 1


def ramp(seen: Seen, act: Act, strength: float) -> None:
    """Report run times that grow from the truth to ``strength`` times of it over 100 results."""
    act.time *= strength ** min(1.0, seen.results / 100.0)


def low_first(seen: Seen, act: Act, strength: float) -> None:
    """Report too short times for 20 results, and ``strength`` times the truth from then on."""
    act.time *= 0.3 if seen.results < 20 else strength


ATTACKS = (
    Attack("fresh-time", "time x 10, a new identity each 20 jobs", report=longer, renew=EACH_20),
    Attack("fresh-benchmark", "benchmark x 10, a new identity each 20 jobs", report=faster, renew=EACH_20),
    Attack("new-account", "time x 10, each job a new account", report=longer, renew=after(1, refusals=True)),
    Attack("ramp", "time grows to x 100, then a new identity", report=ramp, strength=100.0, renew=after(100)),
    Attack(
        "low-first",
        "low for 20 results, then x 3, then a new identity",
        report=low_first,
        strength=3.0,
        renew=after(60),
    ),
    Attack(
        "farm",
        "10 % arrive at once, agree on time x 3 with each other",
        report=lambda seen, act, strength: longer(seen, act, strength if seen.accomplices else 1.0),
        strength=3.0,
        share=0.1,
        ring=True,
        arrives=0.4,
    ),
)
