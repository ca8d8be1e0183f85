"""A simulated job."""

from __future__ import annotations

import math

from cobblestone.simulator.scenario import AppModel


class Task:
    """One job on the simulated host.  Times are in seconds, sizes in seconds on the job's own devices."""

    __slots__ = (
        "app",
        "completed_at",
        "cpus",
        "done",
        "edf",
        "failed",
        "given_up",
        "gpu",
        "gpus",
        "id",
        "limit",
        "lost",
        "number",
        "peak",
        "project",
        "rate",
        "raw",
        "received",
        "report_deadline",
        "run_start",
        "running",
        "saved",
        "size",
        "slot",
    )

    def __init__(
        self,
        *,
        project: int,
        app: AppModel,
        number: int,
        raw: float,
        size: float,
        received: float,
        peak: float,
    ) -> None:
        self.project = project
        self.app = app
        self.number = number
        self.id = ""  #: on the host that has it
        self.raw = raw  #: the project's estimate, uncorrected
        self.size = size  #: what it really needs
        self.limit = size  #: where it ends: its size, or earlier if it fails
        self.failed = False
        self.given_up = False  #: by the client, because it would have been late
        self.received = received
        self.report_deadline = received + app.latency_bound
        self.peak = peak  #: FLOP/s of the devices that it occupies
        self.cpus = app.cpus
        self.gpu = app.gpu
        self.gpus = app.gpus
        self.done = 0.0
        self.saved = 0.0  #: of ``done``, what the last checkpoint holds
        self.lost = 0.0  #: done and lost again
        self.running = False
        self.run_start = received
        self.rate = 1.0
        self.edf = False
        self.completed_at = 0.0
        self.slot = 0

    @property
    def fraction_done(self) -> float | None:
        """What its app reports of its progress, 0 to 1; None if nothing."""
        part = self.done / self.size if self.size > 0.0 else 1.0
        return self.app.progress.reported(part)

    @property
    def width(self) -> int:
        """Devices that it covers in a picture."""
        return 1 if self.gpu else max(1, math.ceil(self.cpus))
