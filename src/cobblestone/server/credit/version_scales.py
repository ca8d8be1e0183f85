"""Scales of app versions, from what their results claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cobblestone.policy.credit.cross_project import applied_scales
from cobblestone.policy.credit.registry import find_scales
from cobblestone.policy.dispatch.plan_class import is_gpu_class
from cobblestone.server.core.offer import OfferCache
from cobblestone.store.catalog import apps
from cobblestone.store.credit import credit_statistics
from cobblestone.store.engine.database import Transaction


def update_scales(
    tx: Transaction, *, offers: OfferCache, published: Mapping[str, float] | None = None, now: float
) -> int:
    """Set the scales of all apps' current versions anew; how many changed.

    Apps with GPU versions only keep to the ``published`` scales of their plan classes that were applied, if any.

    Dispatch reads the means of versions again, since run-time estimates use them.
    """
    tx.lock("app_version", [version.id for version in apps.list_versions(tx)])
    plan_classes = offers.get(tx).catalogue.plan_classes
    systems = {app.id: app.credit_system for app in apps.list_apps(tx)}
    averages = credit_statistics.app_statistics(tx, sorted(systems))
    elapsed = credit_statistics.seconds_since_scales(tx, now=now)
    changed = 0
    for app_id, versions in credit_statistics.current_versions(tx).items():
        records = [
            replace(record, is_gpu=is_gpu_class(record.plan_class, plan_classes)) for record, _ in versions
        ]
        found = applied_scales(records, published or {}) or find_scales(
            systems[app_id], records, previous=averages[app_id].min_avg_pfc, elapsed=elapsed
        )
        before = {record.app_version_id: scale for record, scale in versions}
        new = [(id_, scale) for id_, scale in found.scales.items() if scale != before[id_]]
        credit_statistics.save_scales(tx, new)
        if found.min_avg_pfc is not None:
            credit_statistics.save_min_avg_pfc(tx, app_id, found.min_avg_pfc)
        changed += len(new)
    tx.wake(apps.CATALOGUE_CHANGED)
    return changed
