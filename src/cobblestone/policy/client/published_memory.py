"""What the published family remembers; stored with the client's state."""

from __future__ import annotations

from dataclasses import dataclass, field

from cobblestone.policy.client.debt_accounting import DebtMemory


@dataclass(slots=True)
class PublishedMemory:
    """What the policy remembers."""

    dcf: list[float] = field(default_factory=list[float])
    misses: list[int] = field(default_factory=list[int])  #: as of the last simulation
    trouble: list[int] = field(default_factory=list[int])  #: misses as of the last enforcement
    shortfalls: list[float] = field(default_factory=list[float])
    debts: DebtMemory = field(default_factory=DebtMemory)
