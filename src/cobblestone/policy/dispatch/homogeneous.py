"""Homogeneous redundancy: classes of hosts that compute alike to the last bit.

Programs that round differently on different machines cannot be compared bit by bit, so all results of a workunit go to
hosts of one class.  The first host decides which; if every result fails, the workunit is free again
(`cobblestone.policy.lifecycle.transition`).

A class is a number: operating system + kind of processor.  Source of the numbers of systems and of coarse kinds: BOINC's
``hr_info`` (facts).  Differences: ARM counts on every system, so Apple Silicon and Android have classes; the processor
families of the fine classes are our own list, since the family's ends with the processors of 2010.
"""

from __future__ import annotations

from functools import lru_cache

from cobblestone.domain.hosts import HostDescription
from cobblestone.domain.states import HomogeneousRedundancy

UNKNOWN = 0

_SYSTEMS = (
    ("linux", 256),
    ("windows", 384),
    ("darwin", 512),
    ("freebsd", 640),
    ("android", 768),
)
_INTEL_AMD, _POWERPC, _ARM = 2, 4, 22

_ARM_WORDS = ("arm", "aarch64", "apple", "cortex", "neoverse", "qualcomm", "snapdragon", "exynos", "kirin")
_POWERPC_WORDS = ("powerpc", "power macintosh", "ppc", "power8", "power9", "power10")

# The first word that occurs decides.  Numbers below 100 never change their meaning: workunits are committed to them.
_FAMILIES: tuple[tuple[str, int], ...] = (
    ("xeon", 30),
    ("core(tm)2", 31),
    ("core 2", 31),
    ("core(tm)", 32),
    ("core ultra", 32),
    ("atom", 33),
    ("celeron", 34),
    ("pentium(r) 4", 35),
    ("pentium 4", 35),
    ("pentium iii", 36),
    ("pentium ii", 37),
    ("pentium(r) d", 38),
    ("pentium", 39),
    ("threadripper", 50),
    ("ryzen", 50),
    ("epyc", 51),
    ("opteron", 52),
    ("phenom", 53),
    ("athlon", 54),
    ("sempron", 55),
    ("turion", 56),
    ("fx(tm)", 57),
    ("intel", 70),
    ("amd", 71),
)


def hr_class(description: HostDescription, kind: HomogeneousRedundancy) -> int:
    """Return the host's class, or `UNKNOWN` when its system or processor is not known (such hosts get no such jobs)."""
    if kind is HomogeneousRedundancy.NONE:
        return UNKNOWN
    fine = kind is HomogeneousRedundancy.FINE
    return _class(description.os_name, description.p_vendor, description.p_model, fine)


@lru_cache(maxsize=4096)
def _class(os_name: str, vendor: str, model: str, fine: bool) -> int:
    system = next((number for word, number in _SYSTEMS if word in os_name.lower()), UNKNOWN)
    processor = f"{vendor} {model}".lower()
    kind = _fine_kind(processor) if fine else _coarse_kind(processor)
    return system + kind if system and kind else UNKNOWN


def _coarse_kind(processor: str) -> int:
    if "intel" in processor or "amd" in processor:
        return _INTEL_AMD
    if any(word in processor for word in _POWERPC_WORDS):
        return _POWERPC
    return _ARM if any(word in processor for word in _ARM_WORDS) else UNKNOWN


def _fine_kind(processor: str) -> int:
    coarse = _coarse_kind(processor)
    if coarse != _INTEL_AMD:
        return coarse
    return next(number for word, number in _FAMILIES if word in processor)
