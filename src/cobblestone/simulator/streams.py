"""Random numbers: one independent stream per purpose and project, so that two policies meet the same world.

Also the generator of the C library that the simulator of 2007 used, for reproducing its published figures
draw by draw.
"""

from __future__ import annotations

import math
import random
from typing import Protocol


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
    """Return a standard normal sample by the rational approximation of Odeh and Evans (1974) to the
    inverse.
    """
    u = rng.random()
    tail = u if u < 0.5 else 1.0 - u
    t = math.sqrt(-2.0 * math.log(max(tail, 1e-300)))
    over = 0.322232431088 + t * (1.0 + t * (0.342242088547 + t * (0.0204231210245 + t * 0.453642210148e-4)))
    under = 0.099348462606 + t * (
        0.588581570495 + t * (0.531103462366 + t * (0.10353775285 + t * 0.38560700634e-2))
    )
    z = t - over / under
    return -z if u < 0.5 else z
