"""Pieces of the command line that need no project."""

from __future__ import annotations

import errno
import json
import os
import socket
import ssl
from pathlib import Path

import pytest

from cobblestone.cli.arguments import error_text, spread_lists
from cobblestone.cli.output import Output, size, when
from cobblestone.domain.errors import ConfigError, words_of
from cobblestone.ops import environment as connection
from cobblestone.ops.files import write_durably
from cobblestone.ops.running import RunningServer, begun
from cobblestone.sdk.api.connection import find_folder, locate


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("app create x --files a b --quorum 2", "app create x --files a --files b --quorum 2"),
        ("--files a --files b c", "--files a --files b --files c"),
        ("--files", "--files"),
        ("--files --title t", "--files --title t"),
        ("submit x a b", "submit x a b"),
        ("--files a -- b c", "--files a -- b c"),
        ("--function-files a b -p dir", "--function-files a --function-files b -p dir"),
    ],
)
def test_list_options_take_all_that_follows(given: str, expected: str):
    assert spread_lists(given.split()) == expected.split()


def test_a_table_is_for_people_json_for_programs_and_quiet_for_scripts(capsys):
    rows = [(1, "[bold]a[/]", None), (22, "b", True)]
    for output, expected in (
        (Output(), "id  name        flag\n 1  [bold]a[/]  -   \n22  b           yes \n"),
        (Output(quiet=True), "1\n22\n"),
    ):
        output.table({"rows": rows}, ["id", "name", "flag"], rows, right=["id"])
        assert capsys.readouterr().out == expected
    Output(json=True).table({"x": [1, None]}, ["id"], rows)
    assert json.loads(capsys.readouterr().out) == {"x": [1, None]}


def test_a_table_that_is_piped_is_not_folded(capsys):
    Output().table([], ["name", "what"], [("a", "long " * 60), ("b", "x")])
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_an_empty_table_says_so(capsys):
    Output().table([], ["id"], [], empty="No apps yet.")
    Output(quiet=True).table([], ["id"], [])
    Output(json=True).table([], ["id"], [])
    assert capsys.readouterr().out == "No apps yet.\n[]\n"


def test_what_only_people_need_is_not_printed_for_programs(capsys):
    Output(json=True).say("hello")
    Output(quiet=True).say("hello")
    Output().say("hello")
    assert capsys.readouterr().out == "hello\n"


def test_warnings_go_to_standard_error(capsys):
    Output(quiet=True).warn("careful")
    assert capsys.readouterr() == ("", "Note: careful\n")


@pytest.mark.parametrize(
    ("nbytes", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (5e8, "500 MB"), (3e15, "3000 TB")]
)
def test_sizes_are_short(nbytes: float, text: str):
    assert size(nbytes) == text


def test_times_are_short():
    assert when(None) == "-"
    assert when(0) == "1970-01-01 00:00"


# -- which project is meant ------------------------------------------------------------------------------------


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch):
    """Set variables as a user would."""

    def give(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        connection.connection_defaults.cache_clear()

    give()
    yield give
    connection.connection_defaults.cache_clear()


def make_project(folder: Path) -> Path:
    (folder / "keys").mkdir(parents=True)
    (folder / "cobblestone.toml").write_text("")
    (folder / "keys" / "admin.token").write_text("cob_admin\n")
    return folder


def test_a_project_is_found_above(tmp_path: Path, environment):
    project = make_project(tmp_path / "project")
    (project / "a" / "b").mkdir(parents=True)
    assert find_folder(project / "a" / "b") == project


def test_a_backup_beside_a_project_is_no_second_project(tmp_path: Path, environment, monkeypatch):
    project = make_project(tmp_path / "sky")
    backup = make_project(tmp_path / "backup")
    (backup / "manifest.json").write_text("{}")
    assert find_folder(tmp_path) == project
    make_project(tmp_path / "two")
    with pytest.raises(ConfigError, match="several projects here: sky, two"):
        find_folder(tmp_path)


def test_no_project_around_says_what_to_do(tmp_path: Path, environment, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="project create"):
        locate()


def test_the_environment_names_a_project_and_is_cleaned(tmp_path: Path, environment):
    project = make_project(tmp_path / "project")
    environment(COBBLESTONE_PROJECT=str(project))
    target = locate()
    assert (target.folder, target.token, target.urls) == (project, "cob_admin", ())
    assert "COBBLESTONE_PROJECT" not in os.environ


def test_an_address_needs_a_token(environment):
    with pytest.raises(ConfigError, match="COBBLESTONE_TOKEN"):
        locate("https://example.org/")
    environment(COBBLESTONE_TOKEN="cob_mine")
    assert locate("https://example.org/").token == "cob_mine"
    assert locate("https://example.org/", "cob_read_from_a_file\n").token == "cob_read_from_a_file"
    assert locate("https://example.org/x/", token="cob_other").urls == ("https://example.org/x",)


def test_a_folder_that_is_no_project_says_so(tmp_path: Path, environment):
    with pytest.raises(ConfigError, match="not a cobblestone project"):
        locate(tmp_path)


def test_a_running_server_is_found_by_its_file(tmp_path: Path, environment):
    project = make_project(tmp_path / "project")
    for process, urls in (
        (os.getpid(), ("http://127.0.0.1:8123/sky", "https://compute.example.org/sky")),
        (2**22 + 1, ()),
    ):
        (project / "server.json").write_text(
            json.dumps(
                {
                    "url": "https://compute.example.org/sky/",
                    "direct": "http://127.0.0.1:8123/sky",
                    "pid": process,
                }
            )
        )
        assert locate(project).urls == urls
    (project / "server.json").write_text("{")
    assert locate(project).urls == ()


def test_a_server_is_not_another_process_that_has_its_number(tmp_path: Path):
    own = os.getpid()
    assert RunningServer(own, begun=begun(own)).is_alive()
    for seconds in (-60.0, 60.0):  # it began before the server, or after it
        assert not RunningServer(own, begun=begun(own) + seconds).is_alive()
    assert RunningServer(own).is_alive(), "an older version did not note when it began"


def test_a_full_disk_is_told_with_the_file_that_could_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space") as raised:
        write_durably(tmp_path / "server.json", b"{}")
    assert error_text(raised.value) == f"{tmp_path}/server.json: No space left on device."
    assert not list(tmp_path.iterdir())


def test_an_unreadable_token_says_what_to_do(tmp_path: Path, environment):
    project = make_project(tmp_path / "project")
    (project / "keys" / "admin.token").unlink()
    with pytest.raises(ConfigError, match="as its owner"):
        locate(project)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "/a"),
            "No such file or directory: '/a'",
        ),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (
            ssl.SSLError(
                1,
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate (_ssl.c:1006)",
            ),
            "certificate verify failed: self-signed certificate",
        ),
        (TimeoutError(), "no answer in time"),
        (EOFError(), "EOFError"),
    ],
)
def test_what_people_read_has_no_numbers_of_the_system(error: Exception, expected: str):
    assert words_of(error) == expected
    if str(error):
        assert str(ConfigError(f"/a cannot be read: {error}.")) == f"/a cannot be read: {expected}."
