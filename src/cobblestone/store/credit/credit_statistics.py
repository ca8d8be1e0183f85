"""Statistics that credit systems learn of apps and app versions, and the scales of versions for export.

Scales of app versions: read for exports, written when published ones are applied.

Where the database does not hold statistics of versions yet, nothing is known and nothing can be set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cobblestone.domain.statistics import RecentAverage, RunningAverage
from cobblestone.domain.values import AppId, AppVersionId
from cobblestone.policy.credit.claims import AppIncrement, AppStatistics, VersionStatistics
from cobblestone.store.averages import RECENT, running_average
from cobblestone.store.credit.app_credit import meta, set_meta
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

_SCALES_TIME = "version_scales_time"
_APPS = RowMapper(
    AppStatistics,
    {
        "counted": RowMapper(
            AppIncrement,
            {
                "benchmark_credit": "counted_benchmark_credit",
                "cpu_seconds": "counted_cpu_seconds",
                "jobs": "counted_jobs",
            },
        )
    },
)
_SAVED_APP = _APPS.writer(without=("min_avg_pfc", "host_scale_check", "credit_per_cpu_second"))
_VERSIONS = RowMapper(VersionStatistics, {"pfc": running_average("pfc")})
_SAVED_VERSION = _VERSIONS.writer(without=("pfc_scale",))


def app_statistics(db: Database, app_ids: Sequence[AppId]) -> dict[AppId, AppStatistics]:
    """Return the statistics of apps, and their credit options."""
    found: dict[AppId, AppStatistics] = {}
    for row in db.query_in(f"SELECT {_APPS.columns}, id FROM app WHERE id IN (??)", app_ids):
        app = _APPS.load(row)
        found[AppId(row[-1])] = app if app.counted and app.counted.jobs else replace(app, counted=None)
    return found


def save_app_statistics(tx: Transaction, changed: Mapping[AppId, AppStatistics]) -> None:
    """Store the sums and scale of the second system."""
    tx.execute_many(
        _SAVED_APP.update("app"),
        [(*_SAVED_APP.values(app), app_id) for app_id, app in changed.items() if app.counted is not None],
    )


def version_statistics(
    db: Database, version_ids: Sequence[AppVersionId]
) -> dict[AppVersionId, VersionStatistics]:
    """Return the statistics of app versions over all hosts."""
    rows = db.query_in(f"SELECT {_VERSIONS.columns}, id FROM app_version WHERE id IN (??)", version_ids)
    return {AppVersionId(row[-1]): _VERSIONS.load(row) for row in rows}


def apps_of_versions(db: Database) -> dict[AppVersionId, AppId]:
    """Return the app of each version."""
    rows = db.query("SELECT id, app_id FROM app_version")
    return {AppVersionId(version_id): AppId(app_id) for version_id, app_id in rows}


def save_version_statistics(tx: Transaction, changed: Mapping[AppVersionId, VersionStatistics]) -> None:
    """Store the means of app versions."""
    tx.execute_many(
        _SAVED_VERSION.update("app_version"),
        [(*_SAVED_VERSION.values(version), version_id) for version_id, version in changed.items()],
    )


def save_min_avg_pfc(tx: Transaction, app_id: AppId, average: float) -> None:
    """Store the mean of an app's more efficient kind of versions."""
    tx.change("app", app_id, min_avg_pfc=average)


def seconds_since_scales(tx: Transaction, *, now: float) -> float:
    """Return the seconds since the last call, at first 0: how far scales may have moved since; never negative."""
    before = meta(tx, _SCALES_TIME)
    set_meta(tx, _SCALES_TIME, repr(now))
    return 0.0 if before is None else max(0.0, now - float(before))


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
        "app_name": "a.name",
        "credit_system": "a.credit_system",
        **{name: f"v.{name}" for name in ("app_id", "platform", "version_num", "plan_class")},
        "recent": RECENT.embedded("v"),
        "pfc": running_average("pfc").embedded("v"),
        "scale": "v.pfc_scale",
    },
)


def scales_in_use(db: Database, *, deprecated: bool = False) -> list[StoredScale]:
    """Return versions in use, the newest of each app, platform and plan class, by app; ``deprecated``: also of such apps."""
    return db.load(
        _SCALES,
        "app_version v JOIN app a ON a.id = v.app_id"
        " WHERE v.deprecated = 0 AND a.deprecated <= ? AND NOT EXISTS (SELECT 1 FROM app_version newer"
        " WHERE newer.app_id = v.app_id AND newer.platform = v.platform AND newer.plan_class = v.plan_class"
        " AND newer.deprecated = 0 AND newer.version_num > v.version_num) ORDER BY a.name, v.platform, v.plan_class",
        (int(deprecated),),
    )


def set_scales(
    tx: Transaction, scales: Mapping[AppVersionId, float], *, min_avg_pfc: Mapping[AppId, float]
) -> int:
    """Set scales of versions, and the smallest average of apps; return how many versions changed."""
    changed = tx.execute_each(
        "UPDATE app_version SET pfc_scale = ? WHERE id = ? AND pfc_scale <> ?",
        [(scale, version_id, scale) for version_id, scale in scales.items()],
    )
    for app_id, average in min_avg_pfc.items():
        save_min_avg_pfc(tx, app_id, average)
    tx.wake("catalogue")
    return sum(changed)
