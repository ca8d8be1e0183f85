"""Options of a replay, and the figures that it gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

from cobblestone.policy.credit.book import TrickleRules
from cobblestone.policy.credit.claims import DEPLOYED, ClaimMode, CreditUnit
from cobblestone.policy.credit.rac import HALF_LIFE

MODES: tuple[ClaimMode, ...] = tuple(ClaimMode)
NO_CLAIM = len(MODES)
"""Stands in `Replay.modes` for lines that are not of valid results."""

SCALE_INTERVAL = 600.0
"""Seconds of log time between updates of version scales (server-semantics: version scales)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Options of a replay beyond the system."""

    unit: CreditUnit = DEPLOYED
    max_granted: float | None = None
    half_life: float = HALF_LIFE
    scale_interval: float = SCALE_INTERVAL
    host_scale_check: bool = False  #: the app's option: host scales of proven hosts only
    credit_per_cpu_second: float = 0.0  #: second system: published average; 0: of the log's own sums
    trickles: TrickleRules = TrickleRules()

    @property
    def limit(self) -> float:
        """Return the limit of a single grant."""
        return self.unit.tflops_year if self.max_granted is None else self.max_granted


@dataclass(frozen=True, slots=True)
class Statements:
    """Total and recent average credit of all hosts (users, teams, app versions) of a log."""

    ids: Sequence[int]
    totals: Sequence[float]
    values: Sequence[float]
    times: Sequence[float]

    def __len__(self) -> int:
        """Return their number."""
        return len(self.ids)

    def rows(self) -> Iterator[tuple[int, float, float, float]]:
        """Return (id, total, recent average, its time), as plain numbers."""
        for row in zip(self.ids, self.totals, self.values, self.times, strict=True):
            yield int(row[0]), float(row[1]), float(row[2]), float(row[3])


@dataclass(frozen=True, slots=True)
class HostRecords:
    """The final record of every app version on every host of a log."""

    host_ids: Sequence[int]
    version_ids: Sequence[int]
    samples: Sequence[int]  #: of PFC / estimate
    means: Sequence[float]
    consecutive_valid: Sequence[int]
    error_rates: Sequence[float]
    on_probation: Sequence[bool]
    host_scale_times: Sequence[float]

    def rows(self) -> Iterator[tuple[int | float | bool, ...]]:
        """Yield the figures of one record after the other, as plain numbers."""
        kinds = (int, int, int, float, int, float, bool, float)
        columns = (getattr(self, each.name) for each in fields(self))
        for row in zip(*columns, strict=True):
            yield tuple(kind(figure) for kind, figure in zip(kinds, row, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Figures per line, in the order of the log, and their totals.  Lists, or NumPy arrays of the compiled twin.

    Lines of trickle messages were granted provisional credit; those of wrong results the negative of it, which is taken back.
    """

    system: str
    unit: CreditUnit
    claimed: Sequence[float]
    granted: Sequence[float]
    modes: Sequence[int]  #: places in `MODES`, or `NO_CLAIM`
    hosts: Statements
    users: Statements
    teams: Statements
    versions: Statements
    records: HostRecords
    version_scales: dict[int, float] = field(default_factory=dict[int, float])
