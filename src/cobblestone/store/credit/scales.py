"""Scales of app versions: read for exports, written when published ones are applied.

Where the database does not hold statistics of versions yet, nothing is known and nothing can be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cobblestone.domain.errors import StoreError
from cobblestone.domain.ids import AppId, AppVersionId
from cobblestone.domain.statistics import RecentAverage, RunningAverage
from cobblestone.store.engine.database import Database, Transaction

MAX_VERSIONS = 5_000
_STATISTICS = ("pfc_n", "pfc_avg", "pfc_scale")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredScale:
    """Credit statistics of one app version in use."""

    app_version_id: AppVersionId
    app_id: AppId
    app_name: str
    credit_system: str
    platform: str
    version_num: int
    plan_class: str
    recent: RecentAverage
    pfc: RunningAverage
    scale: float  #: 0: not known


def has_scales(db: Database) -> bool:
    """Whether the database holds statistics of versions."""
    return set(_STATISTICS) <= set(db.columns("app_version"))


def scales_in_use(db: Database) -> list[StoredScale]:
    """Versions that are given out, the newest of each app, platform and plan class, by app."""
    statistics = ", ".join(f"v.{name}" for name in _STATISTICS) if has_scales(db) else "0, 0.0, 0.0"
    rows = db.query(
        "SELECT v.id, v.app_id, a.name, a.credit_system, v.platform, v.version_num, v.plan_class, v.expavg_credit,"
        f" v.expavg_time, {statistics} FROM app_version v JOIN app a ON a.id = v.app_id"
        " WHERE v.deprecated = 0 AND a.deprecated = 0 AND NOT EXISTS (SELECT 1 FROM app_version newer"
        " WHERE newer.app_id = v.app_id AND newer.platform = v.platform AND newer.plan_class = v.plan_class"
        " AND newer.deprecated = 0 AND newer.version_num > v.version_num)"
        " ORDER BY a.name, v.platform, v.plan_class LIMIT ?",
        (MAX_VERSIONS,),
    )
    return [
        StoredScale(
            app_version_id=AppVersionId(row[0]),
            app_id=AppId(row[1]),
            app_name=row[2],
            credit_system=row[3],
            platform=row[4],
            version_num=row[5],
            plan_class=row[6],
            recent=RecentAverage(row[7], row[8]),
            pfc=RunningAverage(int(row[9] or 0), row[10] or 0.0),
            scale=row[11] or 0.0,
        )
        for row in rows
    ]


def set_scales(
    tx: Transaction, scales: Mapping[AppVersionId, float], *, min_avg_pfc: Mapping[AppId, float]
) -> int:
    """Set scales of versions, and the smallest average of apps; how many versions changed.

    Raises StoreError when the database has no place for them.
    """
    if not scales:
        return 0
    if not has_scales(tx):
        raise StoreError(
            "This project's database does not hold scales of app versions. Upgrade the server first."
        )
    changed = tx.execute_each(
        "UPDATE app_version SET pfc_scale = ? WHERE id = ? AND pfc_scale <> ?",
        [(scale, version_id, scale) for version_id, scale in scales.items()],
    )
    if "min_avg_pfc" in tx.columns("app"):
        tx.execute_many(
            "UPDATE app SET min_avg_pfc = ? WHERE id = ?",
            [(average, app_id) for app_id, average in min_avg_pfc.items()],
        )
    tx.wake("catalogue")
    return sum(changed)
