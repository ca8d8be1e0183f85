"""What guessing a stored password costs."""

from __future__ import annotations

import runpy

import argon2

from cobblestone.service import passwords


def test_a_stored_password_costs_what_rfc_9106_recommends():
    fresh = runpy.run_path(passwords.__file__)  # tests have made their own copy cheap
    found = argon2.extract_parameters(fresh["HASHER"].hash("secret"))
    assert found.type is argon2.Type.ID
    assert (found.memory_cost, found.time_cost, found.parallelism) == (64 * 1024, 3, 4)
    assert (found.salt_len, found.hash_len) == (16, 32)
