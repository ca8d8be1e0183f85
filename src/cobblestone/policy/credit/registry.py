"""Names of the credit systems."""

from __future__ import annotations

from cobblestone.policy.credit.system import CreditSystem


def credit_system(name: str) -> CreditSystem:
    """The built-in system of this name; raises `ConfigError` for an unknown one."""
    raise NotImplementedError


def credit_system_names() -> tuple[str, ...]:
    """Names of the built-in systems."""
    raise NotImplementedError
