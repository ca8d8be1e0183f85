"""What the dispatch rule answers."""

from __future__ import annotations

from cobblestone.domain.apps import AppVersion
from cobblestone.domain.hosts import CPU, HostAppVersion
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import value
from cobblestone.policy.dispatch.catalogue import Candidate


@value(kw_only=True)
class ResourceUsage:
    """What a version uses on a host, and how fast it is expected to be there."""

    avg_ncpus: float = 1.0
    gpu_type: str = ""  #: empty = CPU only
    ngpus: float = 0.0
    command_line: str = ""  #: of the version and its plan class together; the job's own comes first
    flops: float = 1e9  #: projected FLOPS; the client divides ``rsc_fpops_est`` and ``rsc_fpops_bound`` by it
    peak_flops: float = 1e9  #: of the devices used; the basis of credit
    client_flops: float = 0.0  #: anonymous platform: speed by which the client estimates; 0 = as it is told

    @property
    def operations_factor(self) -> float:
        """By which the job's operations are multiplied so that the client's estimate comes out right."""
        return self.client_flops / self.flops if self.client_flops > 0 else 1.0

    @property
    def resource(self) -> str:
        """Name of the processor type whose request this usage fills."""
        return self.gpu_type or CPU


@value(kw_only=True)
class Assignment:
    """One result for the requesting host."""

    candidate: Candidate
    version: AppVersion
    platform: str  #: a platform that the client named; never the pseudo platform
    usage: ResourceUsage
    report_deadline: float  #: Unix seconds, as the client is told (no grace period)
    estimated_seconds: float  #: expected elapsed time, availability of the host included
    hr_class: int = 0  #: class that the workunit becomes committed to; 0 = none
    commit_version: bool = False  #: the workunit becomes committed to the version
    quorum: int = 0  #: adaptive replication: so many results must agree; 0 = as it is


@value(kw_only=True)
class DispatchDecision:
    """The results to send, and why not more."""

    assignments: tuple[Assignment, ...] = ()
    refusals: tuple[Reason, ...] = ()  #: most important first; never empty when nothing is sent
    request_delay: float = 0.0  #: seconds that the client shall wait; 0 = it decides itself
    records: tuple[HostAppVersion, ...] = ()  #: records whose quota counters changed; to be stored
