"""Which island serves a computer: servers that share the accounts of a centre, each with jobs and a database of its own.

An island gives numbers of its own range to computers, jobs, results and entries of its ledger, so they never meet elsewhere.
The number that a client got from its island brings it back there; who has none yet is given to an island by the computer's
own id, so that a client that lost its state comes to the island that knows it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

HOST_IDS = 100_000_000
"""Ids of computers in an island's range: clients keep them in 31 bits."""
ROW_IDS = 10**12
"""Ids of jobs, results, batches and ledger entries in an island's range; programs in any language still keep them exactly."""
MAX_NUMBER = 20
"""The last island whose computers have ids that clients can keep.  The centre's own range is number 0."""


def island_of_host(host_id: int) -> int:
    """Return the number of the range that a computer's id is in."""
    return host_id // HOST_IDS


def choose_island(shares: Mapping[int, float], computer: str) -> int:
    """Return one of the numbers, the same whenever the same computer asks (rendezvous hashing, weighted).

    ``shares``: parts of the new computers by number, 0 for none; one at least must be positive.  Where a number is added,
    computers move to the new one only.  Source: D. Thaler and C. Ravishankar, A name-based mapping scheme for rendezvous
    (1996); the weights as in C. Schindelhauer and G. Schomaker, Weighted distributed hash tables (2005).
    """
    return max(shares, key=lambda number: _score(shares[number], f"{number} {computer}"))


def _score(share: float, text: str) -> float:
    digest = hashlib.sha256(text.encode()).digest()
    chance = (int.from_bytes(digest[:6], "big") + 0.5) / 2**48  # between 0 and 1, neither of them
    return -share / math.log(chance)
