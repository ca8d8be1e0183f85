"""Mails of an account manager: confirmed addresses, forgotten passwords, projects that fail; and its news."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.helpers.manager_world import PASSWORD, Caller, ManagerWorld
from tests.integration.test_account_manager import WEAK, add, project_site, settle

from cobblestone.account_manager.core.folder import create_manager
from cobblestone.account_manager.store import accounts
from cobblestone.service.mail import Mailer, outbox
from cobblestone.service.settings import NewService
from cobblestone.wire.project.pages import read_rss

EMAIL = "ann@example.org"
HOUR = 3600.0


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[str], ManagerWorld]]:
    made: list[ManagerWorld] = []

    def open_it(confirmed: str) -> ManagerWorld:
        create_manager(tmp_path / "manager", NewService(name="Stones", port=8180))
        settings = tmp_path / "manager" / "manager.toml"
        text = settings.read_text()
        assert 'confirmed_email = "asked"' in text
        settings.write_text(text.replace('confirmed_email = "asked"', f'confirmed_email = "{confirmed}"'))
        made.append(ManagerWorld(tmp_path / "manager", projects_http=httpx.MockTransport(project_site)))
        return made[0]

    yield open_it
    made[0].close()


def mails(world: ManagerWorld) -> list[str]:
    """Send what waits; all that was sent, as it lies in the outbox."""
    world.run(Mailer(world.ctx, world.ctx.settings.mail, world.ctx.folder.root).step())
    folder = outbox(world.ctx.folder.root)
    return [each.read_text().replace("=\n", "").replace("=3D", "=") for each in sorted(folder.glob("*.eml"))]


def link_in(mail: str, page: str) -> str:
    found = re.search(rf"{page}\?code=[\w-]+", mail)
    assert found is not None, mail
    return found[0]


def test_accounts_at_projects_wait_for_the_address_where_that_is_required(
    make: Callable[[str], ManagerWorld],
):
    world = make("required")
    add(world, "http://p.example.org/")
    caller = Caller(world, authenticator=world.join())
    settle(world)
    assert caller.call().accounts == ()
    (mail,) = mails(world)
    assert "Ann" not in mail, "who has not confirmed may be a stranger"
    link = link_in(mail, "email_confirm.php")
    assert "Confirm the address" in world.get(link).text
    settle(world)
    world.now += HOUR
    assert caller.call().accounts == (), "opening the link alone changes nothing"
    assert "your address is confirmed" in world.post(link, code=link.partition("=")[2]).text
    settle(world)
    world.now += HOUR
    assert [each.authenticator for each in caller.call().accounts] == [WEAK]
    assert world.get(link).status_code == 410


def test_a_forgotten_password_is_set_anew_by_mail_once_and_ends_all_sessions(
    make: Callable[[str], ManagerWorld],
):
    world = make("off")
    world.join()
    assert mails(world) == []
    stranger = world.browser()
    world.http, mine = stranger, world.http
    for address in ("nobody@example.org", EMAIL):
        assert "a mail with a link is on its way" in world.post("password_reset.php", email_addr=address).text
    (mail,) = mails(world)
    link = link_in(mail, "password_new.php")
    code = link.partition("=")[2]
    assert world.post(link, code=code, new_passwd="short").status_code == 422
    world.post(link, code=code, new_passwd="another long password")
    assert world.get(link).status_code == 410
    assert "new password" in mails(world)[1]
    world.http = mine
    assert "Log in" in world.get("home.php").text
    assert Caller(world, name=EMAIL, password=PASSWORD).call().error_num == -206
    assert Caller(world, name=EMAIL, password="another long password").call().error_num == 0
    found = world.read(lambda db: accounts.account_by_email(db, EMAIL))
    assert found[0].email_verified_time == world.now
    world.run(stranger.aclose())


def test_operators_hear_once_of_a_project_that_stays_away(make: Callable[[str], ManagerWorld]):
    world = make("off")
    world.join()
    add(world, "http://down.example.org/")
    for _ in range(6):
        settle(world)
        world.now += 24 * HOUR
    (mail,) = mails(world)
    assert "http://down.example.org/ cannot be used" in mail
    assert "HTTP status 503" in mail


def test_news_reach_clients_by_a_feed_until_they_are_withdrawn(make: Callable[[str], ManagerWorld]):
    world = make("off")
    caller = Caller(world, authenticator=world.join())
    world.post("ops.php", what="news", title="New project", text="Two lines\nof *text*")
    assert world.post("ops.php", what="news", title="", text="x").status_code == 422
    (feed,) = caller.call().feeds
    (item,) = read_rss(world.get(feed.removeprefix(world.ctx.master_url)).content)
    assert item.title == "New project"
    assert "New project" in world.get("").text
    world.post("ops.php", what="withdraw", id="1")
    assert "New project" not in world.get("").text
