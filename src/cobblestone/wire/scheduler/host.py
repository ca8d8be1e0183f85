"""A client's description of its computer: hardware, availability, network, disk and GPUs; reading and writing.

What a client says of its computer: hardware, availability, network, disk and GPUs.

Source: BOINC's wire protocol as seen with client 7.20.5; GPU elements as in BOINC's ``lib/coproc.cpp``
(facts only). Defaults are what an absent or unusable element becomes.

Writing what a client says of its computer, in the order and form of the family's client.

Source: requests of client 7.20.5 as recorded under ``tests/golden``; GPU elements as in BOINC's ``lib/coproc.cpp`` (facts only).
"""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.domain.values import changed, value
from cobblestone.wire.text.reader import FieldReader, FlagField, Number, Text, Whole, block_reader
from cobblestone.wire.text.writer import scalar

MAX_COUNT = 100_000
"""No computer has more CPUs or GPUs."""
MAX_TIME = 1e11
"""No time stamp or duration is larger, in seconds; the year 5138."""
MEGABYTE = 1024.0 * 1024.0


@value(kw_only=True)
class TimeStats:
    """Availability: fractions of time (0..1, -1 unknown), Unix seconds, and durations in seconds."""

    on_frac: float = 1.0
    connected_frac: float = -1.0
    cpu_and_network_available_frac: float = 1.0
    active_frac: float = 1.0
    gpu_active_frac: float = 1.0
    client_start_time: float = 0.0
    total_start_time: float = 0.0
    total_duration: float = 0.0
    total_active_duration: float = 0.0
    total_gpu_active_duration: float = 0.0
    now: float = 0.0
    previous_uptime: float = 0.0
    session_active_duration: float = 0.0
    session_gpu_active_duration: float = 0.0


@value(kw_only=True)
class NetStats:
    """Measured network speed, bytes per second, with the averages behind it."""

    bwup: float = 0.0
    avg_up: float = 0.0
    avg_time_up: float = 0.0
    bwdown: float = 0.0
    avg_down: float = 0.0
    avg_time_down: float = 0.0


@value(kw_only=True)
class HostInfo:
    """Hardware and software; sizes in bytes, speeds in operations per second of one CPU."""

    timezone: int = 0  #: seconds east of UTC
    domain_name: str = ""
    ip_addr: str = ""
    host_cpid: str = ""  #: the client's own id of this computer, 32 hex digits
    p_ncpus: int = 1
    p_vendor: str = ""
    p_model: str = ""
    p_features: str = ""
    p_fpops: float = 1e9
    p_iops: float = 1e9
    p_membw: float = 1e9
    p_calculated: float = 0.0  #: Unix seconds
    p_vm_extensions_disabled: bool = False
    m_nbytes: float = 0.0
    m_cache: float = 0.0
    m_swap: float = 0.0
    d_total: float = 0.0
    d_free: float = 0.0
    os_name: str = ""
    os_version: str = ""
    n_usable_coprocs: int = 0
    wsl_available: bool = False
    product_name: str = ""
    virtualbox_version: str = ""
    docker_version: str = ""
    docker_type: int = 0  #: 1 Docker, 2 Podman


@value(kw_only=True)
class DiskUsage:
    """Disk used by the client, by this project, and this project's share; bytes."""

    d_boinc_used_total: float = 0.0
    d_boinc_used_project: float = 0.0
    d_project_share: float = 0.0


@value(kw_only=True)
class CoprocRequest:
    """GPUs of one type, and the work wanted for them."""

    type: str  #: ``NVIDIA``, ``ATI``, ``intel_gpu``, ``apple_gpu`` or what the client calls it
    count: int = 1
    name: str = ""
    peak_flops: float = 0.0  #: of one instance
    ram: float = 0.0  #: bytes
    available_ram: float = 0.0  #: bytes
    driver_version: int = 0
    have_opencl: bool = False
    opencl_device_version: str = ""
    req_secs: float = 0.0
    req_instances: float = 0.0
    estimated_delay: float = 0.0


_FRACTION = Number(1.0, -1.0, 1.0)
"""-1 is the family's "unknown"."""
_TIME = Number(high=MAX_TIME)

read_time_stats = block_reader(
    TimeStats,
    {
        "on_frac": _FRACTION,
        "connected_frac": Number(-1.0, -1.0, 1.0),
        "cpu_and_network_available_frac": _FRACTION,
        "active_frac": _FRACTION,
        "gpu_active_frac": _FRACTION,
        "client_start_time": _TIME,
        "total_start_time": _TIME,
        "total_duration": _TIME,
        "total_active_duration": _TIME,
        "total_gpu_active_duration": _TIME,
        "now": _TIME,
        "previous_uptime": _TIME,
        "session_active_duration": _TIME,
        "session_gpu_active_duration": _TIME,
    },
)
"""Read ``<time_stats>``."""

read_net_stats = block_reader(
    NetStats,
    {
        "bwup": Number(),
        "avg_up": Number(),
        "avg_time_up": _TIME,
        "bwdown": Number(),
        "avg_down": Number(),
        "avg_time_down": _TIME,
    },
)
"""Read ``<net_stats>``."""

read_disk_usage = block_reader(
    DiskUsage,
    {"d_boinc_used_total": Number(), "d_boinc_used_project": Number(), "d_project_share": Number()},
)
"""Read ``<disk_usage>``."""

