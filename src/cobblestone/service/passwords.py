"""Passwords of accounts: the family's hash of them under a slow salted one."""

from __future__ import annotations

import asyncio
import secrets
from functools import cache

import argon2

HASHER = argon2.PasswordHasher()
"""Argon2id with the second recommended parameters of RFC 9106: 64 MiB, three passes, four lanes."""
MAX_HASHING = 2
"""Passwords hashed at a time: each takes 64 MiB of memory and a CPU for a while."""


@cache
def _nobodys_hash() -> str:
    return HASHER.hash(secrets.token_hex(16))


class Passwords:
    """Hashes and compares, a few at a time."""

    def __init__(self) -> None:
        self._hashing = asyncio.Semaphore(MAX_HASHING)

    async def hash(self, passwd_hash: str) -> str:
        """Return the slow salted hash that is stored."""
        async with self._hashing:
            return await asyncio.to_thread(HASHER.hash, passwd_hash)

    async def verify(self, stored: str | None, passwd_hash: str) -> bool:
        """Whether a stored hash belongs to the family's hash of a password.

        None: there is no such account; that costs as much time, so that the time tells nothing.
        """
        async with self._hashing:
            return await asyncio.to_thread(self._verify, stored or _nobodys_hash(), passwd_hash)

    def _verify(self, stored: str, passwd_hash: str) -> bool:
        try:
            return HASHER.verify(stored, passwd_hash)
        except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
            return False
