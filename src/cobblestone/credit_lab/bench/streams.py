"""Random numbers by name: every use of the seed has a stream of its own, so that one more of them changes no other."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

LARGEST_SEED = 2**64 - 1


def stream_key(seed: int, *names: object) -> int:
    """Return the key (64 bits) of the stream of this seed and these names."""
    text = "\0".join(map(str, (seed, *names)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def generator(seed: int, *names: object) -> Any:  # Any: NumPy's types do not follow through arithmetic
    """Return NumPy's generator of this stream."""
    return np.random.default_rng(stream_key(seed, *names))
