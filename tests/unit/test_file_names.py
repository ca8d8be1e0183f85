"""Names from outside become names of folders on any disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.texts import MAX_NAME_BYTES, folder_name
from cobblestone.domain.work import output_file_name, result_name
from cobblestone.ops.settings import parse_settings
from cobblestone.store.catalog.files import app_file_name, input_name


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


MOST_ON_WINDOWS = 259
"""Characters of a path that programs on Windows can open, unless they and the system were told otherwise."""
DATA_FOLDER = "C:\\ProgramData\\BOINC"
"""Where the family's client keeps its data there, unless its user chose another place."""
SPARE = 20


def test_the_longest_names_that_can_be_entered_fit_into_the_folders_of_a_client_on_windows():
    url = "http://" + "a" * (120 - len("http://x.org/")) + "x.org/"
    assert parse_settings({"project": {"url": url}}, source="test").project.url == url
    with pytest.raises(ConfigError):
        parse_settings({"project": {"url": url.replace("x.org", "xx.org")}}, source="test")
    project = f"{DATA_FOLDER}\\projects\\{url.removeprefix('http://').strip('/')}\\"
    app_name = "a" * 60  # see api_schema.apps.AppName
    names = [
        input_name("f" * 64) + ".gzt",  # a packed file while it comes
        app_file_name("p" * 300 + "." + "s" * 300, "f" * 64) + ".gzt",
        output_file_name(result_name(f"{app_name}_{2**31}_{10**7}", 99), 199),
    ]
    for name in names:
        assert len(project + name) + SPARE <= MOST_ON_WINDOWS, name
    open_name = "o" * 200  # see api_schema.values.FileName
    assert len(f"{DATA_FOLDER}\\slots\\9999\\{open_name}") + SPARE <= MOST_ON_WINDOWS
