"""A simulated job."""

from __future__ import annotations

import math

from cobblestone.simulator.scenario import AppModel


class Task:
    """One job on the simulated host.  Times are in seconds, sizes in seconds on the job's own devices."""

    __slots__ = (
        "app",
        "arrived",
        "completed_at",
        "counted",
        "cpus",
        "cutoff",
        "done",
        "edf",
        "failed",
        "given_up",
        "gpu",
        "gpus",
        "last_checkpoint",
        "limit",
        "lost",
        "number",
        "peak",
        "project",
        "rate",
        "raw",
        "received",
        "remaining",
        "report_at",
        "report_deadline",
        "run_start",
        "running",
        "saved",
        "serial",
        "size",
        "slot",
        "start_order",
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
        self.raw = raw  #: the project's estimate, uncorrected
        self.size = size  #: what it really needs
        self.limit = size  #: where it ends: its size, or earlier if it fails
        self.failed = False
        self.given_up = False  #: by the client, because it would have been late
        self.received = received
        self.report_deadline = received + app.latency_bound
        self.cutoff = self.report_deadline  #: computation deadline
        self.peak = peak  #: FLOP/s of the devices that it occupies
        self.cpus = app.cpus
        self.gpu = app.gpu
        self.gpus = app.gpus
        self.done = 0.0
        self.counted = 0.0  #: of ``done``, what the client has accounted for
        self.saved = 0.0  #: of ``done``, what the last checkpoint holds
        self.lost = 0.0  #: done and lost again
        self.last_checkpoint = received
        self.remaining = raw
        self.serial = 0  #: rank by arrival on the host
        self.start_order = 0
        self.running = False
        self.run_start = received
        self.rate = 1.0
        self.edf = False
        self.arrived = True  #: input files are here
        self.completed_at = 0.0
        self.report_at = 0.0  #: time from which its report is due
        self.slot = 0

    @property
    def fraction_done(self) -> float | None:
        """What its app reports of its progress, 0 to 1; None if nothing."""
        part = self.done / self.size if self.size > 0.0 else 1.0
        return self.app.progress.reported(part)

    @property
    def app_name(self) -> str:
        """Name of its app, to which limits on concurrent jobs refer."""
        return self.app.name

    @property
    def working_set(self) -> float:
        """Bytes of memory."""
        return self.app.working_set

    @property
    def width(self) -> int:
        """Devices that it covers in a picture."""
        return 1 if self.gpu else max(1, math.ceil(self.cpus))
