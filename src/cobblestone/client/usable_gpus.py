"""Which of the GPUs that were found may be used, by ``cc_config.xml`` and by what the volunteer has switched off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cobblestone.domain.computing import ClientConfig
from cobblestone.domain.values import changed
from cobblestone.policy.client.core.values import Gpu
from cobblestone.wire.host_report import CoprocRequest

ALL = -1


def usable_coprocs(found: Sequence[CoprocRequest], config: ClientConfig) -> tuple[CoprocRequest, ...]:
    """Return the GPUs that projects are told of: without those that are to be ignored."""
    if config.no_gpus:
        return ()
    usable: list[CoprocRequest] = []
    for each in found:
        if config.no_opencl and each.type != "NVIDIA":
            continue  # only OpenCL knows of it
        count = each.count - len(_ignored(each, config))
        if count > 0:
            usable.append(changed(each, count=count, have_opencl=each.have_opencl and not config.no_opencl))
    return tuple(usable)


def _ignored(coproc: CoprocRequest, config: ClientConfig) -> set[int]:
    every = set(range(coproc.count))
    numbers = config.ignore_gpus.get(coproc.type, frozenset())
    return every if ALL in numbers else every & numbers


def gpus_in_use(
    found: Sequence[CoprocRequest], config: ClientConfig, switched_off: Mapping[str, Sequence[int]]
) -> tuple[Gpu, ...]:
    """Return the GPUs that jobs may have; instances that are ignored keep their numbers, and are never used."""
    told = {each.type for each in usable_coprocs(found, config)}
    gpus: list[Gpu] = []
    for each in found:
        if each.type not in told:
            continue
        off = {*_ignored(each, config), *switched_off.get(each.type, ())}
        wished = config.suspended_gpus.get(each.type, frozenset())
        off |= set(range(each.count)) if ALL in wished else wished
        gpus.append(
            Gpu(
                name=each.type,
                count=each.count,
                peak_flops=max(1e9, each.peak_flops),
                suspended=tuple(sorted(off)),
            )
        )
    return tuple(gpus)
