"""``init_data.xml``: what the client tells a job when it starts it.

Source: BOINC's ``lib/app_ipc.cpp`` (names, order and units: facts only) and files that client 7.20.5 was seen to write.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cobblestone.wire.host_report import CoprocRequest, HostInfo
from cobblestone.wire.host_writer import write_host_info
from cobblestone.wire.xml_reader import unescape
from cobblestone.wire.xml_writer import scalar


@dataclass(frozen=True, slots=True, kw_only=True)
class InitData:
    """What a job may know of its project, user and computer: everything that does not change from start to start."""

    client_version: tuple[int, int, int] = (0, 0, 0)
    app_name: str = ""
    app_version: int = 0  #: version number
    plan_class: str = ""
    wu_name: str = ""
    user_id: int = 0
    team_id: int = 0
    host_id: int = 0
    user_name: str = ""
    team_name: str = ""
    authenticator: str = ""
    acct_mgr_url: str = ""
    project_preferences: str = ""  #: the element, verbatim
    global_preferences: str = ""  #: the element in force, verbatim
    user_total_credit: float = 0.0
    user_expavg_credit: float = 0.0
    host_total_credit: float = 0.0
    host_expavg_credit: float = 0.0
    resource_share_fraction: float = 1.0
    checkpoint_period: float = 60.0  #: s
    ncpus: float = 1.0
    gpu_type: str = ""
    gpu_device_num: int = -1
    gpu_opencl_dev_index: int = -1
    gpu_usage: float = 0.0
    rsc_fpops_est: float = 0.0
    rsc_fpops_bound: float = 0.0
    rsc_memory_bound: float = 0.0
    rsc_disk_bound: float = 0.0
    computation_deadline: float = 0.0  #: Unix s
    vm_extensions_disabled: bool = False
    host: HostInfo = field(default_factory=HostInfo)
    coprocs: tuple[CoprocRequest, ...] = ()
    app_files: tuple[str, ...] = ()  #: physical names of the version's files


@dataclass(frozen=True, slots=True, kw_only=True)
class StartData:
    """What changes from start to start; paths and process ids are those that the job itself sees."""

    result_name: str
    slot: int
    project_dir: str
    boinc_dir: str
    client_pid: int
    mapped: bool  #: whether there is a memory-mapped segment
    cpu_time: float = 0.0  #: s, at the last checkpoint
    elapsed: float = 0.0  #: s, at the last checkpoint
    using_sandbox: bool = False


def write_init_data(init: InitData, start: StartData) -> str:
    """Return the whole file.  It holds the user's key: the slot must not be readable by others."""
    major, minor, release = init.client_version
    parts = [
        scalar("major_version", major),
        scalar("minor_version", minor),
        scalar("release", release),
        scalar("app_version", init.app_version),
        scalar("userid", init.user_id),
        scalar("teamid", init.team_id),
        scalar("hostid", init.host_id),
        scalar("app_name", init.app_name),
        scalar("plan_class", init.plan_class),
        scalar("symstore", ""),
        scalar("acct_mgr_url", init.acct_mgr_url),
        _verbatim(init.project_preferences),
        scalar("team_name", init.team_name),
        scalar("user_name", init.user_name),
        scalar("project_dir", start.project_dir),
        scalar("boinc_dir", start.boinc_dir),
        scalar("authenticator", init.authenticator),
        scalar("wu_name", init.wu_name),
        scalar("result_name", start.result_name),
        scalar("shm_key", -1 if start.mapped else 0),
        scalar("slot", start.slot),
        scalar("client_pid", start.client_pid),
        scalar("wu_cpu_time", float(start.cpu_time)),
        scalar("starting_elapsed_time", float(start.elapsed)),
        scalar("using_sandbox", start.using_sandbox),
        scalar("vm_extensions_disabled", init.vm_extensions_disabled),
        *(
            scalar(name, float(getattr(init, name)))
            for name in ("user_total_credit", "user_expavg_credit", "host_total_credit", "host_expavg_credit")
        ),
        scalar("resource_share_fraction", float(init.resource_share_fraction)),
        scalar("checkpoint_period", float(init.checkpoint_period)),
        scalar("fraction_done_start", 0.0),
        scalar("fraction_done_end", 1.0),
        scalar("gpu_type", init.gpu_type),
        scalar("gpu_device_num", init.gpu_device_num),
        scalar("gpu_opencl_dev_index", init.gpu_opencl_dev_index),
        scalar("gpu_usage", float(init.gpu_usage)),
        scalar("ncpus", float(init.ncpus)),
        *(
            scalar(name, float(getattr(init, name)))
            for name in (
                "rsc_fpops_est",
                "rsc_fpops_bound",
                "rsc_memory_bound",
                "rsc_disk_bound",
                "computation_deadline",
            )
        ),
        scalar("vbox_window", False),
        scalar("no_priority_change", False),
        scalar("process_priority", -1),
        scalar("process_priority_special", -1),
        write_host_info(init.host, init.coprocs, with_coprocs=True),
        _verbatim(init.global_preferences),
        *(scalar("app_file", name) for name in init.app_files),
    ]
    return f"<app_init_data>\n{''.join(parts)}</app_init_data>\n"


def _verbatim(element: str) -> str:
    return f"{element.strip()}\n" if element.strip() else ""


def read_result_name(text: str) -> str:
    """Return the result that a file was written for; empty without one."""
    found = re.search(r"<result_name>([^<]{1,255})</result_name>", text)
    return unescape(found[1]) if found else ""
