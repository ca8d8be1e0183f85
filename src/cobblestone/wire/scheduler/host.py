"""A client's description of its computer: hardware, availability, network, disk and GPUs; reading and writing.

Source: requests of client 7.20.5 as recorded under ``tests/golden``; GPU elements as in BOINC's ``lib/coproc.cpp`` (facts only).
Defaults are what an absent or unusable element becomes.  Fields stand in the order in which they are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cobblestone.domain.values import value
from cobblestone.wire.text.reader import FieldReader, Lenience
from cobblestone.wire.text.table import Amount, FieldTable, Flag, Number, Text, Whole
from cobblestone.wire.text.tree import Node
from cobblestone.wire.text.writer import scalar

#: No computer has more CPUs or GPUs.
MAX_COUNT = 100_000
MAX_GPU_TYPES = 16
#: No time stamp or duration is larger, in seconds; the year 5138.
MAX_TIME = 1e11
MAX_ID = 2**62
#: Floating-point operations of one job: 1e18 a second for many years.
MAX_OPERATIONS = 1e30
MEGABYTE = 1024.0 * 1024.0

#: -1 is the family's "unknown".
Fraction = Annotated[float, Number(-1.0, 1.0)]
Time = Annotated[float, Number(high=MAX_TIME)]
Line = Annotated[str, Text(255)]
OptionalLine = Annotated[str, Text(255, optional=True)]
#: BOINC's client starts with -1 and keeps it when the system does not tell.
UnknownAsZero = Annotated[float, Number(-1.0, least=0.0)]


@value(kw_only=True)
class TimeStats:
    """Availability: fractions of time (0..1, -1 unknown), Unix seconds, and durations in seconds."""

    on_frac: Fraction = 1.0
    connected_frac: Fraction = -1.0
    cpu_and_network_available_frac: Fraction = 1.0
    active_frac: Fraction = 1.0
    gpu_active_frac: Fraction = 1.0
    client_start_time: Time = 0.0
    total_start_time: Time = 0.0
    total_duration: Time = 0.0
    total_active_duration: Time = 0.0
    total_gpu_active_duration: Time = 0.0
    now: Time = 0.0
    previous_uptime: Time = 0.0
    session_active_duration: Time = 0.0
    session_gpu_active_duration: Time = 0.0


@value(kw_only=True)
class NetStats:
    """Measured network speed, bytes per second, with the averages behind it."""

    bwup: Amount = 0.0
    avg_up: Amount = 0.0
    avg_time_up: Time = 0.0
    bwdown: Amount = 0.0
    avg_down: Amount = 0.0
    avg_time_down: Time = 0.0


@value(kw_only=True)
class HostInfo:
    """Hardware and software; sizes in bytes, speeds in operations per second of one CPU."""

    timezone: Annotated[int, Whole(-86400, 86400)] = 0  #: seconds east of UTC
    domain_name: Line = ""
    ip_addr: Line = ""
    host_cpid: Annotated[str, Text(64)] = ""  #: the client's own id of this computer, 32 hex digits
    p_ncpus: Annotated[int, Whole(1, MAX_COUNT)] = 1
    p_vendor: Line = ""
    p_model: Line = ""
    p_features: Annotated[str, Text(4096)] = ""
    p_fpops: Amount = 1e9
    p_iops: Amount = 1e9
    p_membw: Amount = 1e9
    p_calculated: Time = 0.0  #: Unix seconds
    p_vm_extensions_disabled: Flag = False
    m_nbytes: Amount = 0.0
    m_cache: UnknownAsZero = 0.0
    m_swap: Amount = 0.0
    d_total: Amount = 0.0
    d_free: Amount = 0.0
    os_name: Line = ""
    os_version: Line = ""
    n_usable_coprocs: Annotated[int, Whole(high=MAX_COUNT)] = 0
    wsl_available: Flag = False
    product_name: OptionalLine = ""
    virtualbox_version: OptionalLine = ""
    docker_version: OptionalLine = ""
    docker_type: Annotated[int, Whole(high=MAX_COUNT, optional=True)] = 0  #: 1 Docker, 2 Podman


#: Elements about the computer that every client sends; whether another one is absent says something.
ALWAYS_SENT = frozenset(
    {
        *("on_frac", "connected_frac", "active_frac", "gpu_active_frac", "bwup", "bwdown", "timezone"),
        *("domain_name", "ip_addr", "os_name", "os_version", "p_ncpus", "p_vendor", "p_model", "p_features"),
        *("p_fpops", "p_iops", "p_membw", "m_nbytes", "m_cache", "m_swap", "d_total", "d_free"),
        *("d_boinc_used_total", "d_boinc_used_project"),
    }
)


@value(kw_only=True)
class DiskUsage:
    """Disk used by the client, by this project, and this project's share; bytes."""

    d_boinc_used_total: Amount = 0.0
    d_boinc_used_project: Amount = 0.0
    d_project_share: Amount = 0.0


