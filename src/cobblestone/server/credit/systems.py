"""The credit systems that an app may name: built-in ones, and those of installed packages."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import entry_points

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.credit.credit_new import DeployedSystem
from cobblestone.policy.credit.registry import ENTRY_POINT_GROUP, credit_system, credit_system_names
from cobblestone.policy.credit.system import CreditSystem


@lru_cache(maxsize=64)
def find_system(name: str) -> CreditSystem:
    """Return a built-in credit system, or one from an installed package.

    Raises:
        ConfigError: there is none of that name; the text lists those that there are.
    """
    try:
        return credit_system(
            name or DeployedSystem().name
        )  # what an app stored without a name has always had
    except ConfigError:
        for entry in entry_points(group=ENTRY_POINT_GROUP, name=name):
            system: CreditSystem = entry.load()()
            return system
        known = ", ".join(system_names())
        raise ConfigError(f"credit system {name!r}: no such system; known are {known}") from None


def system_names() -> tuple[str, ...]:
    """Return the names of the built-in systems and of those from installed packages."""
    own = {entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)}
    return tuple(sorted({*credit_system_names(), *own}))
