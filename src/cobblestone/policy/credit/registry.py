"""Names of the credit systems.  A project's own systems are registered as entry points, which the server
resolves."""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.credit.claims import COMBINATIONS
from cobblestone.policy.credit.credit_new import DeployedSystem, DesignedSystem
from cobblestone.policy.credit.early_systems import (
    AssignedSystem,
    BenchmarkSystem,
    CountedSystem,
    FixedSystem,
    NoCreditSystem,
    RunTimeSystem,
)
from cobblestone.policy.credit.ledger_credit import LEDGER_RULES, LedgerSystem
from cobblestone.policy.credit.scales import VersionRecord, VersionScales, deployed_scales, designed_scales
from cobblestone.policy.credit.steady import MEASURED, STEADY, SteadySystem, steady_scales
from cobblestone.policy.credit.system import CreditSystem

#: Group in which a package announces its own system.
ENTRY_POINT_GROUP = "cobblestone.credit_systems"


def _built_in() -> dict[str, CreditSystem]:
    systems: list[CreditSystem] = [
        BenchmarkSystem(),
        BenchmarkSystem(name="benchmark-both", both=True),
        CountedSystem(),
        DesignedSystem(),
        DeployedSystem(),
        SteadySystem(),
        SteadySystem(name=MEASURED, measured=True),
        FixedSystem(),
        RunTimeSystem(),
        AssignedSystem(),
        AssignedSystem(name="after-assimilation", after_assimilation=True),
        NoCreditSystem(name="trickle"),
        NoCreditSystem(),
        *(LedgerSystem(name=name) for name in LEDGER_RULES),
    ]
    for combination in COMBINATIONS:
        systems += [
            BenchmarkSystem(name=f"benchmark:{combination}", combination=combination),
            BenchmarkSystem(name=f"benchmark-both:{combination}", combination=combination, both=True),
            CountedSystem(name=f"counted:{combination}", combination=combination),
        ]
    return {system.name: system for system in systems}


#: The built-in systems by name.
CREDIT_SYSTEMS: dict[str, CreditSystem] = _built_in()


def credit_system(name: str) -> CreditSystem:
    """Return the built-in system of this name; raises `ConfigError` for an unknown one."""
    try:
        return CREDIT_SYSTEMS[name]
    except KeyError:
        known = ", ".join(credit_system_names())
        raise ConfigError(f"credit system {name!r}: no such system; known are {known}") from None


def find_scales(
    system: str, versions: Sequence[VersionRecord], *, previous: float, elapsed: float
) -> VersionScales:
    """Scales of an app's versions by the system of this name; the deployed way unless it has its own.

    ``previous`` is the app's smallest average so far, ``elapsed`` the seconds since it was set.
    """
    if system in (STEADY, MEASURED):
        return steady_scales(versions, previous=previous, elapsed=elapsed)
    return designed_scales(versions) if system == DesignedSystem().name else deployed_scales(versions)


def credit_system_names() -> tuple[str, ...]:
    """Names of the built-in systems."""
    return tuple(sorted(CREDIT_SYSTEMS))
