"""Apps, their versions and files, and the platforms that clients name.

Platforms by the names that clients send, and which of them can start a program, as its first bytes tell.

Sources: the ELF specification (``e_ident``, ``e_machine``), Microsoft's PE format, Apple's ``mach-o/loader.h`` and ``fat.h``.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import AppId, AppVersionId
from cobblestone.domain.work import HomogeneousRedundancy, JobLimits, OutputSpec, ReplicationRules

#: Pseudo platform of versions that run wherever their interpreter does; sent as the host's own platform.
ANY_PLATFORM = "any"

#: Platform of versions that browsers compute, on the project's page; no client of the family names it.
BROWSER_PLATFORM = "wasm32-browser"

#: Seconds without a word after which a browser's jobs go to others; its page speaks every minute.
BROWSER_SILENCE = 300.0
#: Seconds after which they do in any case.
BROWSER_DELAY_BOUND = 6 * 3600.0

#: Plan class of versions that bring a container; the family knows by this word what needs Docker or Podman.
CONTAINER_CLASS = "docker"

#: Generalised ids begin here: they stand for all of a volunteer's own versions of an app on one kind of processor.
GENERALISED = 1_000_000

_KINDS = {"CPU": 2, "NVIDIA": 3, "ATI": 4, "intel_gpu": 5, "apple_gpu": 6}


def generalised_version_id(app_id: AppId, processor: str) -> AppVersionId:
    """Return the id for statistics of a volunteer's own versions: app id x 1 000 000 + kind.

    ``processor`` is ``CPU`` or a GPU type.  Source: BOINC's ``host_app_version`` (anonymous platform).
    """
    return AppVersionId(app_id * GENERALISED + _KINDS.get(processor, 3))


def is_generalised(version_id: AppVersionId) -> bool:
    """Return whether the id stands for a volunteer's own versions (anonymous platform)."""
    return version_id >= GENERALISED


def generalised_on_gpu(version_id: AppVersionId) -> bool:
    """Return whether a generalised id stands for a kind of GPU."""
    return version_id % GENERALISED > _KINDS["CPU"]


#: Of new apps that name none: what a computer reports does not decide what it gets, so that lies gain next to nothing.
DEFAULT_CREDIT_SYSTEM = "steady"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRule:
    """How two outputs are compared.

    ``kind`` is one of ``cobblestone.policy.validation.comparison``, or of an installed package; options depend on it.
    """

    kind: str = "bitwise"
    options: Mapping[str, str | float] = field(default_factory=dict[str, str | float])


@dataclass(frozen=True, slots=True, kw_only=True)
class AppDispatch:
    """Who gets the jobs of an app, and how many; 0 or False means "no rule of its own"."""

    min_version: int = 0  #: version numbers below are not used any more (100 * major + minor)
    non_cpu_intensive: bool = False  #: one job on each host at all times, beside all others
    homogeneous_redundancy: HomogeneousRedundancy = HomogeneousRedundancy.NONE
    homogeneous_app_version: bool = False  #: all results of a job use one app version
    adaptive: bool = False
    """Adaptive replication: jobs of hosts with a good record are computed once, with spot checks; jobs of others, and
    spot checks, with the app's quorum."""
    max_jobs_on_host: int = 0  #: jobs of the app on a host at a time …
    max_jobs_in_progress: int = 0  #: … those for the CPU, per CPU …
    max_gpu_jobs_in_progress: int = 0  #: … and those for GPUs, per GPU
    max_jobs_per_rpc: int = 0  #: in one reply
    #: a day, per processor, for a host that has not shown yet that it can do them
    max_jobs_per_day_init: int = 0
    locality: bool = False  #: jobs go first to hosts that have one of their sticky input files
    size_classes: tuple[float, ...] = ()
    """Speeds in FLOPS, ascending, that separate the size classes of hosts and jobs: n speeds make n + 1 classes."""
    keywords: tuple[int, ...] = ()  #: of all its jobs, with the wider ones: `cobblestone.domain.people`

    @property
    def scored(self) -> bool:
        """Return whether some jobs of the app suit a host better than others."""
        return self.locality or bool(self.size_classes)


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """A named computation and the defaults of its jobs."""

    id: AppId
    name: str
    user_friendly_name: str = ""
    deprecated: bool = False
    beta: bool = False
    comparison: ComparisonRule = ComparisonRule()
    #: ``FILE.py:function`` in the project's folder, or ``folder:PATH``; empty: kept for the batch
    assimilator: str = ""
    credit_system: str = DEFAULT_CREDIT_SYSTEM
    fixed_credit: float = 0.0  #: of a job that names no amount, under the system ``fixed``
    host_scale_check: bool = False  #: credit scales of hosts only when proven
    partial_credit: bool = False  #: trickle messages of running jobs bring provisional credit
    credit_per_cpu_second: float = 0.0  #: second system, for what cannot count; 0: from the app's own sums
    credit_function: str = ""  #: ``FILE.py:function`` in the project's folder, for the system ``assigned``
    limits: JobLimits = JobLimits()
    rules: ReplicationRules = ReplicationRules()
    dispatch: AppDispatch = AppDispatch()
    output_specs: tuple[OutputSpec, ...] = (OutputSpec(open_name="output"),)
    show_outputs: bool = False  #: volunteers may have the answers that their computers found
    create_time: float = 0.0

    @property
    def title(self) -> str:
        """Return the name shown to volunteers."""
        return self.user_friendly_name or self.name

    @property
    def rules_of_jobs(self) -> ReplicationRules:
        """Return the replication rules of new jobs: adaptive replication raises the quorum when a job is sent."""
        return replace(self.rules, min_quorum=1, target_nresults=1) if self.dispatch.adaptive else self.rules


