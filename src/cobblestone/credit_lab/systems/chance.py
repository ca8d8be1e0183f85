"""Random numbers that belong to a key and two numbers, not to an order.  Needs the extra ``lab``.

Source: the finaliser of SplitMix64, Steele, Lea and Flood, *Fast splittable pseudorandom number generators* (2014).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cobblestone.credit_lab.rows import compiled, inlined


@inlined
def uniform(key: Any, a: int, b: int) -> float:
    """Return a random number in (0, 1) that belongs to a key, a job and a computer."""
    x = np.uint64(key) + np.uint64(a) * np.uint64(0x9E3779B97F4A7C15)
    x += np.uint64(b) * np.uint64(0xD1B54A32D192ED03)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return (float(x >> np.uint64(11)) + 0.5) / 9007199254740992.0


@compiled
def draw(key: Any, a: int, b: int) -> float:
    """`uniform` for callers that are not compiled."""
    return uniform(key, a, b)
