"""What the demonstration of the whole family does on pages; all of it together runs for minutes, with ``make demo``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.helpers.manager_world import ManagerWorld

from cobblestone.account_manager.store import accounts
from cobblestone.demo.services import PASSWORD, Browser
from cobblestone.domain.errors import CobblestoneError


class InProcess(httpx.BaseTransport):
    """Sends a browser's requests to an account manager in this process."""

    def __init__(self, world: ManagerWorld) -> None:
        self._world = world
        self._inner = httpx.ASGITransport(world.app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        asked = httpx.Request(request.method, request.url, headers=request.headers, content=request.read())

        async def send() -> httpx.Response:
            answer = await self._inner.handle_async_request(asked)
            return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

        return self._world.run(send())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[ManagerWorld]:
    world = ManagerWorld(tmp_path / "manager")
    yield world
    world.close()


def browser(world: ManagerWorld) -> Browser:
    return Browser(
        httpx.Client(transport=InProcess(world), base_url=world.ctx.master_url, follow_redirects=True)
    )


def test_a_volunteer_joins_gives_keys_and_chooses_shares_by_the_forms(world: ManagerWorld):
    number = world.project(1, shared=False)
    key = f"7_{'b' * 32}"
    with browser(world) as alice:
        alice.join("Alice", "alice@example.org")
        alice.send("choices.php", {"project_id": str(number), "weak_key": key}, to="project_key.php")
        alice.send("choices.php", {"mode": "classic", f"share_{number}": "1"})
        assert "being created" not in alice.read("home.php")
    found = world.read(lambda db: accounts.account_by_email(db, "alice@example.org"))
    assert found is not None
    assert found[0].choices.shares == {number: 1.0}
    made = world.read(lambda db: accounts.project_accounts(db, found[0].id))
    assert made[number].weak_key == key
    with browser(world) as again:
        assert "choices.php" in again.send(
            "login.php", {"email_addr": "alice@example.org", "passwd": PASSWORD}
        )


def test_what_a_page_refuses_is_said_in_its_words(world: ManagerWorld):
    with (
        browser(world) as alice,
        pytest.raises(CobblestoneError, match=r"status 422: Join Stones .* does not look like"),
    ):
        alice.join("Alice", "no address")
    with browser(world) as alice, pytest.raises(CobblestoneError, match="has no form"):
        alice.send("", {})
