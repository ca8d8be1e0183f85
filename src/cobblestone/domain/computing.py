"""When and how much a volunteer's computer may compute, and how a client is configured.

Names, units and defaults are those of the family's ``global_preferences``, ``cc_config.xml`` and ``app_config.xml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple

from cobblestone.domain.hosts import Coprocessor
from cobblestone.domain.values import value


class Mode(IntEnum):
    """The volunteer's choice for computing, GPUs or the network; the numbers of GUI RPC."""

    ALWAYS = 1
    AUTO = 2  #: by preferences
    NEVER = 3


class Hours(NamedTuple):
    """A part of the day, from ``start`` to ``end``; equal ends mean the whole day, and it may reach over midnight."""

    start: float = 0.0
    end: float = 0.0


@value(kw_only=True)
class ComputingPreferences:
    """The volunteer's preferences in force; a limit of 0 means none unless said otherwise.

    Names that begin with ``niu_`` hold while the computer is not in use, their counterparts while it is.
    """

    run_on_batteries: bool = False
    run_if_user_active: bool = True
    run_gpu_if_user_active: bool = False
    idle_time_to_run: float = 3.0  #: minutes without input after which the computer is not in use
    suspend_if_no_recent_input: float = 0.0  #: minutes
    suspend_cpu_usage: float = 25.0  #: per cent of all CPUs used by other programs
    niu_suspend_cpu_usage: float = 50.0
    hours: Hours = Hours()
    network_hours: Hours = Hours()
    day_hours: Mapping[int, Hours] = field(
        default_factory=dict[int, Hours]
    )  #: by day of the week, 0 = Sunday
    day_network_hours: Mapping[int, Hours] = field(default_factory=dict[int, Hours])
    leave_apps_in_memory: bool = False
    work_buf_min_days: float = 0.1
    work_buf_additional_days: float = 0.5
    max_ncpus_pct: float = 0.0  #: 0 and 100: all
    niu_max_ncpus_pct: float = 100.0
    max_ncpus: int = 0  #: the oldest form of the same limit
    cpu_usage_limit: float = 100.0  #: per cent of the time
    niu_cpu_usage_limit: float = 100.0
    cpu_scheduling_period_minutes: float = 60.0
    disk_interval: float = 60.0  #: seconds between checkpoints
    disk_max_used_gb: float = 0.0
    disk_max_used_pct: float = 90.0
    disk_min_free_gb: float = 0.1
    vm_max_used_pct: float = 75.0
    ram_max_used_busy_pct: float = 50.0
    ram_max_used_idle_pct: float = 90.0
    max_bytes_sec_up: float = 0.0
    max_bytes_sec_down: float = 0.0
    daily_xfer_limit_mb: float = 0.0
    daily_xfer_period_days: float = 0.0
    network_wifi_only: bool = False  #: no transfers over a mobile connection
    dont_verify_images: bool = False
    battery_charge_min_pct: float = 0.0  #: per cent; below, computing waits even at the mains
    battery_max_temperature: float = 0.0  #: degrees Celsius
    # Ours; other clients ignore them.
    network_unmetered_only: bool = False  #: no transfers over a connection that the system calls metered
    connection_interval_days: float = 0.0  #: contacts with projects lie at least so far apart
    temperature_pause: float = 0.0  #: degrees Celsius of the hottest sensor at which computing stops
    #: degrees from which it slows down, the more the nearer it comes to the pause
    temperature_throttle: float = 0.0

    mod_time: float = 0.0  #: Unix seconds
    source_project: str = ""
    venue: str = ""  #: the section that was found for the computer's venue


@value(kw_only=True)
class DispatchPreferences:
    """The computing preferences by which a project's server decides; absent numbers are 0, which means "no limit"."""

    disk_max_used_gb: float = 0.0
    disk_max_used_pct: float = 0.0
    disk_min_free_gb: float = 0.0
    work_buf_min_days: float = 0.0
    ram_max_used_busy_pct: float = 0.0
    ram_max_used_idle_pct: float = 0.0
    max_ncpus_pct: float = 0.0


Number = float | bool


@value()
class Preference:
    """A number or switch that volunteers choose on a page, with its default there and its bounds."""

    name: str
    default: Number
    low: float = 0.0
    high: float = 1.0

    @property
    def is_switch(self) -> bool:
        """Whether it is on or off."""
        return isinstance(self.default, bool)


def _preference(name: str, low: float = 0.0, high: float = 1.0, default: Number | None = None) -> Preference:
    """Return a preference with the default of a client, unless a page has its own."""
    return Preference(name, getattr(ComputingPreferences(), name) if default is None else default, low, high)


