"""Forged results: outputs that were not computed, handed in where they are likely to pass."""

from __future__ import annotations

from cobblestone.credit_lab.attacks.acts import Act, Attack, Seen


def always(seen: Seen, act: Act, strength: float) -> None:
    """Forge every result."""
    act.forged = True


def after_trust(seen: Seen, act: Act, strength: float) -> None:
    """Forge everything from the ``strength``th valid result on."""
    act.forged = seen.trusted >= strength


def once_caught(seen: Seen, strength: float) -> int:
    """Begin again when a result was found wrong."""
    return seen.caught > 0


def when_alone(seen: Seen, act: Act, strength: float) -> None:
    """Forge what the server shows to be given to nobody else, once it is trusted."""
    act.forged = seen.alone and seen.passes >= strength


def some(seen: Seen, act: Act, strength: float) -> None:
    """Forge a random share of the results."""
    act.forged = seen.draw < strength


def first_replica(seen: Seen, act: Act, strength: float) -> None:
    """Forge where it is the first to get the job."""
    act.forged = seen.first and seen.trusted >= strength


def after_release(seen: Seen, act: Act, strength: float) -> None:
    """Forge the ``strength`` jobs after each passed check, once 50 results were valid in a row."""
    act.forged = seen.trusted >= 50 and seen.since_pass < strength


def _forger(name: str, about: str, **more: object) -> Attack:
    return Attack(name, about, **({"lasting": True, "quorums": (1,)} | more))  # type: ignore[arg-type]  # by name


ATTACKS = (
    _forger("forge-all", "forges everything", report=always, quorums=(2, 1)),
    _forger(
        "forge-trusted",
        "forges after 10 valid results until caught, then a new identity",
        report=after_trust,
        strength=10.0,
        renew=once_caught,
    ),
    _forger("forge-alone", "forges when the server shows that it is alone", report=when_alone, strength=10.0),
    _forger("forge-first", "forges as the first replica", report=first_replica, strength=10.0),
    _forger("forge-10", "forges 10 % of the jobs", report=some, strength=0.1),
    _forger("forge-20", "forges 20 % of the jobs", report=some, strength=0.2),
    _forger("forge-50", "forges half of the jobs", report=some, strength=0.5),
    _forger(
        "long-con", "forges after 100 valid results", report=after_trust, strength=100.0, renew=once_caught
    ),
    _forger("forge-1-after", "forges 1 job after each passed check", report=after_release, strength=1.0),
    _forger("forge-3-after", "forges 3 jobs after each passed check", report=after_release, strength=3.0),
    _forger("forge-10-after", "forges 10 jobs after each passed check", report=after_release, strength=10.0),
)
