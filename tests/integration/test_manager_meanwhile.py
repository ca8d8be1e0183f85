"""What an operator of an account manager changes while a project is asked stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
from tests.helpers.manager_world import ManagerWorld

from cobblestone.account_manager.core import operation
from cobblestone.account_manager.store import granted, projects

TOKEN = "cob_" + "a" * 40


class Meanwhile(httpx.AsyncBaseTransport):
    """Projects that answer nothing, and somebody who acts before they do."""

    world: ManagerWorld
    action: Any
    n_asked = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.n_asked += 1
        await self.world.ctx.store.awrite(self.action)
        return httpx.Response(503)


def test_a_project_that_is_checked_keeps_what_it_is_given_and_a_trust_that_ended_does_not_return(
    tmp_path: Path,
):
    net = Meanwhile()
    world = net.world = ManagerWorld(tmp_path / "manager", projects_http=net)
    url = "https://p1.example.org/"
    signature = operation.sign_address(world.ctx.folder, url)
    id_: int = world.write(
        lambda tx: operation.add_project(
            tx, url, signature=signature, share=1.0, shared_key="", now=world.now
        )
    )
    world.write(
        lambda tx: operation.change_accounting(tx, str(id_), token=TOKEN, vouched=True, now=world.now)
    )
    net.action = lambda tx: operation.change_accounting(tx, str(id_), vouched=False, now=world.now)
    world.run(world.collector.step())
    asked = world.read(lambda db: granted.project_accounting(db, id_))
    assert (net.n_asked > 0, asked.vouched, asked.failures) == (True, False, 1)
    net.n_asked = 0
    net.action = lambda tx: operation.change_project(tx, id_, share=3.0, stopped=True, now=world.now)
    world.run(world.checker.step())
    project = world.read(lambda db: projects.project_by_id(db, id_))
    assert (net.n_asked > 0, project.share, project.stopped, project.failures) == (True, 3.0, True, 1)
    world.close()
