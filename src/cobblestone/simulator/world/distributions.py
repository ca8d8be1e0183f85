"""What is random in a scenario: independent streams of random numbers, distributions, and recorded availability.

Random numbers: one independent stream per purpose and project, so that two policies meet the same world.

Also the generator of the C library that the simulator of 2007 used, for reproducing its published figures
draw by draw.

What is random in a scenario: when something is on, how large jobs are, what apps say of their progress.

Plain values, checked with :meth:`check`; every error names place, key, value and what is allowed.

Recorded availability in the Failure Trace Archive's event format.

A line of ``event_trace.tab`` holds, separated by tabs: event id, component id, node id, platform id, node
name, event type (1 = available, 0 = not), start, stop (seconds), end reason ...  Lines that begin with
``#`` are comments.
"""

from __future__ import annotations

import math
import random
from dataclasses import field, fields
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast, get_args

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import DAY, float_sum, value


class Uniform(Protocol):
    """A source of numbers from [0, 1)."""

    def random(self) -> float: ...


class Streams:
    """Gives every purpose its own generator, derived from one seed."""

    def __init__(self, seed: int, *within: str) -> None:
        self.seed = seed
        self._within = within

    def stream(self, *names: str) -> random.Random:
        """Return the generator for a purpose; the same names give the same numbers."""
        return random.Random("/".join((str(self.seed), *self._within, *names)))

    def within(self, *names: str) -> Streams:
        """Return the generators of one of many, such as one host of a population."""
        return Streams(self.seed, *self._within, *names)


class CLibraryRandom(random.Random):
    """``rand()`` of the GNU C library (additive feedback, r[i] = r[i-3] + r[i-31]), scaled by RAND_MAX.

    One instance serves all purposes, as in the original.
    """

    def __new__(cls, seed: int = 1) -> CLibraryRandom:
        return super().__new__(cls)

    def __init__(self, seed: int = 1) -> None:
        super().__init__(0)
        state = [seed or 1]
        for _ in range(30):
            word = (16807 * state[-1]) % 2147483647
            state.append(word)
        self._state = state
        self._index = 0
        for i in range(31, 34):
            self._state[i % 31] = state[i - 31]
        self._index = 34
        for _ in range(310):
            self._next()

    @property
    def words(self) -> list[int]:
        """The last 31 words, each at its number modulo 31."""
        return self._state

    @property
    def index(self) -> int:
        """The number of the next word."""
        return self._index

    def _next(self) -> int:
        i = self._index
        state = self._state
        word = (state[(i - 31) % 31] + state[(i - 3) % 31]) & 0xFFFFFFFF
        state[i % 31] = word
        self._index = i + 1
        return word >> 1

    def random(self) -> float:
        """Return the next number of [0, 1]; 1 itself occurs about once in two milliards."""
        return self._next() / 2147483647


def exponential(rng: Uniform, mean: float) -> float:
    """Return a sample of the exponential distribution, by inversion."""
    return -mean * math.log(1.0 - min(rng.random(), 1.0 - 2.0**-53))


def normal_by_inversion(rng: Uniform) -> float:
    """Return a standard normal sample, by inversion."""
    return normal_of(rng.random())


def normal_of(u: float) -> float:
    """Return which normal number is above this part of all, by the rational approximation of Odeh and Evans (1974)."""
    tail = u if u < 0.5 else 1.0 - u
    t = math.sqrt(-2.0 * math.log(max(tail, 1e-300)))
    over = 0.322232431088 + t * (1.0 + t * (0.342242088547 + t * (0.0204231210245 + t * 0.453642210148e-4)))
    under = 0.099348462606 + t * (
        0.588581570495 + t * (0.531103462366 + t * (0.10353775285 + t * 0.38560700634e-2))
    )
    z = t - over / under
    return -z if u < 0.5 else z


#: Seconds; of longer ones, or with more periods, no run would end.
LONGEST_TRACE = 1e12
MAX_PERIODS = 10_000_000
RANGE = "range"
V = TypeVar("V", int, float)


def require(condition: bool, where: str, key: str, value: object, allowed: str) -> None:
    """Raise :class:`ConfigError` naming place, key, value and the allowed range unless ``condition`` holds."""
    if not condition:
        raise ConfigError(f"{where}: {key} = {value!r} is not possible; allowed: {allowed}")


def within(low: float, high: float, default: V) -> V:
    """Return a field of a `Checked` value with this range and default."""
    return field(default=default, metadata={RANGE: (low, high)})


