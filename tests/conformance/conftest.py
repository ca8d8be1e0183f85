"""One suite for every database that the store runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.project_world import empty_database

from cobblestone.store.database import Store

DATABASES = ("sqlite",)


@pytest.fixture(params=DATABASES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty project database."""
    path = tmp_path / "project.sqlite"
    path.write_bytes(empty_database())
    opened = Store(path)
    yield opened
    opened.close()
