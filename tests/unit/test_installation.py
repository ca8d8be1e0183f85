"""Messages name the way in which this copy was installed; an installation brings the examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
