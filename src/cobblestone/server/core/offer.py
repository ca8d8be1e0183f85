"""Apps, versions, plan classes and keys, kept in memory until something of them changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cobblestone.domain.apps import PlanClass
from cobblestone.ops.settings import SchedulerSection
from cobblestone.policy.dispatch.catalogue import Catalogue
from cobblestone.policy.dispatch.key_exchange import RetiredKey
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.estimate.speed import PeakFlopCount, SpeedPopulation
from cobblestone.server.core.dispatch_limits import dispatch_limits, with_apps
from cobblestone.store.catalog import apps, keys
from cobblestone.store.credit import credit_statistics
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What the project has to offer, and how it signs."""

    catalogue: Catalogue
    limits: DispatchLimits  #: on what a host gets, of the project and of its apps
    code_sign_key: str  #: current public key, stripped text; empty: none yet
    retired_keys: tuple[RetiredKey, ...]


class OfferCache:
    """Reads the offer again after it was invalidated.  Belongs to the writer's thread; any thread may invalidate it."""

    def __init__(
        self, plan_classes: Callable[[], Mapping[str, PlanClass]], settings: SchedulerSection
    ) -> None:
        self._plan_classes = plan_classes
        self._limits = dispatch_limits(settings)
        self._offer: Offer | None = None
        self._stale = True

    def invalidate(self) -> None:
        """Apps, versions, plan classes or keys changed."""
        self._stale = True

    def get(self, db: Database) -> Offer:
        """Return the current offer."""
        if self._offer is None or self._stale:
            self._stale = False  # before it is read: what changes meanwhile is read next time
            self._offer = None
            self._offer = self._load(db)
        return self._offer

    def _load(self, db: Database) -> Offer:
        found = apps.list_apps(db)
        signing = keys.list_keys(db)
        # A job that is committed to a version keeps it, also when it was superseded meanwhile.
        versions = {
            app.id: tuple(apps.list_versions(db, app.id, deprecated=app.dispatch.homogeneous_app_version))
            for app in found
        }
        statistics = credit_statistics.version_statistics(
            db, [version.id for of_app in versions.values() for version in of_app]
        )
        median, percentile_95 = hosts.speed_percentiles(db)
        current = next((key.public_key for key in signing if key.is_current), "")
        return Offer(
            catalogue=Catalogue(
                apps={app.id: app for app in found},
                versions=versions,
                plan_classes=self._plan_classes(),
                population=SpeedPopulation(median=median, percentile_95=percentile_95),
                peak_flop_counts={
                    id_: PeakFlopCount(n=known.pfc.n, avg=known.pfc.mean) for id_, known in statistics.items()
                },
            ),
            limits=with_apps(self._limits, found),
            code_sign_key=current,
            retired_keys=tuple(
                RetiredKey(key=key.public_key, signature=key.successor_signature)
                for key in signing
                if not key.is_current and key.successor_signature
            ),
        )
