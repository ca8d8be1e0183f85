"""Passwords of accounts: hashes of permanent ones, and one-time passwords.

One-time passwords from a shared secret and the time (RFC 6238 over RFC 4226: HMAC-SHA-1, 30 seconds, 6 digits).

These are the parameters that all common authenticator programs take.  A password of the step before or after is accepted too, for
clocks that are a little wrong; a step that was used, or an earlier one, never again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from functools import cache

import argon2

#: Argon2id with the second recommended parameters of RFC 9106: 64 MiB, three passes, four lanes.
HASHER = argon2.PasswordHasher()
#: Passwords hashed at a time: each takes 64 MiB of memory and a CPU for a while.
MAX_HASHING = 2


@cache
def nobodys_hash() -> str:
    """Return a hash of no password; it is drawn: to compute one would hold the event loop as long as a comparison lasts."""
    parts = (secrets.token_bytes(each) for each in (HASHER.salt_len, HASHER.hash_len))
    salt, digest = (base64.b64encode(each).decode().rstrip("=") for each in parts)
    cost = f"m={HASHER.memory_cost},t={HASHER.time_cost},p={HASHER.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${digest}"


class Passwords:
    """Hashes and compares passwords, a few at a time."""

    def __init__(self) -> None:
        self._hashing = asyncio.Semaphore(MAX_HASHING)

    async def hash(self, passwd_hash: str) -> str:
        """Return the slow salted hash for storing."""
        async with self._hashing:
            return await asyncio.to_thread(HASHER.hash, passwd_hash)

    async def verify(self, stored: str | None, passwd_hash: str) -> bool:
        """Return whether a stored hash belongs to BOINC's hash of a password.

        None: there is no such account; that costs as much time, so that the time tells nothing.
        """
        async with self._hashing:
            return await asyncio.to_thread(self._verify, stored or nobodys_hash(), passwd_hash)

    def _verify(self, stored: str, passwd_hash: str) -> bool:
        try:
            return HASHER.verify(stored, passwd_hash)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False


STEP_SECONDS = 30
DIGITS = 6
WINDOW = 1  #: steps before and after the present one that count as well


def time_step(now: float) -> int:
    """Return the number of the time step of a moment (Unix seconds)."""
    return int(now // STEP_SECONDS)


def one_time_password(secret: bytes, step: int) -> str:
    """Return the password of a time step."""
    digest = hmac.digest(secret, step.to_bytes(8, "big"), hashlib.sha1)
    offset = digest[-1] & 0x0F
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 10**DIGITS:0{DIGITS}d}"


def matching_step(secret: bytes, password: str, *, now: float, last_step: int) -> int | None:
    """Return the step of this password if it may still be used; None if it is wrong or was used before."""
    if len(password) != DIGITS or not (password.isascii() and password.isdecimal()):
        return None
    present = time_step(now)
    found = None
    for step in range(present - WINDOW, present + WINDOW + 1):
        # all are compared, in constant time each
        if hmac.compare_digest(one_time_password(secret, step), password) and step > last_step:
            found = step
    return found
