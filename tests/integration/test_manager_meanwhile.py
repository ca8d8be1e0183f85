"""What is changed at an account manager while a project is asked, or another page is sent, stays."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.helpers.manager_world import ManagerWorld

from cobblestone.account_manager.core import operation
from cobblestone.account_manager.model import AccountChoices
from cobblestone.account_manager.store import accounts, granted, projects

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


def test_a_consent_that_was_withdrawn_on_one_page_does_not_come_back_with_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    world = ManagerWorld(tmp_path / "manager")
    weak = world.join()
    world.post("sharing.php", statistics="1", team_name="Stones")

    def choices() -> AccountChoices:
        return world.read(lambda db: accounts.account_by_key(db, weak)).choices

    assert choices().statistics is True
    number = world.read(lambda db: accounts.account_by_key(db, weak)).id
    write = world.ctx.store.awrite

    async def withdrawn_first(operation: Any) -> Any:
        withdrawn = partial(replace, statistics=False, team_name="")
        await write(lambda tx: accounts.change_choices(tx, number, withdrawn))
        return await write(operation)

    monkeypatch.setattr(world.ctx.store, "awrite", withdrawn_first)
    world.post("choices.php", mode="classic", preset="maximum")
    stored = choices()
    assert (stored.statistics, stored.team_name) == (False, "")
    assert (stored.mode, stored.preset) == ("classic", "maximum")
    world.close()
