"""What a client says of its computer: hardware, availability, network, disk and GPUs.

Source: BOINC's wire protocol as seen with client 7.20.5; GPU elements as in BOINC's ``lib/coproc.cpp`` (facts only).
Defaults are what an absent or unusable element becomes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeStats:
    """Availability of the computer: fractions of time (0..1, -1 unknown), Unix seconds, and durations in seconds."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NetStats:
    """Measured network speed, bytes per second, with the averages behind it."""

    bwup: float = 0.0
    avg_up: float = 0.0
    avg_time_up: float = 0.0
    bwdown: float = 0.0
    avg_down: float = 0.0
    avg_time_down: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskUsage:
    """Disk used by the client, by this project, and this project's share; bytes."""

    d_boinc_used_total: float = 0.0
    d_boinc_used_project: float = 0.0
    d_project_share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
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
