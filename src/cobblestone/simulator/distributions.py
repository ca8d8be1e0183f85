"""What is random in a scenario: when something is on, how large jobs are, what apps say of their progress.

Plain values, checked with :meth:`check`; every error names place, key, value and what is allowed.
"""

from __future__ import annotations

import math
import random
from typing import Literal

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.sums import float_sum
from cobblestone.domain.values import value
from cobblestone.simulator.streams import exponential

DAY = 86400.0
HOUR = 3600.0
#: Seconds; of longer ones, or with more periods, no run would end.
LONGEST_TRACE = 1e12
MAX_PERIODS = 10_000_000


def require(condition: bool, where: str, key: str, value: object, allowed: str) -> None:
    """Raise :class:`ConfigError` naming place, key, value and the allowed range unless ``condition`` holds."""
    if not condition:
        raise ConfigError(f"{where}: {key} = {value!r} is not possible; allowed: {allowed}")


def finite(where: str, key: str, value: float, low: float, high: float) -> None:
    """Raise :class:`ConfigError` unless the value is a number from ``low`` to ``high``."""
    require(math.isfinite(value) and low <= value <= high, where, key, value, f"{low:g} to {high:g}")


PeriodKind = Literal["exponential", "gamma", "weibull", "lognormal"]


@value(kw_only=True)
class OnOff:
    """An on-off process: the host's availability, or a project's.

    ``fraction`` of the time is on; on-periods have the mean length ``mean_on`` seconds.  ``trace`` (pairs
    of start and end of on-periods, in seconds) replaces both and is repeated when it ends.  With ``day_end``
    (seconds of each day; before ``day_start``: of the next day) it is on in these hours only, and the rest says when within them.
    """

    fraction: float = 1.0
    mean_on: float = 3600.0
    kind: PeriodKind = "exponential"
    shape: float = 1.0  #: gamma and Weibull: shape; lognormal: sigma of the logarithm
    trace: tuple[tuple[float, float], ...] = ()
    trace_length: float = 0.0  #: seconds after which the trace repeats; 0 = its last end
    day_start: float = 0.0
    day_end: float = 0.0  #: 0 = day and night
    weekdays_only: bool = False  #: of the hours given, those of two days in seven are off

    def check(self, where: str) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        require(0.0 < self.fraction <= 1.0, where, "fraction", self.fraction, "above 0, up to 1")
        finite(where, "mean_on", self.mean_on, 1.0, 1e10)
        require(self.kind in ("exponential", "gamma", "weibull", "lognormal"), where, "kind", self.kind,
                "exponential, gamma, weibull, lognormal")  # fmt: skip
        finite(where, "shape", self.shape, 0.05, 100.0)
        last = 0.0
        for start, end in self.trace:
            require(
                last <= start < end, where, "trace", (start, end), "periods in order, each with start < end"
            )
            last = end
        finite(where, "trace_length", self.trace_length, 0.0, LONGEST_TRACE)
        require(
            self.trace_length == 0.0 or 0.0 < last <= self.trace_length,
            where,
            "trace_length",
            self.trace_length,
            f"only with a trace, and not less than its end ({last:g}), or 0",
        )
        finite(where, "day_start", self.day_start, 0.0, DAY)
        finite(where, "day_end", self.day_end, 0.0, DAY)
        require(
            self.day_end == 0.0 or abs(self.day_end - self.day_start) >= 60.0,
            where,
            "day_end",
            self.day_end,
            f"at least a minute from day_start ({self.day_start:g}), or 0 for day and night",
        )
        require(self.has_hours or not self.day_start, where, "day_start", self.day_start, "only with day_end")
        require(
            self.has_hours or not self.weekdays_only,
            where,
            "weekdays_only",
            True,
            "only with day_start and day_end",
        )

    def check_periods(self, where: str, duration: float) -> None:
        """Raise :class:`ConfigError` if it goes on and off too often in so many seconds."""
        length = self.trace_length or self.trace[-1][1] if self.trace else 0.0
        cycle = length / len(self.trace) if self.trace else self.mean_on / self.fraction
        if (self.trace or self.fraction < 1.0) and duration > MAX_PERIODS * cycle:
            raise ConfigError(
                f"{where}: it would go on and off {duration / cycle:.3g} times in {duration:g} s; allowed: {MAX_PERIODS};"
                " take longer periods or a shorter duration"
            )

    @property
    def has_hours(self) -> bool:
        """Whether it is on in some hours of the day only."""
        return self.day_end > 0.0

    @property
    def hours_on(self) -> float:
        """Seconds of a day in which it may be on."""
        return (self.day_end - self.day_start) % DAY or DAY

    @property
    def part_on(self) -> float:
        """Part of all time that is on in the long run."""
        part = self.fraction
        if self.trace:
            length = self.trace_length or self.trace[-1][1]
            part = float_sum(end - start for start, end in self.trace) / length
        if self.has_hours:
            part *= self.hours_on / DAY * (5.0 / 7.0 if self.weekdays_only else 1.0)
        return part

    def period(self, rng: random.Random, *, on: bool) -> float:
        """Draw the length of one on- or off-period."""
        mean = self.mean_on if on else self.mean_on * (1.0 - self.fraction) / self.fraction
        if self.kind == "exponential":
            return exponential(rng, mean)
        if self.kind == "gamma":
            return rng.gammavariate(self.shape, mean / self.shape)
        if self.kind == "weibull":
            return rng.weibullvariate(mean / math.gamma(1.0 + 1.0 / self.shape), self.shape)
        return rng.lognormvariate(math.log(mean) - self.shape * self.shape / 2.0, self.shape)


