"""A project for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.project_world import World


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Make projects with settings of their own."""
    worlds: list[World] = []

    def make(**settings: Any) -> World:
        world = World(tmp_path / f"project{len(worlds)}", **settings)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A project with default settings."""
    return make_world()
