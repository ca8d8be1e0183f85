"""What every part of a long-running service shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from cobblestone.ops.clock import Clock, system_clock
from cobblestone.ops.metrics import Metrics
from cobblestone.service.health import Health
from cobblestone.service.signals import WakeupSignals
from cobblestone.store.engine.database import Store


@dataclass(slots=True, kw_only=True)
class ProcessContext:
    """A service that runs: its secret and clock, and the state of this process."""

    secret: bytes  #: cookies and signatures of this service are made from it
    master_url: str  #: its own address, as people and programs type it; ends in a slash
    clock: Clock = system_clock
    signals: WakeupSignals = field(default_factory=WakeupSignals)
    started: float = 0.0  #: Unix seconds
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)

    def url(self, path: str) -> str:
        """Return an address below the service's own."""
        return self.master_url + path.lstrip("/")


@dataclass(slots=True, kw_only=True)
class ServiceContext(ProcessContext):
    """A service with a database of rows.

    A service derives its own context from this one, or from the one above, and adds what only its parts know.
    """

    store: Store
