"""Scales of app versions: from the project's own results, and across projects.

Cross-project scales on a project's side: what it exports, and published scales that it takes.

``scales.xml`` and ``scales.json`` are public, because the central service and the curious need no account.  Published
scales that were applied are kept in the project's folder: whatever recomputes scales later asks `kept_scales`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.errors import ConfigError, RemoteProtocolError
from cobblestone.domain.exports import ProjectScales, PublishedScale, VersionScale
from cobblestone.domain.values import AppId, AppVersionId, form_of
from cobblestone.ops.files import write_durably
from cobblestone.policy.credit.cross_project import applied_scales
from cobblestone.policy.credit.rac import decayed
from cobblestone.policy.credit.registry import find_scales
from cobblestone.policy.credit.scales import VersionRecord, VersionScales
from cobblestone.policy.dispatch.versions import is_gpu_class
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.offer import OfferCache
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.core.project import ProjectFolder
from cobblestone.service.context import CachedRead
from cobblestone.service.http.requests import OPEN_HEADERS
from cobblestone.store.catalog import apps
from cobblestone.store.credit import credit_statistics
from cobblestone.store.credit.credit_statistics import StoredScale
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.wire.project import scales as wire

KEPT_FILE = "published_scales.json"
MAX_VERSIONS = 5_000


def uses_gpu(ctx: ServerContext) -> Callable[[str], bool]:
    """Return whether versions of a plan class use a GPU."""
    plan_classes = load_plan_classes(ctx.folder.root)
    return lambda name: is_gpu_class(name, plan_classes)


# -- what the project exports ----------------------------------------------------------------------------


class ScaleExport:
    """The endpoints ``scales.xml`` and ``scales.json``."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._exported = CachedRead(ctx, self._read)

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/scales.xml", self._answer(wire.write_project_scales_xml, "text/xml")),
            Route("/scales.json", self._answer(wire.write_project_scales_json, "application/json")),
        ]

    def _answer(self, write: Callable[[ProjectScales], bytes], media_type: str) -> Callable[..., object]:
        async def endpoint(request: Request) -> Response:
            return Response(write(await self._exported.get()), media_type=media_type, headers=OPEN_HEADERS)

        return endpoint

    def _read(self, db: Database) -> ProjectScales:
        now = self._ctx.clock()
        settings = self._ctx.settings
        found = credit_statistics.scales_in_use(db)[:MAX_VERSIONS]
        is_gpu = uses_gpu(self._ctx)
        with_cpu = {version.app_id for version in found if not is_gpu(version.plan_class)}
        return ProjectScales(
            name=settings.project.name,
            master_url=settings.project.url,
            credit_per_gflops_day=settings.credit.per_gflops_day,
            time=now,
            versions=tuple(
                form_of(
                    VersionScale,
                    version,
                    expavg_credit=decayed(version.recent, now),
                    pfc_scale=version.scale,
                    measured=version.app_id in with_cpu,
                )
                for version in found
            ),
        )


# -- what it takes from others ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleChange:
    """The effect of published scales on one version of a GPU-only app."""

    version: StoredScale
    new_scale: float | None  #: None: nothing is published for its plan class

    @property
    def changes(self) -> bool:
        """Return whether the version gets another scale."""
        return self.new_scale is not None and self.new_scale != self.version.scale


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalePlan:
    """All versions of GPU-only apps, and the resulting smallest averages."""

    changes: tuple[ScaleChange, ...]
    min_avg_pfc: Mapping[AppId, float]
    n_other_versions: int  #: of apps with CPU versions: they are compared within the app

    def new_scales(self) -> dict[AppVersionId, float]:
        """Return the scales to be set."""
        return {
            change.version.app_version_id: change.new_scale
            for change in self.changes
            if change.new_scale is not None
        }


