"""A project for each test.

Modules that say ``pytestmark = pytest.mark.both_databases`` run on PostgreSQL too; with ``--every-database`` all do, but for
tests of what only SQLite has (``pytest.mark.of_sqlite``).
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.in_memory import folder_in_memory
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import World

from cobblestone.server.daemons import workers

# Many tests start a worker of their own, whose imports take a second: here each is a copy of a process that has done them.
# tests/e2e has the real ones.
workers._context = multiprocessing.get_context("forkserver")
multiprocessing.set_forkserver_preload(
    ["cobblestone.server.daemons.project_work", "cobblestone.server.daemons.workers"]
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker("both_databases") is not None
        both = marked or metafunc.config.getoption("--every-database")
        if metafunc.definition.get_closest_marker("of_sqlite") is not None:
            both = False
        kinds = ("sqlite", "postgresql") if both else ("sqlite",)
        metafunc.parametrize("database", kinds, indirect=True, ids=kinds if both else [pytest.HIDDEN_PARAM])


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder of the test's own."""
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Makes databases: addresses of empty ones on PostgreSQL, or "" for SQLite."""
    if request.param == "sqlite":
        yield lambda: ""
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    addresses: list[str] = []

    def make() -> str:
        addresses.append(server.project_database())
        return addresses[-1]

    yield make
    for address in addresses:
        server.release(address)


@pytest.fixture
def make_world(tmp_path: Path, database: Callable[[], str]) -> Iterator[Callable[..., World]]:
    """Make projects with settings of their own."""
    worlds: list[World] = []

    def make(**settings: Any) -> World:
        world = World(tmp_path / f"project{len(worlds)}", database=database(), **settings)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A project with default settings."""
    return make_world()