@dataclass(frozen=True, slots=True, kw_only=True)
class AppFile:
    """A file of an app version."""

    name: str  #: physical name
    open_name: str
    nbytes: int
    md5: str
    executable: bool = False
    main_program: bool = False
    copy_file: bool = False
    signature: str = ""  #: signature text in the family's form; empty = not signed yet
    gzipped_nbytes: int | None = None  #: size of the stored ``.gz`` variant, when there is one


@dataclass(frozen=True, slots=True, kw_only=True)
class AppVersion:
    """The files of an app for one platform, version number and plan class."""

    id: AppVersionId
    app_id: AppId
    platform: str
    version_num: int  #: 100 * major + minor
    plan_class: str = ""
    deprecated: bool = False
    beta: bool = False
    api_version: str = "7.20.5"
    command_line: str = ""
    files: tuple[AppFile, ...] = ()
    min_client_version: int = 0  #: 10000 * major + 100 * minor + release
    max_client_version: int = 0  #: 0 = no limit
    rollout_fraction: float = 1.0  #: part of the hosts that may get it

    @property
    def signed(self) -> bool:
        """Return whether every file has a signature, so that clients accept it."""
        return all(file.signature for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanClass:
    """Which hosts may run a version, and with how much of which processor.

    The fields are the most used ones of the family's ``plan_class_spec.xml``; 0 or empty means "no condition".
    """

    name: str
    gpu_type: str = ""  #: ``NVIDIA``, ``ATI``, ``intel_gpu`` or ``apple_gpu``; empty = CPU only
    cpu_features: tuple[str, ...] = ()
    min_ncpus: float = 0
    max_threads: int = 1
    nthreads_command_line: bool = False  #: append ``--nthreads N``
    avg_ncpus: float = 0  #: CPUs used by a GPU version; 0 = computed
    min_gpu_ram_mb: float = 0
    min_driver_version: int = 0
    ngpus: float = 1
    projected_flops_scale: float = 1.0
    gpu_peak_flops_scale: float = 1.0
    cpu_frac: float = 0.1
    os_regex: str = ""
    cpu_vendor_regex: str = ""
    min_memory_mb: float = 0
    virtualbox: bool = False
    docker: bool = False


#: Makers in the names of built-in plan classes, and what clients call their GPUs.
GPU_MAKERS = {"nvidia": "NVIDIA", "amd": "ATI", "intel": "intel_gpu"}
_GPU_CLASS = re.compile(r"(docker-)?gpu-(\w{3,6})(?:-([1-9]\d{0,6})mb)?(?:-([1-9]\d?)pct)?")


def gpu_class_names(
    maker: str, *, memory_bytes: float = 0, share: float = 1.0, in_container: bool = False
) -> list[str]:
    """Return the names of built-in plan classes for a GPU, as ``gpu-nvidia-4000mb-50pct``; those of all makers for ``any``.

    ``memory_bytes`` is what the GPU must have, ``share`` the part of it that a job uses, above 0 to 1.  ``docker-`` stands in
    front for apps in containers.

    Raises:
        ConfigError: there is no such maker, or a number is out of range.
    """
    if maker not in (*GPU_MAKERS, "any"):
        raise ConfigError(f"There is no GPU {maker!r}. Known: {', '.join(GPU_MAKERS)}, any.")
    if not 0 <= memory_bytes < 1e13:
        raise ConfigError(f"The GPU's memory must be below 10 TB, not {memory_bytes:g} bytes.")
    if not 0.01 <= share <= 1:
        raise ConfigError(f"The share of a GPU that a job uses must be 0.01 to 1, not {share:g}.")
    megabytes, percent = math.ceil(memory_bytes / 1e6), round(100 * share)
    rest = (f"-{megabytes}mb" if megabytes else "") + (f"-{percent}pct" if percent < 100 else "")
    kind = f"{CONTAINER_CLASS}-gpu" if in_container else "gpu"
    return [f"{kind}-{each}{rest}" for each in (GPU_MAKERS if maker == "any" else [maker])]


@lru_cache(maxsize=256)
def gpu_class(name: str) -> PlanClass | None:
    """Return the built-in plan class of a name made by `gpu_class_names`; None if it is no such name."""
    found = _GPU_CLASS.fullmatch(name)
    if found is None or found[2] not in GPU_MAKERS:
        return None
    return PlanClass(
        name=name,
        gpu_type=GPU_MAKERS[found[2]],
        min_gpu_ram_mb=int(found[3] or 0),
        ngpus=int(found[4] or 100) / 100,
        docker=bool(found[1]),
    )


LINUX = (
    "x86_64-pc-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "arm-unknown-linux-gnueabihf",
    "i686-pc-linux-gnu",
)
WINDOWS = ("windows_x86_64", "windows_arm64", "windows_intelx86")
APPLE = ("x86_64-apple-darwin", "arm64-apple-darwin")
OTHERS = ("aarch64-android-linux-gnu", "x86_64-pc-freebsd")
#: The usual ones; a project may use any name that a client sends.
PLATFORMS = (*LINUX, *WINDOWS, *APPLE, *OTHERS)
#: Those that start a script by its first line, and have a shell.
POSIX = (*LINUX, *APPLE, "x86_64-pc-freebsd")


def starts_scripts(platform: str) -> bool:
    """Return whether clients of a platform start a script by its first line, as needed for the launcher of commands.

    Unknown platforms are given the chance; Windows' clients start executables only.
    """
    return platform not in WINDOWS


#: So much of a file is enough to tell.
HEAD_NBYTES = 4096

_FREEBSD_ABI = 9
_ELF = {
    62: ("x86_64-pc-linux-gnu",),
    3: ("i686-pc-linux-gnu", "x86_64-pc-linux-gnu"),
    183: ("aarch64-unknown-linux-gnu",),
    40: ("arm-unknown-linux-gnueabihf",),
}
_PE = {
    0x8664: ("windows_x86_64",),
    0x014C: ("windows_intelx86", "windows_x86_64"),
    0xAA64: ("windows_arm64",),
}
_MACH_O = {0x01000007: "x86_64-apple-darwin", 0x0100000C: "arm64-apple-darwin"}
_MOST_ARCHITECTURES = 20  # a Java class begins like a fat binary, with a version here that is larger


def platforms_of_program(head: bytes) -> tuple[str, ...] | None:
    """Return the platforms that can start a file with these first bytes; None if it is not a program.

    An empty tuple: a program for something else.
    """
    if head.startswith(b"#!"):
        return POSIX
    if head.startswith(b"\x7fELF") and len(head) >= 20:
        order = ">" if head[5] == 2 else "<"
        (machine,) = struct.unpack_from(f"{order}H", head, 18)
        if head[7] == _FREEBSD_ABI:
            return ("x86_64-pc-freebsd",) if machine == 62 else ()
        return _ELF.get(machine, ())
    if head.startswith(b"MZ"):
        return _platforms_of_pe(head)
    return _platforms_of_mach_o(head)


def _platforms_of_pe(head: bytes) -> tuple[str, ...] | None:
    if len(head) < 64:
        return None
    (start,) = struct.unpack_from("<I", head, 60)
    if head[start : start + 4] != b"PE\0\0" or start + 6 > len(head):
        return ()  # a program for DOS, or one with a strange header
    return _PE.get(struct.unpack_from("<H", head, start + 4)[0], ())


def _platforms_of_mach_o(head: bytes) -> tuple[str, ...] | None:
    if len(head) < 8:
        return None
    if head[:4] == b"\xcf\xfa\xed\xfe":
        cpu = _MACH_O.get(struct.unpack_from("<I", head, 4)[0])
        return () if cpu is None else (cpu,)
    if head[:4] == b"\xca\xfe\xba\xbe":
        (count,) = struct.unpack_from(">I", head, 4)
        if not 0 < count <= _MOST_ARCHITECTURES:
            return None
        cpus = (
            struct.unpack_from(">I", head, 8 + 20 * i)[0] for i in range(count) if len(head) >= 28 + 20 * i
        )
        return tuple(_MACH_O[cpu] for cpu in cpus if cpu in _MACH_O)
    return None


_SHELLS = ("sh", "bash", "zsh", "dash", "ksh")
#: Programs that Linux and macOS have, and Windows has not.
_UNIX = (*_SHELLS, "env", "nice", "timeout", "cat", "cp", "awk", "sed", "grep", "sort", "tar", "make", "bc")


def platforms_of_command(
    words: Sequence[str], programs: Mapping[str, tuple[str, ...] | None]
) -> tuple[tuple[str, ...] | None, str]:
    """Return the platforms that can start a command, and the names of the deciding files; None if there are none.

    ``programs``: its files by name, and what `platforms_of_program` says of each.  A program that the command itself starts
    decides, but for a script, which may start the programs among the files; else these decide, which may be one for each
    platform.
    """
    name = words[0].removeprefix("./")
    started = POSIX if name in _UNIX else programs.get(name)
    binaries = {each: found for each, found in programs.items() if found is not None and found != POSIX}
    of_binaries = tuple(dict.fromkeys(platform for found in binaries.values() for platform in found))
    if started == POSIX and (both := tuple(platform for platform in POSIX if platform in of_binaries)):
        return both, ", ".join((name, *binaries))
    if started is not None:
        return started, name
    return (of_binaries, ", ".join(binaries)) if binaries else (None, "")
