"""Refusals: jobs that pay badly are dropped, by abort, error or time-out."""

from __future__ import annotations

from collections.abc import Callable

from cobblestone.credit_lab.attacks.acts import ABORT, ERROR, HONEST, TIMEOUT, Attack, Seen
from cobblestone.credit_lab.attacks.identities import EACH_20, each_third
from cobblestone.credit_lab.attacks.inflating import longer


def drop_long(seen: Seen, strength: float) -> int:
    """Abort what is longer than ``strength`` times what its estimate says."""
    return ABORT if seen.length > abs(strength) else HONEST


def fail_long(seen: Seen, strength: float) -> int:
    """Let it crash."""
    return ERROR if seen.length > strength else HONEST


def keep_long(seen: Seen, strength: float) -> int:
    """Let its deadline pass."""
    return TIMEOUT if seen.length > strength else HONEST


def drop_short_x3(seen: Seen, strength: float) -> int:
    """Abort what is shorter than its estimate says."""
    return ABORT if seen.length < 1.0 else HONEST


_CHERRY = "drops jobs longer than estimated"


def _cherry(name: str, about: str, **more: object) -> Attack:
    given = {"refuse": drop_long, "strength": 1.0, "world": "constant"} | more
    return Attack(name, about, **given)  # type: ignore[arg-type]  # by name


def _longer_than(factor: float) -> Callable[[Seen, float], int]:
    """Abort what is so many times longer than its estimate says, whatever the strength of the lie."""
    return lambda seen, strength: drop_long(seen, factor)


ATTACKS = (
    _cherry("cherry", f"{_CHERRY}, constant estimate"),
    Attack("cherry-error", "the same by a crash", refuse=fail_long, strength=1.0),
    Attack("cherry-timeout", "the same by letting deadlines pass", refuse=keep_long, strength=1.0),
    _cherry("cherry-inflate", f"{_CHERRY}, time x 3", report=longer, refuse=_longer_than(1.0), strength=3.0),
    _cherry(
        "small-inflate", "drops the short jobs, time x 3", report=longer, refuse=drop_short_x3, strength=3.0
    ),
    _cherry("cherry-fresh", f"{_CHERRY}, a new identity each 20 jobs", renew=EACH_20),
    _cherry("cherry-churn", f"{_CHERRY}, a new identity each 3 jobs or refusal", renew=each_third),
    Attack(
        "cherry-extreme",
        "drops only jobs twice as long as estimated, new identity after each",
        refuse=_longer_than(2.0),
        renew=each_third,
        strength=1.0,
    ),
)
