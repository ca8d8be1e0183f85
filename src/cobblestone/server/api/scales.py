"""Published scales for versions of apps without CPU versions."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.domain.scales import LARGEST_SCALE, SMALLEST_SCALE
from cobblestone.server.api.routing import LARGE_BODY, Call, Endpoint, Line, Model, Nothing, Reply
from cobblestone.server.credit.cross_project_scales import ScaleChange, apply_scales
from cobblestone.store.people.tokens import Scope

MAX_CLASSES = 5_000
Scale = Annotated[float, msgspec.Meta(ge=SMALLEST_SCALE, le=LARGEST_SCALE)]


class PublishedScales(Model):
    """Scale by plan class."""

    scales: Annotated[dict[Line, Scale], msgspec.Meta(max_length=MAX_CLASSES)]
    dry_run: bool = False  # only say what would change


class ScaleReply(Reply):
    """A version of an app that has GPU versions only."""

    app: str
    credit_system: str
    version_num: int
    platform: str
    plan_class: str
    old_scale: float | None  # null: had none
    new_scale: float | None  # null: nothing is published for its plan class
    changed: bool


class ScalesReply(Reply):
    """What was done, or would be."""

    versions: list[ScaleReply]
    n_other_versions: int  # of apps with CPU versions
    dry_run: bool


def _reply(change: ScaleChange) -> ScaleReply:
    version = change.version
    return ScaleReply(
        app=version.app_name,
        credit_system=version.credit_system,
        version_num=version.version_num,
        platform=version.platform,
        plan_class=version.plan_class,
        old_scale=version.scale or None,
        new_scale=change.new_scale,
        changed=change.changes,
    )


async def apply_published(call: Call[PublishedScales, Nothing]) -> ScalesReply:
    """Set the scales of GPU-only versions."""
    plan = await apply_scales(call.ctx, call.body.scales, dry_run=call.body.dry_run)
    return ScalesReply(
        versions=[_reply(change) for change in plan.changes],
        n_other_versions=plan.n_other_versions,
        dry_run=call.body.dry_run,
    )


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/scales",
        summary="Apply published scales to GPU-only apps",
        description="Sets the scale of each version of the apps that have GPU versions only, by plan class."
        " Doing it twice changes nothing more.",
        handler=apply_published,
        body=PublishedScales,
        query=Nothing,
        reply=ScalesReply,
        scope=Scope.MANAGE,
        tag="project",
        max_body=LARGE_BODY,
        problems=(503,),
    ),
)
