"""Hashes that must equal those of the family to the digit."""

from __future__ import annotations

import pytest
from tests.helpers.wire_captures import recorded
from tests.helpers.wire_elements import read_elements

from cobblestone.wire.project.account import (
    email_hash,
    external_cpid,
    fanout_directory,
    passwd_hash,
    weak_authenticator,
)


@pytest.mark.parametrize(
    ("name", "directory"),
    [("uc_input_1", "224"), ("input_file_42.txt", "11"), ("wu_7_0_r1804289383_0", "315")],
)
def test_the_fanout_directory_is_that_of_boincs_tools(name: str, directory: str):
    assert fanout_directory(name, 1024) == directory


def test_a_fanout_of_0_is_a_flat_folder():
    assert fanout_directory("uc_input_1", 0) == ""


@pytest.mark.parametrize(
    ("password", "address", "expected"),
    [
        ("secret", "user@example.org", "c5b3b6203845d293d91e391b3fe9c8dc"),
        ("secretpw", "alice@example.org", "564082f4c128f999f6df6f16ad8c4996"),
        ("secretpw", "Alice@Example.ORG", "564082f4c128f999f6df6f16ad8c4996"),
    ],
)
def test_the_password_hash_is_that_of_clients(password: str, address: str, expected: str):
    assert passwd_hash(password, address) == expected


def test_the_weak_authenticator_is_that_of_boincs_web_code():
    assert weak_authenticator(42, "0123456789abcdef0123456789abcdef", "$2y$10$abcdefghijklmnopqrstuv") == (
        "42_f036b888b288be49c491e43af0763f6e"
    )


def test_the_external_cpid_is_that_of_boinc():
    assert (
        external_cpid("aaaabbbbccccddddaaaabbbbccccdddd", "user@example.org")
        == "673b12b79cd9b2e458ae4a12c448e358"
    )


def test_the_email_hash_is_the_recorded_one():
    assert email_hash("Alice@example.org") == read_elements(recorded("04", "reply")).get("email_hash")
