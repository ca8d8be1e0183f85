"""How long random searches last: short in `make check`, long at night."""

from __future__ import annotations

from hypothesis import settings

#: A test that takes this many examples in `make nightly` is one whose examples are quick.
MANY = 5_000


def times(count: int) -> int:
    """Return how often a slow test tries something, ``count`` times in `make check`: at night fifty times as often."""
    return count * (50 if settings().max_examples >= MANY else 1)