_read_host_info = block_reader(
    HostInfo,
    {
        "timezone": Whole(0, -86400, 86400),
        "domain_name": Text(255),
        "ip_addr": Text(255),
        "host_cpid": Text(64),
        "p_ncpus": Whole(1, 1, MAX_COUNT),
        "p_vendor": Text(255),
        "p_model": Text(255),
        "p_features": Text(4096),
        "p_fpops": Number(1e9),
        "p_iops": Number(1e9),
        "p_membw": Number(1e9),
        "p_calculated": _TIME,
        "p_vm_extensions_disabled": FlagField(),
        "m_nbytes": Number(),
        "m_cache": Number(0.0, -1.0),
        "m_swap": Number(),
        "d_total": Number(),
        "d_free": Number(),
        "os_name": Text(255),
        "os_version": Text(255),
        "n_usable_coprocs": Whole(high=MAX_COUNT),
        "wsl_available": FlagField(),
        "product_name": Text(255),
        "virtualbox_version": Text(255),
        "docker_version": Text(255),
        "docker_type": Whole(high=MAX_COUNT),
    },
)


def read_host_info(reader: FieldReader) -> HostInfo:
    """Read ``<host_info>``."""
    info = _read_host_info(reader)
    # BOINC's client starts with -1 and keeps it when the system does not tell
    return info if info.m_cache >= 0.0 else changed(info, m_cache=0.0)


def read_coproc(element_type: str, reader: FieldReader) -> CoprocRequest:
    """Read one GPU element; an empty ``element_type`` means that the element names its type itself."""
    number = reader.number
    ram = (
        number("totalGlobalMem") or MEGABYTE * number("localRAM", 0.0, 0.0, 1e9) or number("global_mem_size")
    )
    return CoprocRequest(
        type=element_type or reader.text("type", 64),
        count=reader.integer("count", 1, 0, MAX_COUNT),
        name=reader.text("name", 255),
        peak_flops=number("peak_flops"),
        ram=ram or number("available_ram"),
        available_ram=number("available_ram"),
        driver_version=reader.integer("drvVersion", 0, -(2**31)),
        have_opencl=reader.flag("have_opencl"),
        opencl_device_version=reader.text("opencl_device_version", 255),
        req_secs=number("req_secs"),
        req_instances=number("req_instances", 0.0, 0.0, MAX_COUNT),
        # -1 marks "absent" in the client
        estimated_delay=max(0.0, number("estimated_delay", 0.0, -1.0)),
    )


_ELEMENTS = {
    "NVIDIA": "coproc_cuda",
    "ATI": "coproc_ati",
    "intel_gpu": "coproc_intel_gpu",
    "apple_gpu": "coproc_apple_gpu",
}
_SYSTEM = ("os_name", "os_version", "n_usable_coprocs", "wsl_available")
_NUMBERED = ("p_fpops", "p_iops", "p_membw", "p_calculated")


def write_host_info(
    host: HostInfo, coprocs: Sequence[CoprocRequest] = (), *, with_coprocs: bool = False
) -> str:
    """Return a ``<host_info>`` element.

    Scheduler requests name the GPUs behind it; ``init_data.xml``, state files and GUI RPC want them inside (``with_coprocs``).
    """
    lines = [
        scalar(name, getattr(host, name), "    ")
        for name in ("timezone", "domain_name", "ip_addr", "host_cpid")
    ]
    lines += [
        scalar(name, getattr(host, name), "    ") for name in ("p_ncpus", "p_vendor", "p_model", "p_features")
    ]
    lines += [scalar(name, float(getattr(host, name)), "    ") for name in _NUMBERED]
    lines.append(scalar("p_vm_extensions_disabled", host.p_vm_extensions_disabled, "    "))
    lines += [
        scalar(name, float(getattr(host, name)), "    ")
        for name in ("m_nbytes", "m_cache", "m_swap", "d_total", "d_free")
    ]
    lines += [
        scalar(name, getattr(host, name), "    ")
        for name in ("os_name", "os_version", "n_usable_coprocs", "wsl_available")
    ]
    lines += [
        scalar(name, text, "    ")
        for name in ("product_name", "virtualbox_version", "docker_version")
        if (text := getattr(host, name))
    ]
    if host.docker_type:
        lines.append(scalar("docker_type", host.docker_type, "    "))
    inside = write_coprocs(coprocs) if with_coprocs else ""
    return f"<host_info>\n{''.join(lines)}{inside}</host_info>\n"


def write_coprocs(coprocs: Sequence[CoprocRequest]) -> str:
    """Return a ``<coprocs>`` element."""
    return f"    <coprocs>\n{''.join(_coproc(each) for each in coprocs)}    </coprocs>\n"


def _coproc(coproc: CoprocRequest) -> str:
    element = _ELEMENTS.get(coproc.type, "coproc")
    head = scalar("type", coproc.type) if element == "coproc" else ""
    lines = [
        head,
        scalar("count", coproc.count),
        scalar("name", coproc.name),
        scalar("available_ram", float(coproc.available_ram)),
        scalar("have_cuda", element == "coproc_cuda"),
        scalar("have_opencl", coproc.have_opencl),
        scalar("req_secs", float(coproc.req_secs)),
        scalar("req_instances", float(coproc.req_instances)),
        scalar("estimated_delay", float(coproc.estimated_delay)),
        scalar("peak_flops", float(coproc.peak_flops)),
    ]
    if element == "coproc_cuda":
        lines += [
            scalar("cudaVersion", 0),
            scalar("drvVersion", coproc.driver_version),
            scalar("totalGlobalMem", float(coproc.ram)),
        ]
    elif element == "coproc_ati":
        lines.append(scalar("localRAM", int(coproc.ram / MEGABYTE)))
    elif element != "coproc":
        lines.append(scalar("global_mem_size", float(coproc.ram)))
    if coproc.opencl_device_version:
        lines.append(scalar("opencl_device_version", coproc.opencl_device_version))
    return f"<{element}>\n{''.join(lines)}</{element}>\n"
