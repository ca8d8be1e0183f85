"""Messages name the way in which this copy was installed; an installation brings the examples."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from cobblestone import cli
from cobblestone.client.remote import access
from cobblestone.demo import services
from cobblestone.domain.errors import ConfigError
from cobblestone.ops import installation


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({}, "pip install 'cobblestone[lab]'"),
        (
            {"url": "file:///home/a%20b/cobblestone", "dir_info": {}},
            "pip install '/home/a b/cobblestone[lab]'",
        ),
        ({"url": "file:///src", "dir_info": {"editable": True}}, "pip install -e '/src[lab]'"),
        (
            {"url": "https://example.org/c.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
            "pip install 'cobblestone[lab] @ git+https://example.org/c.git'",
        ),
        (
            {"url": "file:///tmp/cobblestone.whl", "archive_info": {}},
            "pip install 'cobblestone[lab] @ file:///tmp/cobblestone.whl'",
        ),
    ],
)
def test_an_extra_is_installed_from_where_the_program_came_from(
    origin: dict[str, Any], command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "_origin", lambda: origin)
    assert installation.how_to_install("lab") == command


def test_an_example_is_copied_once(tmp_path: Path) -> None:
    folder = services.copy_example("sunspots", tmp_path)
    assert (folder / "period.py").is_file()
    with pytest.raises(ConfigError, match="exists already"):
        services.copy_example("sunspots", tmp_path)
    with pytest.raises(ConfigError, match=r"no example '../x'.*sunspots"):
        services.copy_example("../x", tmp_path)


@pytest.mark.parametrize(
    ("module", "extra"),
    [
        ("websockets", "client"),
        ("websockets.sync", "client"),
        ("pyarrow", "lab"),
        ("json", ""),
        ("httpx", ""),
    ],
)
def test_a_module_that_is_missing_belongs_to_an_extra_or_to_none(module: str, extra: str):
    assert installation.extra_of(module) == extra


def test_a_command_without_its_extra_says_in_one_line_which_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setitem(sys.modules, "websockets.sync.client", None)
    monkeypatch.setattr(access, "local_address", lambda _: access.Address("here", "ws://127.0.0.1:1/", "t"))
    assert cli.run_command(["client", "attach", "https://project.example.org/", "--key", "k"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "[client]" in line