class Checked:
    """A part of a scenario that says which of its values are impossible; ``prefix``: what files put before their names."""

    __slots__ = ()

    def require(self, condition: bool, where: str, key: str, allowed: str, *, prefix: str = "") -> None:
        """Raise :class:`ConfigError` naming place, key, its value and the allowed range unless ``condition`` holds."""
        require(condition, where, f"{prefix}{key}", getattr(self, key), allowed)

    def check_ranges(self, where: str, *, prefix: str = "") -> None:
        """Raise :class:`ConfigError` unless each field that has a range is a number in it."""
        for each in fields(cast("Any", self)):
            if RANGE in each.metadata:
                low, high = each.metadata[RANGE]
                self.require_range(where, low, high, each.name, prefix=prefix)

    def require_range(self, where: str, low: float, high: float, key: str, *, prefix: str = "") -> None:
        """Raise :class:`ConfigError` unless this value is a number from ``low`` to ``high``."""
        allowed = " to ".join(str(end) if isinstance(end, int) else f"{end:g}" for end in (low, high))
        number = getattr(self, key)
        self.require(math.isfinite(number) and low <= number <= high, where, key, allowed, prefix=prefix)


PeriodKind = Literal["exponential", "gamma", "weibull", "lognormal"]
PERIOD_KINDS = get_args(PeriodKind)


@value(kw_only=True)
class OnOff(Checked):
    """An on-off process: the host's availability, or a project's.

    ``fraction`` of the time is on; on-periods have the mean length ``mean_on`` seconds.  ``trace`` (pairs
    of start and end of on-periods, in seconds) replaces both and is repeated when it ends.  With ``day_end``
    (seconds of each day; before ``day_start``: of the next day) it is on in these hours only, and the rest says when within them.
    """

    fraction: float = 1.0
    mean_on: float = within(1.0, 1e10, 3600.0)
    kind: PeriodKind = "exponential"
    shape: float = within(0.05, 100.0, 1.0)  #: gamma and Weibull: shape; lognormal: sigma of the logarithm
    trace: tuple[tuple[float, float], ...] = ()
    #: seconds after which the trace repeats; 0 = its last end
    trace_length: float = within(0.0, LONGEST_TRACE, 0.0)
    day_start: float = within(0.0, DAY, 0.0)
    day_end: float = within(0.0, DAY, 0.0)  #: 0 = day and night
    weekdays_only: bool = False  #: of the hours given, those of two days in seven are off

    def check(self, where: str) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        self.require(0.0 < self.fraction <= 1.0, where, "fraction", "above 0, up to 1")
        self.check_ranges(where)
        self.require(self.kind in PERIOD_KINDS, where, "kind", ", ".join(PERIOD_KINDS))
        last = 0.0
        for start, end in self.trace:
            require(
                last <= start < end, where, "trace", (start, end), "periods in order, each with start < end"
            )
            last = end
        fits = self.trace_length == 0.0 or 0.0 < last <= self.trace_length
        text = f"only with a trace, and not less than its end ({last:g}), or 0"
        self.require(fits, where, "trace_length", text)
        fits = self.day_end == 0.0 or abs(self.day_end - self.day_start) >= 60.0
        text = f"at least a minute from day_start ({self.day_start:g}), or 0 for day and night"
        self.require(fits, where, "day_end", text)
        self.require(self.has_hours or not self.day_start, where, "day_start", "only with day_end")
        fits = self.has_hours or not self.weekdays_only
        self.require(fits, where, "weekdays_only", "only with day_start and day_end")

    def check_periods(self, where: str, duration: float) -> None:
        """Raise :class:`ConfigError` if it switches on and off too often in this many seconds."""
        length = self.trace_length or self.trace[-1][1] if self.trace else 0.0
        cycle = length / len(self.trace) if self.trace else self.mean_on / self.fraction
        if (self.trace or self.fraction < 1.0) and duration > MAX_PERIODS * cycle:
            raise ConfigError(
                f"{where}: it would go on and off {duration / cycle:.3g} times in {duration:g} s; allowed: {MAX_PERIODS};"
                " take longer periods or a shorter duration"
            )

    @property
    def has_hours(self) -> bool:
        """Return whether it is on only in some hours of the day."""
        return self.day_end > 0.0

    @property
    def hours_on(self) -> float:
        """Return the seconds of a day in which it may be on."""
        return (self.day_end - self.day_start) % DAY or DAY

    @property
    def part_on(self) -> float:
        """Return the long-run fraction of time that is on."""
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
SIZE_KINDS = get_args(SizeKind)