@value(kw_only=True)
class CoprocRequest:
    """GPUs of one type, and the work wanted for them."""

    type: str  #: ``NVIDIA``, ``ATI``, ``intel_gpu``, ``apple_gpu`` or what the client calls it
    count: Annotated[int, Whole(0, MAX_COUNT)] = 1
    name: Line = ""
    available_ram: Amount = 0.0  #: bytes
    have_opencl: Flag = False
    req_secs: Amount = 0.0
    req_instances: Annotated[float, Number(high=MAX_COUNT)] = 0.0
    estimated_delay: UnknownAsZero = 0.0
    peak_flops: Amount = 0.0  #: of one instance
    opencl_device_version: OptionalLine = ""
    ram: float = 0.0  #: bytes
    driver_version: int = 0


TIME_STATS = FieldTable(TimeStats)
read_time_stats = TIME_STATS.read
write_time_stats = TIME_STATS.layout(tag="time_stats").write

_NET_STATS = FieldTable(NetStats)
read_net_stats = _NET_STATS.read
write_net_stats = _NET_STATS.layout(tag="net_stats").write

_DISK_USAGE = FieldTable(DiskUsage)
read_disk_usage = _DISK_USAGE.read
write_disk_usage = _DISK_USAGE.layout(tag="disk_usage", indent="        ", outside="    ").write

_HOST_INFO = FieldTable(HostInfo, {"coprocs": ""})
read_host_info = _HOST_INFO.read
_HOST = _HOST_INFO.layout(tag="host_info")

_COPROC = FieldTable(CoprocRequest, {"have_cuda": "have_opencl", "memory": "opencl_device_version"})
_GPU = _COPROC.layout(indent="")


def read_coproc(element_type: str, reader: FieldReader) -> CoprocRequest:
    """Read one GPU element; an empty ``element_type`` means that the element names its type itself."""
    number = reader.number
    ram = (
        number("totalGlobalMem") or MEGABYTE * number("localRAM", 0.0, 0.0, 1e9) or number("global_mem_size")
    )
    return _COPROC.read(
        reader,
        type=element_type or reader.text("type", 64),
        ram=ram or number("available_ram"),
        driver_version=reader.integer("drvVersion", 0, -(2**31)),
    )


def read_coprocs(host: Node, notes: list[Lenience]) -> tuple[CoprocRequest, ...]:
    """Return the GPUs in an element about a computer, those without a type left out."""
    nodes = host.inner("coprocs").children
    read = (read_coproc(COPROC_TYPES.get(node.tag, ""), node.reader(notes)) for node in nodes)
    return tuple(coproc for coproc in read if coproc.type and coproc.count)[:MAX_GPU_TYPES]


#: Element names and the type that each stands for; the last one names its type itself.
COPROC_TYPES = {
    "coproc_cuda": "NVIDIA",
    "coproc_ati": "ATI",
    "coproc_intel_gpu": "intel_gpu",
    "coproc_apple_gpu": "apple_gpu",
    "coproc": "",
}
_ELEMENTS = {kind: element for element, kind in COPROC_TYPES.items()}


def write_host_info(
    host: HostInfo, coprocs: Sequence[CoprocRequest] = (), *, with_coprocs: bool = False
) -> str:
    """Return a ``<host_info>`` element.

    Scheduler requests name the GPUs behind it; ``init_data.xml``, state files and GUI RPC want them inside (``with_coprocs``).
    """
    return _HOST.write(host, coprocs=write_coprocs(coprocs) if with_coprocs else "")


def write_coprocs(coprocs: Sequence[CoprocRequest]) -> str:
    """Return a ``<coprocs>`` element."""
    return f"    <coprocs>\n{''.join(_coproc(each) for each in coprocs)}    </coprocs>\n"


def _coproc(coproc: CoprocRequest) -> str:
    element = _ELEMENTS.get(coproc.type, "coproc")
    memory = head = ""
    match element:
        case "coproc_cuda":
            memory = scalar("cudaVersion", 0) + scalar("drvVersion", coproc.driver_version)
            memory += scalar("totalGlobalMem", float(coproc.ram))
        case "coproc_ati":
            memory = scalar("localRAM", int(coproc.ram / MEGABYTE))
        case "coproc":
            head = scalar("type", coproc.type)
        case _:
            memory = scalar("global_mem_size", float(coproc.ram))
    have_cuda = scalar("have_cuda", element == "coproc_cuda")
    return f"<{element}>\n{head}{_GPU.write(coproc, have_cuda=have_cuda, memory=memory)}</{element}>\n"
