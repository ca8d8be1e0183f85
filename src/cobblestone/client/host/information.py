"""Host information as the family sends it: processor, memory, disk, system, virtualisation."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import time
from contextlib import suppress
from pathlib import Path

import psutil

from cobblestone.domain.values import changed
from cobblestone.wire.host_report import HostInfo

_UNIT = {"K": 1024.0, "M": 1024.0**2}
MAX_FEATURES = 4096


def read_host_info(
    data_dir: Path,
    *,
    host_cpid: str = "",
    root: Path = Path("/"),
) -> HostInfo:
    """Describe this computer; benchmarks are added with `with_benchmarks`."""
    vendor, model, features = _processor((root / "proc/cpuinfo").read_text(errors="replace"))
    disk = shutil.disk_usage(data_dir)
    return HostInfo(
        timezone=time.localtime().tm_gmtoff,
        domain_name=socket.gethostname(),
        ip_addr=_address(),
        host_cpid=host_cpid,
        p_ncpus=usable_cpus(),
        p_vendor=vendor,
        p_model=model,
        p_features=features[:MAX_FEATURES],
        p_vm_extensions_disabled=False,
        m_nbytes=float(psutil.virtual_memory().total),
        m_cache=_cache(root),
        m_swap=float(psutil.swap_memory().total),
        d_total=float(disk.total),
        d_free=float(disk.free),
        os_name=_os_name(root),
        os_version=_os_version(root),
        product_name=_text(root / "sys/class/dmi/id/product_name"),
    )


def with_benchmarks(host: HostInfo, *, whetstone: float, dhrystone: float, at: float) -> HostInfo:
    """Return the same computer with its measured speeds: floating-point and integer operations per second of one CPU."""
    return changed(host, p_fpops=whetstone, p_iops=dhrystone, p_calculated=at)


def usable_cpus() -> int:
    """CPUs that the system lets this process use: fewer than there are in a container or a set of CPUs."""
    return max(1, len(os.sched_getaffinity(0)))


def hardware_key(host: HostInfo, gpus: tuple[str, ...] = ()) -> str:
    """Return a text that differs when the processor or its number, or a GPU, has changed, so that benchmarks are due."""
    return "|".join((host.p_vendor, host.p_model, str(host.p_ncpus), *gpus))


def _processor(text: str) -> tuple[str, str, str]:
    """Vendor, model and features; the model is followed by family, model and stepping as the family's client writes it."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, found = line.partition(":")
        if colon and name.strip() not in fields:
            fields[name.strip()] = found.strip()
    vendor = fields.get("vendor_id") or fields.get("CPU implementer") or platform.machine()
    model = fields.get("model name") or fields.get("Processor") or fields.get("cpu model") or "unknown"
    if "cpu family" in fields:
        numbers = (fields.get(each, "?") for each in ("cpu family", "model", "stepping"))
        model += " [Family {} Model {} Stepping {}]".format(*numbers)
    return vendor, model, fields.get("flags") or fields.get("Features") or ""


def _cache(root: Path) -> float:
    """Return the size of the largest cache of the first CPU, bytes; 0 if the system does not say."""
    largest = 0.0
    for file in (root / "sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        if found := re.fullmatch(r"(\d{1,9})([KM]?)", _text(file)):
            largest = max(largest, float(found[1]) * _UNIT.get(found[2], 1.0))
    return largest


def _release(root: Path) -> dict[str, str]:
    lines = _text(root / "etc/os-release", 10_000).splitlines()
    pairs = (line.partition("=") for line in lines)
    return {name: found.strip('"') for name, _, found in pairs}


def _os_name(root: Path) -> str:
    distribution = _release(root).get("NAME", "").removesuffix(" GNU/Linux")
    return f"{platform.system()} {distribution}".strip()


def _os_version(root: Path) -> str:
    name = _release(root).get("PRETTY_NAME", "") or platform.version()
    library = platform.libc_ver()[1]
    return f"{name} [{platform.release()}{f'|libc {library}' if library else ''}]"


def _address() -> str:
    """Return the address by which this computer reaches others; nothing is sent."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # an address for documentation (RFC 5737)
        return str(probe.getsockname()[0])
    return "127.0.0.1"


def _text(path: Path, limit: int = 300) -> str:
    try:
        with path.open(errors="replace") as file:
            return file.read(limit).strip()
    except OSError:
        return ""
