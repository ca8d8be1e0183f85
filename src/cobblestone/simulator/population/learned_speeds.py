"""How fast hosts are with each app version, as a simulated project learns it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.values import AppVersionId, HostId, changed
from cobblestone.domain.work import JobLimits
from cobblestone.policy.credit.claims import Claim, ClaimInput, VersionStatistics, WorkunitFacts
from cobblestone.policy.credit.host_records import host_version_after, version_after
from cobblestone.policy.credit.scales import learn_run_times
from cobblestone.policy.dispatch.catalogue import PeakFlopCount

VERSIONS_READ_AFTER = 600.0  #: seconds between two looks of the scheduler at the means of app versions

_NO_CLAIM = Claim(amount=0.0)


class LearnedSpeeds:
    """Records of app versions on hosts, and means of app versions over all hosts."""

    def __init__(self) -> None:
        self.records: dict[HostId, dict[AppVersionId, HostAppVersion]] = {}  #: by host
        self.peak_flop_counts: dict[AppVersionId, PeakFlopCount] = {}  #: as the scheduler knows them
        self._versions: dict[AppVersionId, VersionStatistics] = {}
        self._look = -math.inf

    def learn(self, limits: JobLimits, valid: Sequence[ClaimInput]) -> None:
        """Learn from the run times of a workunit's valid results."""
        facts = WorkunitFacts(rsc_fpops_est=limits.rsc_fpops_est, rsc_fpops_bound=limits.rsc_fpops_bound)
        learned = learn_run_times(valid, [_NO_CLAIM] * len(valid), facts)
        for host in learned.host_versions:
            mine = self.records[host.host_id]
            record = mine[host.app_version_id]
            mine[host.app_version_id] = changed(
                record, statistics=host_version_after(record.statistics, host)
            )
        for version in learned.versions:
            known = self._versions.get(version.app_version_id, VersionStatistics())
            self._versions[version.app_version_id] = version_after(known, version)

    def look_at_versions(self, now: float) -> None:
        """Update the scheduler's means of app versions when due."""
        if now < self._look:
            return
        self._look = now + VERSIONS_READ_AFTER
        for id_, version in self._versions.items():
            self.peak_flop_counts[id_] = PeakFlopCount(n=version.pfc.n, avg=version.pfc.mean)
