"""Random numbers that belong to a key and two numbers, not to an order.

Source: the finaliser of SplitMix64, Steele, Lea and Flood, *Fast splittable pseudorandom number generators* (2014).
"""

from __future__ import annotations

import math

_MASK = 2**64 - 1


def uniform(key: int, a: int, b: int) -> float:
    """Return a random number in (0, 1) that belongs to a key, a job and a computer."""
    x = (key + a * 0x9E3779B97F4A7C15 + b * 0xD1B54A32D192ED03) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return (((x ^ (x >> 31)) >> 11) + 0.5) / 9007199254740992.0


def normal(key: int, a: int, b: int) -> float:
    """Return a normal random number.  Source: Box and Muller (1958)."""
    radius = math.sqrt(-2.0 * math.log(uniform(key, a, 2 * b)))
    return radius * math.cos(2.0 * math.pi * uniform(key, a, 2 * b + 1))