def plan_scales(db: Database, is_gpu: Callable[[str], bool], published: Mapping[str, float]) -> ScalePlan:
    """Find the versions of GPU-only apps and the scales that they should have."""
    changes: list[ScaleChange] = []
    smallest: dict[AppId, float] = {}
    n_other = 0
    for versions, records in _by_app(credit_statistics.scales_in_use(db), is_gpu):
        if not all(record.is_gpu for record in records):
            n_other += len(versions)
            continue
        found = applied_scales(records, published) or VersionScales()
        if found.min_avg_pfc is not None:
            smallest[versions[0].app_id] = found.min_avg_pfc
        changes += [
            ScaleChange(version=each, new_scale=found.scales.get(each.app_version_id)) for each in versions
        ]
    return ScalePlan(changes=tuple(changes), min_avg_pfc=smallest, n_other_versions=n_other)


def _by_app(
    found: Iterable[StoredScale], is_gpu: Callable[[str], bool]
) -> Iterator[tuple[list[StoredScale], list[VersionRecord]]]:
    """Yield the versions of each app, and their records."""
    for _, group in groupby(found, key=lambda version: version.app_id):
        versions = list(group)
        yield versions, [form_of(VersionRecord, each, is_gpu=is_gpu(each.plan_class)) for each in versions]


async def apply_scales(ctx: ServerContext, published: Mapping[str, float], *, dry_run: bool) -> ScalePlan:
    """Store published scales and set those of GPU-only versions, or only return what would change.

    Raises StoreError when the database has no place for scales.
    """
    is_gpu = uses_gpu(ctx)
    if dry_run:
        return await ctx.store.aread(lambda db: plan_scales(db, is_gpu, published))
    keep_scales(ctx.folder, published)

    def write(tx: Transaction) -> ScalePlan:
        plan = plan_scales(tx, is_gpu, published)
        credit_statistics.set_scales(tx, plan.new_scales(), min_avg_pfc=plan.min_avg_pfc)
        return plan

    return await ctx.store.awrite(write)


def keep_scales(folder: ProjectFolder, published: Mapping[str, float]) -> None:
    """Write the published scales to the project's folder, atomically."""
    scales = [
        PublishedScale(
            plan_class=name, scale=scale, n_projects=0, lowest=scale, highest=scale, expavg_credit=0.0
        )
        for name, scale in sorted(published.items())
    ]
    write_durably(folder.root / KEPT_FILE, wire.write_published_scales_json(scales, time=0.0))


def kept_scales(folder: ProjectFolder) -> dict[str, float]:
    """Return the published scales applied last, by plan class; empty if none ever were.

    Raises ConfigError when the file was damaged.
    """
    path = folder.root / KEPT_FILE
    try:
        return wire.parse_published_scales(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, RemoteProtocolError, json.JSONDecodeError) as error:
        text = f"{path} cannot be read: {error}. Remove it, and run `cobblestone scales apply` again."
        raise ConfigError(text) from error


def update_scales(
    tx: Transaction, *, offers: OfferCache, published: Mapping[str, float] | None = None, now: float
) -> int:
    """Update the scales of all apps' current versions; return how many changed.

    Apps with GPU versions only keep to the ``published`` scales of their plan classes that were applied, if any.

    Dispatch reads the means of versions again, since run-time estimates use them.
    """
    tx.lock("app_version", [version.id for version in apps.list_versions(tx)])
    plan_classes = offers.get(tx).catalogue.plan_classes
    stored = credit_statistics.scales_in_use(tx, deprecated=True)
    averages = credit_statistics.app_statistics(tx, sorted({version.app_id for version in stored}))
    elapsed = credit_statistics.seconds_since_scales(tx, now=now)
    scales: dict[AppVersionId, float] = {}
    smallest: dict[AppId, float] = {}
    for versions, records in _by_app(stored, lambda name: is_gpu_class(name, plan_classes)):
        app_id, system = versions[0].app_id, versions[0].credit_system
        found = applied_scales(records, published or {}) or find_scales(
            system, records, previous=averages[app_id].min_avg_pfc, elapsed=elapsed
        )
        scales |= found.scales
        if found.min_avg_pfc is not None:
            smallest[app_id] = found.min_avg_pfc
    return credit_statistics.set_scales(tx, scales, min_avg_pfc=smallest)