#: What volunteers choose on pages, in the order of the family's element; units as in `ComputingPreferences`.
PREFERENCES: tuple[Preference, ...] = (
    _preference("run_on_batteries"),
    _preference("run_if_user_active"),
    _preference("run_gpu_if_user_active"),
    _preference("idle_time_to_run", 0.0, 10_000.0),
    _preference("suspend_if_no_recent_input", 0.0, 10_000.0),  # 0: never
    _preference("suspend_cpu_usage", 0.0, 100.0),  # 0: never
    Preference("start_hour", 0.0, 0.0, 24.0),  # equal to end_hour: always
    Preference("end_hour", 0.0, 0.0, 24.0),
    _preference("max_ncpus_pct", 1.0, 100.0, default=100.0),
    _preference("cpu_usage_limit", 1.0, 100.0),
    _preference("cpu_scheduling_period_minutes", 1.0, 10_000.0),
    _preference("disk_interval", 0.0, 100_000.0),
    _preference("leave_apps_in_memory"),
    _preference("work_buf_min_days", 0.0, 10.0),
    _preference("work_buf_additional_days", 0.0, 10.0),
    _preference("disk_max_used_gb", 0.0, 1e6),  # 0: no limit
    _preference("disk_min_free_gb", 0.0, 1e6, default=1.0),
    _preference("disk_max_used_pct", 0.0, 100.0),
    _preference("ram_max_used_busy_pct", 1.0, 100.0),
    _preference("ram_max_used_idle_pct", 1.0, 100.0),
    _preference("vm_max_used_pct", 1.0, 100.0),
    _preference("max_bytes_sec_up", 0.0, 1e12),  # 0: no limit
    _preference("max_bytes_sec_down", 0.0, 1e12),
    _preference("daily_xfer_limit_mb", 0.0, 1e9),
    _preference("daily_xfer_period_days", 0.0, 10_000.0),
    Preference("net_start_hour", 0.0, 0.0, 24.0),
    Preference("net_end_hour", 0.0, 0.0, 24.0),
    _preference("network_wifi_only"),
)


@value(kw_only=True)
class ExcludedGpu:
    """``exclude_gpu``: devices that a project, or one app of it, may not use."""

    url: str
    device_num: int = -1  #: -1: all
    type: str = ""  #: empty: any
    app: str = ""  #: empty: all


@value(kw_only=True)
class Proxy:
    """The proxy for network access."""

    kind: str  #: ``http`` or ``socks5``
    host: str
    port: int
    user: str = ""
    password: str = ""
    direct: tuple[str, ...] = ()  #: hosts and domains that are reached without it


@value(kw_only=True)
class ClientConfig:
    """``cc_config.xml``: options, with BOINC's defaults for missing ones."""

    log_flags: frozenset[str] = frozenset({"file_xfer", "sched_ops", "task"})
    abort_jobs_on_exit: bool = False
    allow_multiple_clients: bool = False
    alt_platforms: tuple[str, ...] = ()
    declared_devices: tuple[Coprocessor, ...] = ()  #: ``coproc``: of types that no driver reports as GPUs
    device_name: str = ""
    disallow_attach: bool = False
    dont_use_docker: bool = False  #: no jobs in containers
    exclude_gpus: tuple[ExcludedGpu, ...] = ()
    exclusive_apps: tuple[str, ...] = ()
    exclusive_gpu_apps: tuple[str, ...] = ()
    exit_when_idle: bool = False
    fetch_minimal_work: bool = False
    fetch_on_update: bool = False
    http_transfer_timeout: float = 300.0
    http_transfer_timeout_bps: float = 10.0
    ignore_gpus: Mapping[str, frozenset[int]] = field(
        default_factory=dict[str, "frozenset[int]"]
    )  #: type: instances
    max_event_log_lines: int = 2000
    max_file_xfers: int = 8
    max_file_xfers_per_project: int = 2
    max_overdue_days: float = -1.0
    max_tasks_reported: int = 0
    ncpus: int = -1
    no_alt_platform: bool = False
    no_gpus: bool = False
    no_opencl: bool = False
    no_priority_change: bool = False
    process_priority: int = -1  #: of jobs: 0 lowest, 1 low, 2 that of other programs; -1: as is usual
    process_priority_special: int = -1  #: of jobs that feed a device
    proxy: Proxy | None = None
    rec_half_life_days: float = 10.0
    report_results_immediately: bool = False
    save_stats_days: float = 30.0
    skip_cpu_benchmarks: bool = False
    simple_gui_only: bool = False
    start_delay: float = 0.0
    stderr_head: bool = False
    suppress_net_info: bool = False
    #: jobs in containers also where others are kept in the sandbox, which these cannot be
    use_containers: bool = False
    suspended_gpus: Mapping[str, frozenset[int]] = field(default_factory=dict[str, "frozenset[int]"])
    """Ours: instances that the volunteer has switched off, by type."""


@value(kw_only=True)
class AppLimits:
    """``<app>`` of ``app_config.xml``."""

    max_concurrent: int = 0
    gpu_usage: float = 0.0  #: both are in force only when both are positive
    cpu_usage: float = 0.0
    fraction_done_exact: bool = False
    report_results_immediately: bool = False


@value(kw_only=True)
class VersionOverride:
    """``<app_version>`` of ``app_config.xml``; None: as the project says."""

    app_name: str
    plan_class: str = ""
    cmdline: str = ""
    avg_ncpus: float | None = None
    ngpus: float | None = None


@value(kw_only=True)
class AppConfig:
    """``app_config.xml`` of one project; a missing file is an empty one."""

    apps: Mapping[str, AppLimits] = field(default_factory=dict[str, AppLimits])
    versions: tuple[VersionOverride, ...] = ()
    project_max_concurrent: int = 0
    report_results_immediately: bool = False
    # Ours; other clients ignore them.
    priority_group: int = 0  #: projects of a higher group come first, whatever their shares
    no_rsc: tuple[str, ...] = ()  #: device types for which no work is taken; CPU is the empty name


@value(kw_only=True)
class VersionUsage:
    """The resources of an app version, and its own arguments."""

    app_name: str
    plan_class: str = ""
    avg_ncpus: float = 1.0
    gpu_usage: float = 0.0
    cmdline: str = ""
