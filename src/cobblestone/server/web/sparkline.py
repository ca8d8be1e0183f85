"""Small drawings of a figure's course: points for an SVG line, made on the server."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cobblestone.store.operation.figures import Sample

WIDTH, HEIGHT, MARGIN = 140.0, 30.0, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """A line from left (oldest) to right, and what is written beside it."""

    points: str  #: of an SVG polyline; empty: nothing to draw
    last: float
    least: float
    most: float


def course(samples: Sequence[Sample], name: str) -> list[tuple[float, float]]:
    """Return a figure at each time."""
    return [(sample.time, sample.figures[name]) for sample in samples if name in sample.figures]


def rate_per_hour(samples: Sequence[Sample], name: str) -> list[tuple[float, float]]:
    """Growth of a counter per hour between samples.  A counter that fell was begun anew: that step counts from 0."""
    values = course(samples, name)
    rates: list[tuple[float, float]] = []
    for (before, low), (time, high) in itertools.pairwise(values):
        if time > before:
            rates.append((time, (high - low if high >= low else high) * 3600 / (time - before)))
    return rates


def sparkline(values: Sequence[tuple[float, float]]) -> Sparkline:
    """Return the drawing of values at times; the line begins at 0 below."""
    if not values:
        return Sparkline(points="", last=0.0, least=0.0, most=0.0)
    numbers = [value for _, value in values]
    most = max(numbers)
    first, span = values[0][0], max(values[-1][0] - values[0][0], 1.0)
    scale = (HEIGHT - 2 * MARGIN) / most if most > 0 else 0.0
    points = " ".join(
        f"{MARGIN + (time - first) / span * (WIDTH - 2 * MARGIN):.1f},{HEIGHT - MARGIN - value * scale:.1f}"
        for time, value in values
    )
    return Sparkline(
        points=points if len(values) > 1 else "", last=numbers[-1], least=min(numbers), most=most
    )


def thinned(samples: Sequence[Sample], at_most: int = 140) -> list[Sample]:
    """Every so manieth sample, so that a line has no more points than it is wide; the newest is among them."""
    step = max(1, -(-len(samples) // at_most))
    return list(samples)[::-1][::step][::-1]


def drawings(samples: Sequence[Sample], names: Sequence[str]) -> Mapping[str, Sparkline]:
    """Return a drawing for each figure; those that begin with ``n_`` as rates per hour."""
    chosen = thinned(samples)
    return {
        name: sparkline(rate_per_hour(chosen, name) if name.startswith("n_") else course(chosen, name))
        for name in names
    }
