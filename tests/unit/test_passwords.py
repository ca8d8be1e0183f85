"""What guessing a stored password costs."""

from __future__ import annotations

import asyncio
import runpy

import argon2
import pytest

from cobblestone.service import passwords


def test_a_stored_password_costs_what_rfc_9106_recommends():
    fresh = runpy.run_path(passwords.__file__)  # tests have made their own copy cheap
    found = argon2.extract_parameters(fresh["HASHER"].hash("secret"))
    assert found.type is argon2.Type.ID
    assert (found.memory_cost, found.time_cost, found.parallelism) == (64 * 1024, 3, 4)
    assert (found.salt_len, found.hash_len) == (16, 32)


def test_an_address_without_an_account_costs_one_comparison_and_no_hash_on_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
):
    stored = passwords.HASHER.hash("secret")
    assert argon2.extract_parameters(passwords.nobodys_hash()) == argon2.extract_parameters(stored)
    passwords.nobodys_hash.cache_clear()
    compared: list[str] = []
    monkeypatch.setattr(passwords, "HASHER", Counting(passwords.HASHER, compared))
    assert asyncio.run(passwords.Passwords().verify(None, "secret")) is False
    assert compared == [passwords.nobodys_hash()]


class Counting:
    """A hasher that must not hash."""

    def __init__(self, hasher: argon2.PasswordHasher, compared: list[str]) -> None:
        self.salt_len, self.hash_len, self.parallelism = hasher.salt_len, hasher.hash_len, hasher.parallelism
        self.memory_cost, self.time_cost = hasher.memory_cost, hasher.time_cost
        self._hasher, self._compared = hasher, compared

    def verify(self, stored: str, password: str) -> bool:
        self._compared.append(stored)
        return self._hasher.verify(stored, password)
