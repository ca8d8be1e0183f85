"""Published scales for versions of apps without CPU versions."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema import credit as schema
from cobblestone.domain.people import Scope
from cobblestone.domain.scales import LARGEST_SCALE, SMALLEST_SCALE
from cobblestone.server.api.routing import LARGE_BODY, Call, endpoint
from cobblestone.server.credit.cross_project_scales import ScaleChange, apply_scales

MAX_CLASSES = 5_000
Scale = Annotated[float, msgspec.Meta(ge=SMALLEST_SCALE, le=LARGEST_SCALE)]


def _reply(change: ScaleChange) -> schema.VersionScaleChange:
    version = change.version
    return schema.VersionScaleChange(
        app=version.app_name,
        credit_system=version.credit_system,
        version_num=version.version_num,
        platform=version.platform,
        plan_class=version.plan_class,
        old_scale=version.scale or None,
        new_scale=change.new_scale,
        changed=change.changes,
    )


@endpoint("POST", "/scales", scope=Scope.MANAGE, tag="project", max_body=LARGE_BODY, problems=(503,))
async def apply_published(call: Call, body: schema.PublishedScales) -> schema.AppliedScales:
    """Apply published scales to GPU-only apps.

    Sets the scale of each version of the apps that have GPU versions only, by plan class. Doing it twice changes
    nothing more.
    """
    plan = await apply_scales(call.ctx, body.scales, dry_run=body.dry_run)
    return schema.AppliedScales(
        versions=[_reply(change) for change in plan.changes],
        n_other_versions=plan.n_other_versions,
        dry_run=body.dry_run,
    )
