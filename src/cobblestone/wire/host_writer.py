"""Writing what a client says of its computer, in the order and form of the family's client.

Source: requests of client 7.20.5 as recorded under ``tests/golden``; GPU elements as in BOINC's ``lib/coproc.cpp`` (facts only).
"""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.wire.host_report import MEGABYTE, CoprocRequest, HostInfo
from cobblestone.wire.xml_writer import scalar

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
