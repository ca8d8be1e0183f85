"""Projects that answer slowly, byte by byte or never hold up no other one, whatever they are asked."""

from __future__ import annotations

import asyncio
import http.server
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.helpers.export_servers import ExportServer, export_servers
from tests.helpers.manager_world import LINUX, ManagerWorld

from cobblestone.account_manager import daemons
from cobblestone.account_manager.core import operation
from cobblestone.account_manager.store import accounts, granted, projects
from cobblestone.service import supervision
from cobblestone.wire.project.account import AccountInfo, write_account_out, write_am_get_info_reply
from cobblestone.wire.project.pages import PlatformEntry, ProjectConfig, write_project_config

TOKEN = "cob_" + "a" * 40
WEAK = f"3_{'b' * 32}"
N_SLOW = 6


def project(handler: http.server.BaseHTTPRequestHandler) -> None:
    """A project that tells of itself, and makes accounts."""
    path = handler.path.partition("?")[0]
    config = ProjectConfig(
        name="Pebbles", master_url="http://p.example.org/", platforms=(PlatformEntry(platform_name=LINUX),)
    )
    answers = {
        "/get_project_config.php": write_project_config(config),
        "/create_account.php": write_account_out("c" * 32),
        "/am_get_info.php": write_am_get_info_reply(AccountInfo(id=3, name="Ann", weak_auth=WEAK)),
        "/am_set_info.php": b"<success/>",
    }
    handler.send_response(200 if path in answers else 404)
    handler.end_headers()
    handler.wfile.write(answers.get(path, b""))


class Slow:
    """An account manager that knows many slow projects, and after them one that answers."""

    def __init__(self, root: Path, servers: list[ExportServer]) -> None:
        self.servers = servers
        for server in servers[:N_SLOW]:
            server.behave = server.dripping if servers.index(server) % 2 else server.silent
        self.world = ManagerWorld(root, projects_http=httpx.AsyncHTTPTransport())
        self.ids = [self._add(server.url) for server in servers]

    def _add(self, url: str) -> int:
        signature = operation.sign_address(self.world.ctx.folder, url)
        return self.world.write(
            lambda tx: operation.add_project(tx, url, signature=signature, now=self.world.now)
        )

    def join(self, n: int) -> None:
        for number in range(n):
            self.world.join(f"A{number}", f"a{number}@example.org")
            self.world.http.cookies.clear()

    def until(self, step: Callable[[], Coroutine[Any, Any, int]], reached: Callable[[], bool]) -> float:
        """Return the seconds until something is reached while a step goes on, which then ends."""

        async def wait() -> float:
            began, task = time.monotonic(), asyncio.create_task(step())
            while not await asyncio.to_thread(reached) and not task.done():
                await asyncio.wait({task}, timeout=0.02)
            seconds = time.monotonic() - began
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert reached()
            return seconds

        return self.world.run(wait())


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Slow]:
    with export_servers(*[project] * (N_SLOW + 1)) as servers:
        made = Slow(tmp_path / "manager", servers)
        yield made
        made.world.close()


#: A good part of the seconds after which one project is given up, and busy machines are slow.
SOON = 12.0


def test_a_project_that_answers_is_usable_while_others_are_silent(slow: Slow):
    def usable() -> bool:
        return not slow.world.read(lambda db: projects.project_by_id(db, slow.ids[-1])).problem

    assert slow.until(slow.world.checker.step, usable) < SOON


def test_accounts_are_made_at_a_project_while_others_are_silent(slow: Slow):
    slow.join(
        daemons.MADE_AT_ONCE + 1
    )  # more than one contact takes; and those at silent projects come first
    slow.world.write(
        lambda tx: tx.execute(
            "UPDATE project_account SET next_try = next_try + 1 WHERE project_id = ?", (slow.ids[-1],)
        )
    )
    slow.world.now += 10

    def made() -> bool:
        rows = slow.world.read(
            lambda db: db.query("SELECT project_id FROM project_account WHERE weak_key <> ''")
        )
        return [row[0] for row in rows] == [slow.ids[-1]] * (daemons.MADE_AT_ONCE + 1)

    assert slow.until(slow.world.maker.step, made) < SOON


def test_a_project_is_asked_for_credit_while_others_are_silent(slow: Slow):
    def ask(tx: Any) -> None:
        for id_ in slow.ids:
            granted.change(tx, id_, token=TOKEN, now=slow.world.now)
            accounts.set_own(tx, account, id_, f"{id_}_{'b' * 32}")

    account = int(slow.world.join().partition("_")[0])
    slow.world.write(ask)

    def asked() -> bool:
        return bool(slow.world.read(lambda db: granted.project_accounting(db, slow.ids[-1])).failures)

    assert slow.until(slow.world.collector.step, asked) < SOON


def test_what_becomes_due_while_others_are_silent_is_begun_at_once(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(supervision, "LOOK_SECONDS", 0.1)
    later = slow.ids[-1]
    slow.world.write(lambda tx: tx.execute("UPDATE project SET next_check = 9e12 WHERE id = ?", (later,)))
    asked = slow.servers[0].asked

    def usable() -> bool:
        if asked:
            slow.world.write(
                lambda tx: tx.execute("UPDATE project SET next_check = 0 WHERE id = ?", (later,))
            )
        return not slow.world.read(lambda db: projects.project_by_id(db, later)).problem

    assert slow.until(slow.world.checker.step, usable) < SOON


def test_a_silent_project_is_given_up_as_a_whole_and_costs_one_contact_for_all_accounts(
    slow: Slow, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(daemons, "MAKING_SECONDS", 0.5)
    slow.join(3)
    for hour in range(2):
        assert slow.world.run(slow.world.maker.step()) > 0
        assert slow.world.run(slow.world.maker.step()) == 0
        assert [len(server.asked) for server in slow.servers[:N_SLOW]] == [hour + 1] * N_SLOW
        slow.world.now += 3600
    problems = slow.world.read(
        lambda db: db.query("SELECT DISTINCT problem FROM project_account WHERE problem <> ''")
    )
    assert [row[0] for row in problems] == ["It does not answer within 0.5 s."]


def test_a_mistake_with_one_project_ends_no_contact_with_others(slow: Slow):
    for server in slow.servers:
        server.behave = project
    keep = slow.world.checker._keep

    def failing(tx: Any, *, project_id: int, found: Any) -> None:
        if project_id == slow.ids[0]:
            raise RuntimeError("a mistake")
        keep(tx, project_id=project_id, found=found)

    slow.world.checker._keep = failing
    with pytest.raises(RuntimeError, match="a mistake"):
        slow.world.run(slow.world.checker.step())
    known = slow.world.read(projects.all_projects)
    assert [bool(each.problem) for each in known] == [True] + [False] * N_SLOW
