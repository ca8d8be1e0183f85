"""Sums of numbers that are not whole, the same on every version of Python."""

from __future__ import annotations

from collections.abc import Iterable


class _Start(float):
    """Zero, but not of the very type for which ``sum`` carries roundings along."""

    __slots__ = ()


_ZERO = _Start()


def float_sum(values: Iterable[float]) -> float:
    """Return the sum, each value added to those before it.

    ``sum`` does so up to Python 3.11; from 3.12 on it makes up for roundings, and the last digits are others.  A simulation, or
    the credit that is recomputed of a ledger, must not depend on that.
    """
    return sum(values, _ZERO) + 0.0
