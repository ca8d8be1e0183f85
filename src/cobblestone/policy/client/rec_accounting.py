"""What each project has had of all devices lately (recent estimated credit), as the client computes."""

from __future__ import annotations

from dataclasses import dataclass, field

from cobblestone.policy.client.core.state import ClientState
from cobblestone.policy.client.rec import CREDIT_PER_FLOP, Devices, update_rec


@dataclass(slots=True)
class RecMemory:
    """The accounts; stored."""

    recs: list[float] = field(default_factory=list[float])
    computed: float = 0.0  #: seconds of computing that are not credited yet
    credited_at: float = 0.0

    def credit(self, state: ClientState, devices: Devices) -> None:
        """Credit the projects for what ran; the set of running tasks has not changed since the last time."""
        now = state.now
        self.credited_at = min(self.credited_at, now)  # the clock may have been set back
        elapsed = now - self.credited_at
        if elapsed < 1.0:
            return
        computed = self.computed * state.permission.throttle
        credit = [0.0] * len(self.recs)
        for job in state.running:
            if not job.always_runs:
                peak = devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus)
                credit[job.project] += computed * peak * CREDIT_PER_FLOP
        half_life = state.preferences.rec_half_life
        self.recs = [
            update_rec(rec, credit=c, seconds=elapsed, half_life=half_life)
            for rec, c in zip(self.recs, credit, strict=True)
        ]
        self.computed, self.credited_at = 0.0, now