@value(kw_only=True)
class JobSizes(Checked):
    """Distribution of the true FLOPs of a job.

    Normal, cut at 0; log-normal (same mean and standard deviation); Pareto with the mean and the tail index
    ``shape``; two humps, log-normal each with the relative deviation ``stdev / mean``; or given values.
    """

    mean: float = within(1.0, 1e24, 1.3e13)
    stdev: float = within(0.0, 1e27, 0.0)
    kind: SizeKind = "normal"
    #: Pareto: P(size > x) falls as x ** -shape; the smaller, the heavier the tail
    shape: float = within(1.01, 100.0, 1.5)
    second_mean: float = 0.0  #: two humps: mean of the second one
    second_part: float = within(0.0, 1.0, 0.5)  #: ... and the part of the jobs in it
    values: tuple[float, ...] = ()  #: empirical: drawn with equal probability

    def check(self, where: str) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        self.check_ranges(where, prefix="flops_")
        self.require(self.kind in SIZE_KINDS, where, "kind", ", ".join(SIZE_KINDS), prefix="flops_")
        if self.kind == "two_humped":
            self.require_range(where, 1.0, 1e24, "second_mean", prefix="flops_")
        else:
            text = "only with flops_kind = 'two_humped'"
            self.require(self.second_mean == 0.0, where, "second_mean", text, prefix="flops_")
        fits = self.kind != "empirical" or bool(self.values)
        self.require(fits, where, "values", "at least one value", prefix="flops_")
        for size in self.values:
            require(0.0 <= size <= 1e24, where, "flops_values", size, "0 to 1e+24")

    @property
    def average(self) -> float:
        """Return the mean FLOPs (of the normal distribution: before truncation at 0)."""
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
class ProgressCurve(Checked):
    """The progress that an app reports when the part x of its work is done.

    ``exact``: x.  ``missing``: never anything.  ``late``: nothing before x = ``amount``, then x.  ``stepped``: the last
    multiple of ``amount``.  ``offset``: it begins at ``amount`` and rises evenly to 1.  ``power``: x to the power of
    ``amount``.  ``lying``: it comes to 0.99 at x = ``amount`` and stays there.
    """

    kind: ProgressKind = "exact"
    amount: float = 0.0

    def check(self, where: str) -> None:
        """Raise :class:`ConfigError` if a value is impossible."""
        self.require(self.kind in AMOUNTS, where, "kind", ", ".join(AMOUNTS))
        low, high = AMOUNTS[self.kind]
        fits = math.isfinite(self.amount) and low <= self.amount <= high
        require(fits, where, f"amount (of kind {self.kind!r})", self.amount, f"{low:g} to {high:g}")

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


MAX_TRACE_BYTES = 256 * 1024 * 1024
_NODE, _TYPE, _START, _STOP = 2, 5, 6, 7


def read_trace(path: Path, *, node: str | None = None) -> tuple[tuple[tuple[float, float], ...], float]:
    """Return the on-periods of one node (the first of the file unless named), beginning at 0, and the
    length of the trace.

    Raises :class:`ConfigError` naming file, line and value.
    """
    try:
        if not path.is_file():  # of a device there is no end
            path.open("rb").close()  # raises what is wrong with it, if it is not there or a folder
            raise ConfigError(f"{path}: is not a file")
        if path.stat().st_size > MAX_TRACE_BYTES:
            raise ConfigError(
                f"{path}: larger than {MAX_TRACE_BYTES} bytes; cut out the nodes that are needed"
            )
        with path.open(encoding="utf-8", errors="replace") as lines:
            events = [
                event for number, line in enumerate(lines, 1) if (event := _event(path, number, line, node))
            ]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    if node is None and events:
        node = events[0][0]
    mine = sorted((start, stop, kind) for name, kind, start, stop in events if name == node)
    periods: list[tuple[float, float]] = []
    if node is None:
        raise ConfigError(f"{path}: no event; a line holds at least {_STOP + 1} columns separated by tabs")
    if not mine:
        raise ConfigError(f"{path}: no event of node {node!r}; the third column names the node")
    origin = mine[0][0]
    for start, stop, kind in mine:
        if kind != 1:
            continue
        begin, end = start - origin, stop - origin
        if periods and begin <= periods[-1][1]:
            periods[-1] = (periods[-1][0], max(end, periods[-1][1]))
        else:
            periods.append((begin, end))
    if not periods:
        raise ConfigError(f"{path}: node {node!r} is never available (no event of type 1)")
    return tuple(periods), max(stop for _, stop, _ in mine) - origin


def _event(path: Path, number: int, line: str, node: str | None) -> tuple[str, int, float, float] | None:
    if not line.strip() or line.startswith("#"):
        return None
    columns = line.rstrip("\n").split("\t")
    if len(columns) <= _STOP:
        raise ConfigError(
            f"{path}, line {number}: {len(columns)} columns; at least {_STOP + 1} separated by tabs are needed"
        )
    if node is not None and columns[_NODE] != node:
        return None
    try:
        kind, start, stop = int(columns[_TYPE]), float(columns[_START]), float(columns[_STOP])
    except ValueError:
        raise ConfigError(
            f"{path}, line {number}: type, start, stop = {columns[_TYPE : _STOP + 1]}; allowed: numbers"
        ) from None
    if kind not in (0, 1):
        raise ConfigError(
            f"{path}, line {number}: type = {kind}; allowed: 1 (the node is available) and 0 (it is not)"
        )
    if not -LONGEST_TRACE / 2 <= start < stop <= LONGEST_TRACE / 2:
        raise ConfigError(
            f"{path}, line {number}: start = {start:g}, stop = {stop:g}; allowed: up to {LONGEST_TRACE / 2:g}, start before stop"
        )
    return columns[_NODE], kind, start, stop
