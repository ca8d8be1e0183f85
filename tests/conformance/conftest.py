"""One suite for every database that the store runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.in_memory import folder_in_memory
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import empty_database

from cobblestone.store.engine.database import Store

DATABASES = ("sqlite", "postgresql")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of the test's own."""
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture(params=DATABASES)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    """Where an empty project database is."""
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        address = server.project_database()
        yield address
        server.release(address)
    else:
        path = tmp_path / "project.sqlite"
        path.write_bytes(empty_database())
        yield path


@pytest.fixture
def store(location: Path | str) -> Iterator[Store]:
    """An empty project database."""
    opened = Store(location, readers=2)
    yield opened
    opened.close()
