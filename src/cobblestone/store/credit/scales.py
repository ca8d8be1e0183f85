"""Scales of app versions: read for exports, written when published ones are applied.

Where the database does not hold statistics of versions yet, nothing is known and nothing can be set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cobblestone.domain.ids import AppId, AppVersionId
from cobblestone.domain.statistics import RecentAverage, RunningAverage
from cobblestone.store.averages import RECENT, running_average
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

MAX_VERSIONS = 5_000


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


_SCALES = RowMapper(
    StoredScale,
    {
        "app_version_id": "v.id",
        "app_id": "v.app_id",
        "app_name": "a.name",
        "credit_system": "a.credit_system",
        "platform": "v.platform",
        "version_num": "v.version_num",
        "plan_class": "v.plan_class",
        "recent": RECENT.embedded("v"),
        "pfc": running_average("pfc").embedded("v"),
        "scale": "v.pfc_scale",
    },
)


def scales_in_use(db: Database) -> list[StoredScale]:
    """Versions that are given out, the newest of each app, platform and plan class, by app."""
    rows = db.query(
        f"SELECT {_SCALES.columns} FROM app_version v JOIN app a ON a.id = v.app_id"
        " WHERE v.deprecated = 0 AND a.deprecated = 0 AND NOT EXISTS (SELECT 1 FROM app_version newer"
        " WHERE newer.app_id = v.app_id AND newer.platform = v.platform AND newer.plan_class = v.plan_class"
        " AND newer.deprecated = 0 AND newer.version_num > v.version_num)"
        " ORDER BY a.name, v.platform, v.plan_class LIMIT ?",
        (MAX_VERSIONS,),
    )
    return [_SCALES.load(row) for row in rows]


def set_scales(
    tx: Transaction, scales: Mapping[AppVersionId, float], *, min_avg_pfc: Mapping[AppId, float]
) -> int:
    """Set scales of versions, and the smallest average of apps; return how many versions changed."""
    if not scales:
        return 0
    changed = tx.execute_each(
        "UPDATE app_version SET pfc_scale = ? WHERE id = ? AND pfc_scale <> ?",
        [(scale, version_id, scale) for version_id, scale in scales.items()],
    )
    tx.execute_many(
        "UPDATE app SET min_avg_pfc = ? WHERE id = ?",
        [(average, app_id) for app_id, average in min_avg_pfc.items()],
    )
    tx.wake("catalogue")
    return sum(changed)
