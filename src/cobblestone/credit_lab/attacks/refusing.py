"""Refusals: jobs that pay badly are dropped, by abort, error or time-out."""

from __future__ import annotations

from cobblestone.credit_lab.attacks.acts import ABORT, ERROR, HONEST, TIMEOUT, Attack, Seen
from cobblestone.credit_lab.attacks.identities import after, each_third
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


def drop_long_x3(seen: Seen, strength: float) -> int:
    """Abort what is longer than its estimate says, whatever the strength of the lie."""
    return drop_long(seen, 1.0)


def drop_short_x3(seen: Seen, strength: float) -> int:
    """Abort what is shorter than its estimate says."""
    return ABORT if seen.length < 1.0 else HONEST


def drop_very_long(seen: Seen, strength: float) -> int:
    """Abort only what is more than twice as long."""
    return drop_long(seen, 2.0)


_CHERRY = "drops jobs longer than estimated"

ATTACKS = (
    Attack("cherry", f"{_CHERRY}, constant estimate", refuse=drop_long, strength=1.0, world="constant"),
    Attack("cherry-error", "the same by a crash", refuse=fail_long, strength=1.0),
    Attack("cherry-timeout", "the same by letting deadlines pass", refuse=keep_long, strength=1.0),
    Attack(
        "cherry-inflate",
        f"{_CHERRY}, time x 3",
        report=longer,
        refuse=drop_long_x3,
        strength=3.0,
        world="constant",
    ),
    Attack(
        "small-inflate",
        "drops the short jobs, time x 3",
        report=longer,
        refuse=drop_short_x3,
        strength=3.0,
        world="constant",
    ),
    Attack(
        "cherry-fresh",
        f"{_CHERRY}, a new identity each 20 jobs",
        refuse=drop_long,
        renew=after(20, refusals=True),
        strength=1.0,
        world="constant",
    ),
    Attack(
        "cherry-churn",
        f"{_CHERRY}, a new identity each 3 jobs or refusal",
        refuse=drop_long,
        renew=each_third,
        strength=1.0,
        world="constant",
    ),
    Attack(
        "cherry-extreme",
        "drops only jobs twice as long as estimated, new identity after each",
        refuse=drop_very_long,
        renew=each_third,
        strength=1.0,
    ),
)
