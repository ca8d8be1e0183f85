"""Apps, versions, plan classes and keys, cached in memory until they change; limits of dispatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cobblestone.domain.apps import App, AppDispatch, AppVersion, PlanClass
from cobblestone.domain.values import AppId, AppVersionId, form_of
from cobblestone.launcher import BUNDLE_FILE
from cobblestone.launcher.packing import DESCRIPTION_FILE
from cobblestone.ops.settings import SchedulerSection
from cobblestone.policy.dispatch.catalogue import Catalogue, PeakFlopCount, SpeedPopulation, gpu_fractions
from cobblestone.policy.dispatch.identity import RetiredKey
from cobblestone.policy.dispatch.limits import (
    INITIAL_PART,
    DispatchLimits,
    InProgressLimits,
    JobCap,
    RetryRules,
)
from cobblestone.store.catalog import apps
from cobblestone.store.catalog import apps as keys
from cobblestone.store.credit import credit_statistics
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts


def dispatch_limits(settings: SchedulerSection) -> DispatchLimits:
    """Return the operator's limits from the settings; those of apps come with the offer."""
    initial = settings.max_jobs_per_day_init or settings.daily_result_quota // INITIAL_PART
    return form_of(
        DispatchLimits,
        settings,
        daily_quota=settings.daily_result_quota,
        daily_quota_init=min(max(initial, 1), settings.daily_result_quota),
        first_jobs=settings.max_jobs_per_day_init or 1,
        one_result_per_user_per_wu=settings.one_result_per_user,
        project_in_progress=in_progress_limits(settings),
        retries=RetryRules(
            reliable_seconds=settings.retries_to_reliable_hosts,
            max_turnaround=settings.reliable_max_turnaround,
            delay_factor=settings.retry_delay_factor,
        ),
    )


def with_apps(limits: DispatchLimits, apps: Sequence[App]) -> DispatchLimits:
    """Return the limits with those of the apps."""
    found = {app.id: in_progress_limits(app.dispatch) for app in apps}
    no_limits = InProgressLimits()
    return replace(limits, app_in_progress={id_: each for id_, each in found.items() if each != no_limits})


def in_progress_limits(rules: SchedulerSection | AppDispatch) -> InProgressLimits:
    """Return the limits on jobs that a host holds; 0 = no limit."""
    per_cpu, per_gpu = rules.max_jobs_in_progress, rules.max_gpu_jobs_in_progress
    return InProgressLimits(
        total=rules.max_jobs_on_host or None,
        cpu=JobCap(jobs=per_cpu, per_processor=True) if per_cpu else None,
        gpu=JobCap(jobs=per_gpu, per_processor=True) if per_gpu else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The project's apps, versions, plan classes and keys."""

    catalogue: Catalogue
    limits: DispatchLimits  #: on what a host gets, of the project and of its apps
    code_sign_key: str  #: current public key, stripped text; empty: none yet
    retired_keys: tuple[RetiredKey, ...]
    counted_programs: Mapping[AppId, Mapping[AppVersionId, str]]
    """What counts its instructions, by app and app version, also those no longer in use; empty: nothing does."""


def _counted_program(version: AppVersion) -> str:
    """Return the checksum of the description of a WebAssembly module and its files; versions that share it count alike."""
    found = {file.open_name: file.md5 for file in version.files}
    return "" if BUNDLE_FILE in found else found.get(DESCRIPTION_FILE, "")


class OfferCache:
    """Reads the offer again after invalidation.  Belongs to the writer's thread; any thread may invalidate it."""

    def __init__(
        self, plan_classes: Callable[[], Mapping[str, PlanClass]], settings: SchedulerSection
    ) -> None:
        self._plan_classes = plan_classes
        self._limits = dispatch_limits(settings)
        self._offer: Offer | None = None
        self._stale = True

    def invalidate(self) -> None:
        """Mark apps, versions, plan classes or keys as changed."""
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
        every = {app.id: list[AppVersion]() for app in found}
        for version in apps.list_versions(db, deprecated=True):
            if version.app_id in every:  # else its app cannot be read
                every[version.app_id].append(version)
        versions = {
            app.id: tuple(
                each for each in every[app.id] if app.dispatch.homogeneous_app_version or not each.deprecated
            )
            for app in found
        }
        all_versions = [version for of_app in every.values() for version in of_app]
        statistics = credit_statistics.version_statistics(db, [version.id for version in all_versions])
        counts = {id_: PeakFlopCount(n=known.pfc.n, avg=known.pfc.mean) for id_, known in statistics.items()}
        plan_classes = self._plan_classes()
        current = next((key.public_key for key in signing if key.is_current), "")
        return Offer(
            catalogue=Catalogue(
                apps={app.id: app for app in found},
                versions=versions,
                retired=[each for each in all_versions if each.deprecated],
                plan_classes=plan_classes,
                population=SpeedPopulation.of(hosts.proven_speeds(db)),
                peak_flop_counts=counts,
                gpu_fractions=gpu_fractions(all_versions, counts, plan_classes),
            ),
            limits=with_apps(self._limits, found),
            code_sign_key=current,
            retired_keys=tuple(
                RetiredKey(key=key.public_key, signature=key.successor_signature)
                for key in signing
                if not key.is_current and key.successor_signature
            ),
            counted_programs={
                app_id: {each.id: _counted_program(each) for each in of_app}
                for app_id, of_app in every.items()
            },
        )
