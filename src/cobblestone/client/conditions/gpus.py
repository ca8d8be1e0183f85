"""Graphics processors: which ones exist, and which may be used.

Graphics processors: NVIDIA's through its management library, all others through OpenCL, where the libraries are present.

Both are libraries of the driver with a stable C interface, of which a few functions are called.  Calls may take a second while
a driver wakes up, and a broken driver may crash: so look in a process of its own (`find_gpus`).
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cobblestone.domain.computing import ClientConfig
from cobblestone.domain.values import changed, form_of
from cobblestone.policy.client.core.values import Gpu
from cobblestone.wire.scheduler.host import CoprocRequest

ALL = -1


def with_declared(found: Sequence[CoprocRequest], config: ClientConfig) -> tuple[CoprocRequest, ...]:
    """Return the GPUs that were found, and the devices of other types that ``cc_config.xml`` declares."""
    known = {each.type for each in found}
    declared = (form_of(CoprocRequest, each) for each in config.declared_devices if each.type not in known)
    return (*found, *declared)


def usable_coprocs(found: Sequence[CoprocRequest], config: ClientConfig) -> tuple[CoprocRequest, ...]:
    """Return the GPUs reported to projects, without ignored ones."""
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
    """Return the GPUs for jobs; ignored instances keep their numbers and are never used."""
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


LOOK_SECONDS = 30
MAX_DEVICES = 64
NVML_LIBRARY = "libnvidia-ml.so.1"
OPENCL_LIBRARY = "libOpenCL.so.1"

#: Units of one multiprocessor where only the number of these is known (NVIDIA since 2014, AMD's GCN and RDNA, Intel's EU).
_UNITS = {"NVIDIA": 128, "ATI": 64, "intel_gpu": 8}
#: A multiplication and an addition in each cycle: peak speed as the family counts it.
_OPERATIONS = 2.0

_VENDORS = {
    "nvidia": "NVIDIA",
    "advanced micro devices": "ATI",
    "amd": "ATI",
    "intel": "intel_gpu",
    "apple": "apple_gpu",
}
_CL_DEVICE_TYPE_GPU = 4
_CL_NAME, _CL_VENDOR, _CL_DEVICE_VERSION = 0x102B, 0x102C, 0x102F
_CL_MAX_COMPUTE_UNITS, _CL_MAX_CLOCK, _CL_GLOBAL_MEM = 0x1002, 0x100C, 0x101F


class _NvmlMemory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


def find_gpus(environment: Mapping[str, str]) -> tuple[CoprocRequest, ...]:
    """Find the GPUs of this computer; blocks for up to half a minute, so call it in a thread."""
    try:
        found = subprocess.run(
            [sys.executable, "-m", "cobblestone.client.conditions.gpus"],
            capture_output=True,
            timeout=LOOK_SECONDS,
            check=True,
            env=dict(environment),
        )
        return tuple(CoprocRequest(**each) for each in json.loads(found.stdout))
    except (OSError, subprocess.SubprocessError, ValueError, TypeError):
        return ()


def look() -> tuple[CoprocRequest, ...]:
    """Ask the libraries, in this process."""
    opencl = _opencl()
    ours = [each for each in opencl if each.type == "NVIDIA"]
    nvidia = [_completed(each, ours[0]) if ours else each for each in _nvidia()]
    return _group([*nvidia, *(each for each in opencl if not (nvidia and each.type == "NVIDIA"))])


def _completed(device: CoprocRequest, opencl: CoprocRequest) -> CoprocRequest:
    """Add the properties of a device that only OpenCL knows."""
    return changed(
        device,
        have_opencl=True,
        opencl_device_version=opencl.opencl_device_version,
        peak_flops=device.peak_flops or opencl.peak_flops,
    )


def _group(devices: list[CoprocRequest]) -> tuple[CoprocRequest, ...]:
    """Return one entry for each type, described by its fastest device, as BOINC does."""
    found: dict[str, list[CoprocRequest]] = {}
    for each in devices[:MAX_DEVICES]:
        found.setdefault(each.type, []).append(each)
    groups: list[CoprocRequest] = []
    for same in found.values():
        best = max(same, key=lambda each: (each.peak_flops, each.ram))
        groups.append(changed(best, count=len(same)))
    return tuple(groups)


# -- NVIDIA -----------------------------------------------------------------------------------------------------------


def _nvidia() -> list[CoprocRequest]:
    try:
        library = ctypes.CDLL(NVML_LIBRARY)
    except OSError:
        return []
    if library.nvmlInit_v2() != 0:
        return []
    try:
        count = ctypes.c_uint()
        if library.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return []
        version = _nvml_text(library, "nvmlSystemGetDriverVersion")
        devices = (_nvml_device(library, index, version) for index in range(min(count.value, MAX_DEVICES)))
        return [each for each in devices if each is not None]
    finally:
        library.nvmlShutdown()


def _nvml_device(library: ctypes.CDLL, index: int, driver: str) -> CoprocRequest | None:
    handle = ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) != 0:
        return None
    memory = _NvmlMemory()
    library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    clock, cores = ctypes.c_uint(), ctypes.c_uint()
    library.nvmlDeviceGetMaxClockInfo(handle, 1, ctypes.byref(clock))  # 1: the multiprocessors' clock, MHz
    if hasattr(library, "nvmlDeviceGetNumGpuCores"):  # drivers since 2021
        library.nvmlDeviceGetNumGpuCores(handle, ctypes.byref(cores))
    return CoprocRequest(
        type="NVIDIA",
        name=_nvml_text(library, "nvmlDeviceGetName", handle),
        ram=float(memory.total),
        available_ram=float(memory.free),
        driver_version=_driver_number(driver),
        peak_flops=_OPERATIONS * cores.value * clock.value * 1e6,
    )


def _nvml_text(library: ctypes.CDLL, function: str, *arguments: Any) -> str:  # Any: handles of the library
    text = ctypes.create_string_buffer(96)
    return (
        text.value.decode(errors="replace")
        if library[function](*arguments, text, ctypes.c_uint(96)) == 0
        else ""
    )


def _driver_number(version: str) -> int:
    """Return ``535.104.05`` as BOINC writes it: 100 times the first number plus the second."""
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    return 100 * int(major) + int(minor or 0) if major.isdigit() and (minor or "0").isdigit() else 0


# -- OpenCL -----------------------------------------------------------------------------------------------------------


def _opencl() -> list[CoprocRequest]:
    try:
        library = ctypes.CDLL(OPENCL_LIBRARY)
    except OSError:
        return []
    count, kind = ctypes.c_uint(), ctypes.c_ulong(_CL_DEVICE_TYPE_GPU)
    platforms, devices = (ctypes.c_void_p * MAX_DEVICES)(), (ctypes.c_void_p * MAX_DEVICES)()
    if library.clGetPlatformIDs(MAX_DEVICES, platforms, ctypes.byref(count)) != 0:
        return []
    found: list[CoprocRequest] = []
    for each in platforms[: count.value]:
        place = ctypes.c_void_p(each)
        if library.clGetDeviceIDs(place, kind, MAX_DEVICES, devices, ctypes.byref(count)) == 0:  # it has GPUs
            found += [_opencl_device(library, ctypes.c_void_p(device)) for device in devices[: count.value]]
    return found


def _opencl_device(library: ctypes.CDLL, device: ctypes.c_void_p) -> CoprocRequest:
    def text(name: int) -> str:
        value = ctypes.create_string_buffer(256)
        failed = library.clGetDeviceInfo(device, name, ctypes.c_size_t(255), value, None)
        return "" if failed else value.value.decode(errors="replace")

    def number(name: int, kind: type[ctypes.c_uint] | type[ctypes.c_ulonglong]) -> int:
        value = kind()
        failed = library.clGetDeviceInfo(
            device, name, ctypes.c_size_t(ctypes.sizeof(value)), ctypes.byref(value), None
        )
        return 0 if failed else int(value.value)

    vendor = text(_CL_VENDOR)
    kind = next((kind for part, kind in _VENDORS.items() if part in vendor.lower()), vendor[:60] or "OpenCL")
    memory = float(number(_CL_GLOBAL_MEM, ctypes.c_ulonglong))
    units, clock = number(_CL_MAX_COMPUTE_UNITS, ctypes.c_uint), number(_CL_MAX_CLOCK, ctypes.c_uint)
    return CoprocRequest(
        type=kind,
        name=text(_CL_NAME),
        ram=memory,
        available_ram=memory,
        have_opencl=True,
        opencl_device_version=text(_CL_DEVICE_VERSION),
        peak_flops=_OPERATIONS * units * _UNITS.get(kind, 64) * clock * 1e6,
    )


if __name__ == "__main__":
    sys.stdout.write(json.dumps([asdict(each) for each in look()]))
