"""The credit systems that an app may name: built-in ones, and those of installed packages; how an app changes to another."""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import entry_points

from cobblestone.domain.apps import App
from cobblestone.domain.errors import ConfigError
from cobblestone.policy.credit.claims import CreditUnit
from cobblestone.policy.credit.credit_new import DeployedSystem
from cobblestone.policy.credit.registry import ENTRY_POINT_GROUP, credit_system, credit_system_names
from cobblestone.policy.credit.steady import MEASURED, STEADY, factor_paid
from cobblestone.policy.credit.system import CreditSystem
from cobblestone.server.credit.ledger_accounts import LedgerAccounts, uses_ledger
from cobblestone.store.credit import credit_statistics
from cobblestone.store.engine.database import Transaction
from cobblestone.store.work.job_results import paid_lately


@lru_cache(maxsize=64)
def find_system(name: str) -> CreditSystem:
    """Return a built-in credit system, or one from an installed package.

    Raises:
        ConfigError: there is none of that name; the text lists those that there are.
    """
    try:
        # what an app stored without a name has always had
        return credit_system(name or DeployedSystem().name)
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


def change_system(tx: Transaction, before: App, after: App, *, unit: CreditUnit, now: float) -> None:
    """Let an app's jobs be worth under its new credit system what they were under the one before."""
    tx.lock("app", [after.id])
    factor = factor_paid(paid_lately(tx, after.id), unit)
    if uses_ledger(after):
        accounts = LedgerAccounts(tx, after, (), unit=unit, now=now)
        accounts.begin(0.0 if factor is None or uses_ledger(before) else factor * unit.per_flop)
        accounts.save()
        return
    if uses_ledger(before):
        accounts = LedgerAccounts(tx, before, None, unit=unit, now=now)
        factor = accounts.leave() / unit.per_flop
        accounts.save()
    if factor is not None and (uses_ledger(before) or after.credit_system in (STEADY, MEASURED)):
        credit_statistics.save_min_avg_pfc(tx, after.id, factor)
