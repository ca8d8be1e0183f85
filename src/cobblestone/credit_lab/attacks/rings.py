"""Rings: computers of one person, or of accomplices, that vouch for each other in common jobs."""

from __future__ import annotations

from cobblestone.credit_lab.attacks.acts import Act, Attack, Seen
from cobblestone.credit_lab.attacks.identities import after


def in_common(seen: Seen, act: Act, strength: float) -> None:
    """Report a longer run time where an accomplice has the same job."""
    if seen.accomplices:
        act.time *= strength


def ramp_in_common(seen: Seen, act: Act, strength: float) -> None:
    """Report 3 % more in each job than in the one before."""
    act.time *= min(strength, 1.03**seen.results)


def one_computes(seen: Seen, act: Act, strength: float) -> None:
    """Compute a common job once and hand it in for all."""
    if seen.accomplices and not seen.first:
        act.copied = True


def forge_in_common(seen: Seen, act: Act, strength: float) -> None:
    """Invent the same output in common jobs, and a share ``strength`` of the others where nobody can see it."""
    if seen.accomplices or (seen.alone and seen.draw < strength):
        act.forged = True


def _ring(name: str, about: str, **more: object) -> Attack:
    given = {"report": in_common, "share": 0.1, "ring": True} | more
    return Attack(name, about, **given)  # type: ignore[arg-type]  # by name


def _pair(name: str, about: str, **more: object) -> Attack:
    return _ring(name, about, **({"share": 0.01, "meets": True, "quorums": (2,)} | more))


ATTACKS = (
    _ring("ring-x3", "a ring of 10 % reports x 3 in common jobs", strength=3.0),
    _ring("ring-x10", "a ring of 10 % reports x 10 in common jobs"),
    _ring("ring-1", "a ring of 1 % reports x 10 in common jobs", share=0.01),
    _ring("ring-20", "a ring of 20 % reports x 10 in common jobs", share=0.2),
    _ring("ring-copies", "a ring of 10 %: one computes, all hand in", report=one_computes),
    _ring("ring-forges", "a ring of 10 % forges common jobs", report=forge_in_common, strength=0.0),
    _ring(
        "ring-forges-more",
        "a ring of 10 % forges common jobs and a tenth of those seen alone",
        report=forge_in_common,
        strength=0.1,
        quorums=(1,),
    ),
    _pair("pair-x3", "accomplices get the same job if one of them is first, x 3", strength=3.0),
    _pair("pair-x10", "accomplices get the same job if one of them is first, x 10"),
    _pair(
        "pair-ramp", "the same, 3 % more each time, new identities", report=ramp_in_common, renew=after(100)
    ),
)
