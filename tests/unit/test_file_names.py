"""Names from outside become names of folders on any disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.file_names import MAX_NAME_BYTES, folder_name


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("galaxy 12", "galaxy 12"),
        ("..", "wu_1"),
        (".", "wu_1"),
        ("", "wu_1"),
        ("a/../../b", "a_.._.._b"),
        ("a\\b:c", "a_b_c"),
        ("NUL", "wu_1"),
        ("com1.txt", "wu_1"),
        ("ends with a dot.", "ends with a dot"),
    ],
)
def test_a_job_is_written_into_one_folder_of_its_own(name: str, folder: str) -> None:
    assert folder_name(name, "wu_1") == folder


@given(st.text(max_size=300))
def test_no_name_leaves_its_folder_or_is_too_long(name: str) -> None:
    found = folder_name(name, "wu_17")
    assert found not in ("", ".", "..")
    assert "/" not in found
    assert "\x00" not in found
    assert len(found.encode()) <= MAX_NAME_BYTES
    assert folder_name(found, "wu_17") == found


def test_two_long_names_stay_two_folders() -> None:
    assert folder_name("x" * 300, "wu_1") != folder_name("x" * 300, "wu_2")
