"""The scheduler request of a client, as frozen values.

Source: BOINC's wire protocol as seen with client 7.20.5, ``sched/sched_types.cpp`` for the older elements.
Everything is bounded and finite; what was forgiven on the way is in ``leniences``.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.wire.host_report import CoprocRequest, DiskUsage, HostInfo, NetStats, TimeStats
from cobblestone.wire.lenience import Lenience
from cobblestone.wire.preferences import GlobalPreferences


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedFile:
    """An output file of a reported result."""

    name: str
    nbytes: float = 0.0
    max_nbytes: float = 0.0
    md5_cksum: str = ""
    upload_url: str = ""
    error_msg: str = (
        ""  #: not empty: the file never reached the server (client 7.20.5 then still says "success")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedResult:
    """A finished job."""

    name: str
    final_cpu_time: float = 0.0  #: seconds
    final_elapsed_time: float = 0.0  #: seconds
    exit_status: int = 0
    exit_status_present: bool = False  #: False: the client did not say how the program ended; not a success
    state: int = (
        0  #: the client's state: 1 downloading, 3 compute error, 5 uploaded, 6 aborted, 7 upload failed
    )
    platform: str = ""
    version_num: int = 0
    app_version_num: int = 0  #: the same again, legacy
    plan_class: str = ""
    final_peak_working_set_size: float = 0.0  #: bytes
    final_peak_swap_size: float = 0.0  #: bytes
    final_peak_disk_usage: float = 0.0  #: bytes
    fpops_per_cpu_sec: float = 0.0
    fpops_cumulative: float = 0.0
    intops_per_cpu_sec: float = 0.0
    intops_cumulative: float = 0.0
    stderr: str = ""  #: the program's stderr, its last part
    error_message: str = ""  #: the client's own text, e.g. ``process exited with code 7 (0x7, -249)``
    files: tuple[ReportedFile, ...] = ()

    @property
    def successful(self) -> bool:
        """Whether the client says that the program ended well and all outputs are on the server.

        Neither exit status 0 alone nor exit status 0 with state 5 is enough (seen with client 7.20.5).
        """
        return (
            self.exit_status_present
            and self.exit_status == 0
            and self.state == 5
            and not any(file.error_msg for file in self.files)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MsgFromHost:
    """A trickle-up message of a job."""

    result_name: str
    time: float  #: Unix seconds
    variety: str
    text: str  #: what the program wrote, verbatim but for control characters


@dataclass(frozen=True, slots=True, kw_only=True)
class StickyFile:
    """A file that stays on the computer between jobs."""

    name: str
    nbytes: float = 0.0
    status: int = 0  #: 1 present, negative an error number


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientAppVersion:
    """An app version that the client holds; other results refer to it by its place in the list."""

    app_name: str
    version_num: int = 0
    platform: str = ""
    plan_class: str = ""
    avg_ncpus: float = 1.0
    flops: float = 0.0
    api_version: str = ""
    coproc_type: str = ""
    coproc_count: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherResult:
    """A job that is in progress on the client."""

    name: str
    app_version: int = -1  #: index into ``SchedulerRequest.app_versions``, -1 unknown
    plan_class: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgressResult:
    """A job of any project in the client's queue, for the deadline check on the server."""

    name: str
    report_deadline: float = 0.0  #: Unix seconds
    time_remaining: float = 0.0  #: seconds
    avg_ncpus: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerRequest:
    """One scheduler RPC, as the client sent it."""

    authenticator: str
    hostid: int = 0  #: 0 until the server assigned one
    rpc_seqno: int = 0
    client_version: int = 0  #: 10000 * major + 100 * minor + release
    client_version_text: str = ""  #: e.g. ``7.20.5``
    resource_share_fraction: float = 1.0
    rrs_fraction: float = 1.0
    prrs_fraction: float = 1.0
    duration_correction_factor: float = 1.0
    allow_multiple_clients: bool = False
    sandbox: bool = False
    dont_send_work: bool = False
    work_req_seconds: float = 0.0
    cpu_req_secs: float = 0.0
    cpu_req_instances: float = 0.0
    cpu_estimated_delay: float = 0.0  #: seconds until a CPU would be idle
    client_cap_plan_class: bool = False
    platforms: tuple[str, ...] = ()  #: primary first
    code_sign_key: str = ""  #: text without white space at its ends; empty: the client holds none
    working_global_preferences: GlobalPreferences | None = None  #: in force on the client
    global_preferences: GlobalPreferences | None = None  #: the network copy
    cross_project_id: str = ""
    time_stats: TimeStats = TimeStats()
    net_stats: NetStats = NetStats()
    host_info: HostInfo = HostInfo()
    disk_usage: DiskUsage = DiskUsage()
    coprocs: tuple[CoprocRequest, ...] = ()
    results: tuple[ReportedResult, ...] = ()
    results_truncated: bool = False  #: more were reported than we read; do not conclude that jobs are lost
    file_transfer_results: tuple[
        ReportedResult, ...
    ] = ()  #: named ``upload_`` or ``download_``; only acknowledged
    trickles: tuple[MsgFromHost, ...] = ()
    trickles_truncated: bool = (
        False  #: some were not read: do not acknowledge, the client sends them all again
    )
    sticky_files: tuple[StickyFile, ...] = ()
    app_versions: tuple[ClientAppVersion, ...] = ()
    other_results: tuple[OtherResult, ...] = ()
    other_results_listed: bool = False  #: whether the list was sent, and read to its end
    in_progress_results: tuple[InProgressResult, ...] = ()
    client_opaque: str = ""
    client_brand: str = ""
    leniences: tuple[Lenience, ...] = ()

    @property
    def wants_work(self) -> bool:
        """Whether the client asks for jobs for any of its processors."""
        if self.dont_send_work:
            return False
        return (
            self.work_req_seconds > 0
            or self.cpu_req_secs > 0
            or any(gpu.req_secs > 0 for gpu in self.coprocs)
        )


def parse_scheduler_request(body: bytes, *, max_bytes: int = 8 * 1024 * 1024) -> SchedulerRequest:
    """Read a scheduler request.  Raises RemoteProtocolError and nothing else."""
    raise NotImplementedError
