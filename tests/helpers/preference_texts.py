"""Project preferences as the pages of a project write them."""

from __future__ import annotations

from cobblestone.domain.people import ProjectPreferences
from cobblestone.wire.project.preferences import ProjectSet, write_project


def preferences_text(general: ProjectPreferences, **venues: ProjectPreferences) -> str:
    """The stored text of these choices, with others for single venues."""
    return write_project({"": _set_of(general), **{name: _set_of(each) for name, each in venues.items()}})


def _set_of(chosen: ProjectPreferences) -> ProjectSet:
    return ProjectSet(
        resource_share=chosen.resource_share,
        app_ids=frozenset(map(int, chosen.selected_apps)),
        allow_non_preferred_apps=chosen.allow_non_preferred,
        allow_beta_work=chosen.allow_beta,
        no_cpu=chosen.no_cpu,
        no_cuda="NVIDIA" in chosen.no_gpu_types,
        no_ati="ATI" in chosen.no_gpu_types,
        no_intel_gpu="intel_gpu" in chosen.no_gpu_types,
        max_jobs=chosen.max_jobs,
        max_cpus=chosen.max_cpus,
    )
