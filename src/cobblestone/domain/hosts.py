"""Hosts, their descriptions of themselves, and the networks of their addresses."""

from __future__ import annotations

import ipaddress

from cobblestone.domain.statistics import CreditStatement, RunningAverage
from cobblestone.domain.values import AppVersionId, HostId, UserId, value

#: Name of the resource that every host has; GPU types are named as the client names them (``NVIDIA``, ``ATI`` …).
CPU = "CPU"


@value(kw_only=True)
class Coprocessor:
    """GPUs of one type on a host, as the client reports them."""

    type: str
    count: int = 1
    name: str = ""
    peak_flops: float = 0.0  #: of one instance
    ram: float = 0.0  #: bytes
    driver_version: int = 0


@value(kw_only=True)
class ExportedHardware:
    """The part of a description that is exported: to read all of it would take three times as long."""

    timezone: int = 0  #: seconds east of UTC
    p_ncpus: int = 1
    p_vendor: str = ""
    p_model: str = ""
    p_fpops: float = 0.0  #: floating-point operations per second of one CPU (Whetstone)
    p_iops: float = 0.0
    p_membw: float = 0.0
    m_nbytes: float = 0.0
    m_cache: float = 0.0
    m_swap: float = 0.0
    d_total: float = 0.0
    d_free: float = 0.0
    os_name: str = ""
    os_version: str = ""
    n_bwup: float = 0.0  #: bytes per second
    n_bwdown: float = 0.0
    coprocessors: tuple[Coprocessor, ...] = ()


@value(kw_only=True)
class HostDescription(ExportedHardware):
    """Hardware, software and availability of a computer, as its client describes them."""

    domain_name: str = ""
    ip_addr: str = ""
    p_features: str = ""
    d_boinc_used_total: float = 0.0
    d_boinc_used_project: float = 0.0
    product_name: str = ""
    virtualbox_version: str = ""
    docker_version: str = ""
    on_frac: float = 1.0
    connected_frac: float = 1.0
    active_frac: float = 1.0
    gpu_active_frac: float = 1.0
    client_version: int = 0  #: 10000 * major + 100 * minor + release
    platforms: tuple[str, ...] = ()  #: primary platform first
    usable_ncpus: float = 0.0  #: what the volunteer's preferences leave to the client …
    usable_ram: float = 0.0  #: … bytes …
    usable_disk: float = 0.0  #: … bytes that are still free


@value(kw_only=True)
class Host:
    """A computer attached to the project."""

    id: HostId
    user_id: UserId
    host_cpid: str = ""  #: MD5 of the client's id and the e-mail address
    rpc_seqno: int = 0
    rpc_time: float = 0.0
    create_time: float = 0.0
    venue: str = ""
    description: HostDescription = HostDescription()
    credit: CreditStatement = CreditStatement()
    blocked_reason: str = ""  #: not empty: gets no work
    #: what apps of every platform lack there; see `cobblestone.policy.dispatch.versions`
    missing_runtime: str = ""
    missing_since: float = 0.0  #: when that was noticed, Unix seconds
    label: str = ""  #: the owner's own name for it
    hidden: bool = False  #: by its owner, also when the others are shown


@value(kw_only=True)
class HostVersionStatistics:
    """Statistics of one app version on one host (anonymous platform: of one kind of processor)."""

    pfc: RunningAverage = RunningAverage()  #: peak FLOP count / rsc_fpops_est
    elapsed: RunningAverage = RunningAverage()  #: elapsed seconds / rsc_fpops_est
    turnaround: RunningAverage = RunningAverage()  #: seconds from sending to receipt
    consecutive_valid: int = 0
    error_rate: float = 0.1  #: each result weighs 0.05; consecutive_valid replaced it in the deployed system
    scale_probation: bool = True  #: design: the host scale is not trusted yet
    host_scale_time: float = 0.0  #: design: no host scale before this time (Unix seconds)


@value(kw_only=True)
class HostAppVersion:
    """Record of one app version on one host: quota, and what is known of its reliability and speed."""

    host_id: HostId
    app_version_id: AppVersionId  #: anonymous platform: the generalised id, see `cobblestone.domain.apps`
    max_jobs_per_day: int = 0  #: 0 = not initialised
    n_jobs_today: int = 0
    quota_day: int = 0  #: day number that ``n_jobs_today`` belongs to
    statistics: HostVersionStatistics = HostVersionStatistics()
    #: failed, invalid or late ones, less those that were valid since; bounded, see the daily quota
    bad_results: int = 0


@value(kw_only=True)
class VersionStatus:
    """The state of a host for one app version."""

    app: str  #: what volunteers call it
    version_num: int  #: 100 * major + minor
    plan_class: str
    jobs_per_day: int  #: before it is multiplied by processors; 1 after many bad results
    full_quota: int
    sent_today: int
    bad_results: int  #: more than valid ones since
    next_quota_seconds: float  #: until more may be sent, if today's are used up
    throttled: bool  #: bad results leave it one task a day, or less
    reliable: bool  #: gets tasks that others failed to return
    valid_in_a_row: int
    check_probability: float  #: adaptive replication: of its tasks that others compute too; 1 for other apps


IPV4_PREFIX = 24
#: What one customer of a provider gets, as a rule.
IPV6_PREFIX = 48


def network_of(address: str) -> str:
    """Return the network of an address: ``192.0.2.0/24`` or ``2001:db8::/48``; anything else is returned unchanged."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        parsed = parsed.ipv4_mapped
    prefix = IPV4_PREFIX if parsed.version == 4 else IPV6_PREFIX
    return str(ipaddress.ip_network((parsed, prefix), strict=False))
