"""Processes that divide the work know of each other, and somebody tells when a part is missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.helpers.api_client import ApiClient
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import World

from cobblestone.api_schema import project as schema
from cobblestone.cli.project.server import status_lines
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.roles import ALL_ROLES, Role
from cobblestone.server.run import open_project
from cobblestone.server.web.presentation.status import StatusPage
from cobblestone.service.supervision import FORGET_SECONDS, SILENT_SECONDS, Heartbeat, role_warnings
from cobblestone.wire.project.pages import FamilyDaemonState

DAEMONS = frozenset({Role.TRANSITIONER, Role.VALIDATOR, Role.ASSIMILATOR, Role.FILE_DELETER})


class Divided:
    """Two processes of one project: one for requests, one with daemons."""

    def __init__(self, world: World, other: ServerContext) -> None:
        self.world, self.other = world, other
        world.ctx.started = world.now
        self.front = Heartbeat(world.ctx, ALL_ROLES - DAEMONS, version="1.0")
        self.back = Heartbeat(other, DAEMONS, version="1.0")
        self.beat()

    def beat(self, *, back: bool = True) -> None:
        if back:
            for name in DAEMONS:
                self.other.health.daemon(name).sleeps(self.world.now, 2.0)
            self.world.run(self.back.step())
        self.world.run(self.front.step())

    def codes(self) -> set[str]:
        ctx = self.world.ctx
        found = role_warnings(
            ctx.health.processes, Role, started=ctx.started, max_silent_seconds=300.0, now=self.world.now
        )
        return {warning.code for warning in found}

    def status(self) -> schema.ProjectStatus:
        reply = ApiClient(self.world).get("/status")
        return msgspec.convert(reply, schema.ProjectStatus)


@pytest.fixture
def divided(postgres: PostgresServer, tmp_path: Path) -> Iterator[Divided]:
    address = postgres.project_database()
    world = World(tmp_path / "project", database=address)
    with open_project(world.ctx.folder.root, clock=lambda: world.now) as other:
        yield Divided(world, other)
    world.close()
    postgres.release(address)


def test_every_process_shows_the_daemons_of_all(divided: Divided):
    states = {each.command: each.status for each in StatusPage(divided.world.ctx).daemons()}
    assert {states[name] for name in DAEMONS} == {FamilyDaemonState.RUNNING}
    assert states["purger"] is FamilyDaemonState.NOT_RUNNING
    found = divided.status()
    assert {each.name: each.state for each in found.daemons if each.name in DAEMONS} == dict.fromkeys(
        DAEMONS, "running"
    )
    assert {(frozenset(each.roles), each.alive) for each in found.processes} == {
        (ALL_ROLES - DAEMONS, True),
        (DAEMONS, True),
    }
    text = "\n".join(status_lines(found, running=True))
    assert "assimilator, file_deleter, transitioner, validator; up since" in text


def test_a_process_that_falls_silent_is_told_and_its_roles_are_missed(divided: Divided):
    world = divided.world
    assert divided.codes() == set()
    world.now += SILENT_SECONDS + 1
    divided.beat(back=False)
    assert "NO SIGN OF LIFE" in "\n".join(status_lines(divided.status(), running=True))
    states = {each.command: each.status for each in StatusPage(world.ctx).daemons()}
    assert states["validator"] is FamilyDaemonState.NOT_RUNNING
    assert divided.codes() == set(), "a restart takes a while"
    world.now += world.ctx.settings.watch.max_silent_seconds
    divided.beat(back=False)
    assert divided.codes() == {f"no_{role}" for role in DAEMONS}
    assert {"no_validator"} <= {each.code for each in divided.status().warnings}
    divided.beat()
    assert divided.codes() == set()


def test_a_process_that_was_told_to_stop_is_not_taken_for_dead(divided: Divided):
    world = divided.world
    world.run(divided.back.end())
    divided.beat(back=False)
    assert "NO SIGN OF LIFE" not in "\n".join(status_lines(divided.status(), running=True))
    world.now += world.ctx.settings.watch.max_silent_seconds + 1
    divided.beat(back=False)
    assert divided.codes() == {f"no_{role}" for role in DAEMONS}, "but somebody must do its work"
    world.now += FORGET_SECONDS
    divided.beat(back=False)
    assert len(world.ctx.health.processes) == 1


def test_a_server_in_one_process_misses_nothing(tmp_path: Path):
    world = World(tmp_path / "project")
    world.ctx.started = world.now
    heartbeat = Heartbeat(world.ctx, ALL_ROLES, version="1.0")
    for _ in range(3):
        world.now += 400
        world.run(heartbeat.step())
        processes = world.ctx.health.processes
        assert (
            list(
                role_warnings(
                    processes, Role, started=world.ctx.started, max_silent_seconds=300.0, now=world.now
                )
            )
            == []
        )
    world.close()