SizeKind = Literal["normal", "lognormal", "pareto", "two_humped", "empirical"]
SIZE_KINDS = ("normal", "lognormal", "pareto", "two_humped", "empirical")


@value(kw_only=True)
class JobSizes:
    """Distribution of the true FLOPs of a job.

    Normal, cut at 0; log-normal (same mean and standard deviation); Pareto with the mean and the tail index
    ``shape``; two humps, log-normal each with the relative deviation ``stdev / mean``; or given values.
    """

    mean: float = 1.3e13
    stdev: float = 0.0
    kind: SizeKind = "normal"
    shape: float = 1.5  #: Pareto: P(size > x) falls as x ** -shape; the smaller, the heavier the tail
    second_mean: float = 0.0  #: two humps: mean of the second one
    second_part: float = 0.5  #: ... and the part of the jobs in it
    values: tuple[float, ...] = ()  #: empirical: drawn with equal probability

    def check(self, where: str) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        finite(where, "flops_mean", self.mean, 1.0, 1e24)
        finite(where, "flops_stdev", self.stdev, 0.0, 1e27)
        require(self.kind in SIZE_KINDS, where, "flops_kind", self.kind, ", ".join(SIZE_KINDS))
        finite(where, "flops_shape", self.shape, 1.01, 100.0)
        if self.kind == "two_humped":
            finite(where, "flops_second_mean", self.second_mean, 1.0, 1e24)
        else:
            require(
                self.second_mean == 0.0,
                where,
                "flops_second_mean",
                self.second_mean,
                "only with flops_kind = 'two_humped'",
            )
        finite(where, "flops_second_part", self.second_part, 0.0, 1.0)
        require(
            self.kind != "empirical" or bool(self.values),
            where,
            "flops_values",
            self.values,
            "at least one value",
        )
        for size in self.values:
            finite(where, "flops_values", size, 0.0, 1e24)

    @property
    def average(self) -> float:
        """Mean FLOPs (of the normal distribution: before it is cut at 0)."""
        if self.kind == "empirical":
            return math.fsum(self.values) / len(self.values)
        if self.kind == "two_humped":
            return self.mean * (1.0 - self.second_part) + self.second_mean * self.second_part
        return self.mean

    def draw(self, rng: random.Random) -> float:
        """Draw one size in FLOPs, never negative."""
        if self.kind == "empirical":
            return self.values[int(rng.random() * len(self.values)) % len(self.values)]
        if self.kind == "pareto":
            return self.mean * (self.shape - 1.0) / self.shape * rng.paretovariate(self.shape)
        mean = self.mean
        if self.kind == "two_humped" and rng.random() < self.second_part:
            mean = self.second_mean
        if self.stdev == 0.0:
            return mean
        if self.kind == "normal":
            return max(0.0, rng.gauss(mean, self.stdev))
        spread = math.log1p((self.stdev / self.mean) ** 2)
        return rng.lognormvariate(math.log(mean) - spread / 2.0, math.sqrt(spread))


ProgressKind = Literal["exact", "missing", "late", "stepped", "offset", "power", "lying"]
#: Kinds of progress, and the range of ``amount`` of those that have one.
AMOUNTS: dict[str, tuple[float, float]] = {
    "exact": (0.0, 0.0),
    "missing": (0.0, 0.0),
    "late": (0.001, 1.0),
    "stepped": (0.001, 1.0),
    "offset": (0.0, 0.99),
    "power": (0.05, 20.0),
    "lying": (0.001, 1.0),
}
#: What a lying app stays at.
NEARLY_DONE = 0.99


@value(kw_only=True)
class Progress:
    """What an app reports when the part x of its work is done.

    ``exact``: x.  ``missing``: never anything.  ``late``: nothing before x = ``amount``, then x.  ``stepped``: the last
    multiple of ``amount``.  ``offset``: it begins at ``amount`` and rises evenly to 1.  ``power``: x to the power of
    ``amount``.  ``lying``: it comes to 0.99 at x = ``amount`` and stays there.
    """

    kind: ProgressKind = "exact"
    amount: float = 0.0

    def check(self, where: str) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        require(self.kind in AMOUNTS, where, "kind", self.kind, ", ".join(AMOUNTS))
        finite(where, f"amount (of kind {self.kind!r})", self.amount, *AMOUNTS[self.kind])

    def reported(self, x: float) -> float | None:
        """Return the fraction that the app reports; None if it reports nothing."""
        if self.kind == "exact":
            return x
        if self.kind == "missing" or (self.kind == "late" and x < self.amount):
            return None
        if self.kind == "stepped":
            return math.floor(x / self.amount) * self.amount if x < 1.0 else 1.0
        if self.kind == "offset":
            return self.amount + (1.0 - self.amount) * x
        if self.kind == "power":
            return x**self.amount
        if self.kind == "lying":
            return min(NEARLY_DONE, NEARLY_DONE * x / self.amount)
        return x
