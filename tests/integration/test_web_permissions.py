"""Who may see what, page by page."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from starlette.routing import Route
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor
from tests.helpers.volunteers import Volunteers, email, populate

from cobblestone.server.app import create_app

ADDRESS = "203.0.113.77"


@dataclass(frozen=True, slots=True)
class Village:
    """A populated project, and who looks at it: nobody, Bruno, and the owner of the page."""

    world: World
    people: Volunteers
    visitors: dict[str, Visitor]


@pytest.fixture(scope="module")
def village(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Village]:
    world = World(tmp_path_factory.mktemp("village") / "project")
    people = populate(world, random.Random(3))
    world.write(lambda tx: tx.execute("UPDATE host SET external_ip_addr = ?", (ADDRESS,)))
    visitors = {
        "nobody": Visitor(world),
        "bruno": Visitor(world).log_in("bruno"),
        "ada": Visitor(world).log_in("ada"),
        "dora": Visitor(world).log_in("dora"),
    }
    yield Village(world=world, people=people, visitors=visitors)
    for visitor in visitors.values():
        world.run(visitor.http.aclose())
    world.close()


#: Page; who: status.  Ada shows her computers (host 1), Dora hides hers (host 4, result 9).
PERMISSIONS: list[tuple[str, dict[str, int]]] = [
    ("/", {"nobody": 200, "bruno": 200, "ada": 200}),
    ("/index.php", {"nobody": 200}),
    ("/server_status.php", {"nobody": 200}),
    ("/server_status.php?xml=1", {"nobody": 200}),
    ("/server_status.php?part=live", {"nobody": 200}),
    ("/apps.php", {"nobody": 200}),
    ("/news.php", {"nobody": 200}),
    ("/news.php?id=1", {"nobody": 200}),
    ("/top_users.php", {"nobody": 200}),
    ("/top_teams.php", {"nobody": 200}),
    ("/top_hosts.php", {"nobody": 200}),
    ("/team_display.php?teamid=1", {"nobody": 200}),
    ("/join.php", {"nobody": 200, "ada": 303}),
    ("/login.php", {"nobody": 200, "ada": 303}),
    ("/logout.php", {"nobody": 405, "ada": 405}),
    ("/home.php", {"nobody": 303, "ada": 200, "dora": 200}),
    ("/hosts_user.php", {"nobody": 303, "ada": 200}),
    ("/results.php", {"nobody": 303, "ada": 200}),
    ("/show_user.php?userid={ada}", {"nobody": 200, "bruno": 200, "ada": 200}),
    ("/show_user.php?userid={dora}", {"nobody": 200, "bruno": 200, "dora": 200}),
    ("/hosts_user.php?userid={ada}", {"nobody": 200, "bruno": 200, "ada": 200}),
    ("/hosts_user.php?userid={dora}", {"nobody": 403, "bruno": 403, "dora": 200}),
    ("/results.php?userid={ada}", {"nobody": 200, "bruno": 200, "ada": 200}),
    ("/results.php?userid={dora}", {"nobody": 403, "bruno": 403, "dora": 200}),
    ("/results.php?hostid=1", {"nobody": 200, "bruno": 200, "ada": 200}),
    ("/results.php?hostid=4", {"nobody": 403, "bruno": 403, "dora": 200}),
    ("/show_host_detail.php?hostid=1", {"nobody": 200, "bruno": 200, "ada": 200}),
    ("/show_host_detail.php?hostid=4", {"nobody": 403, "bruno": 403, "dora": 200}),
    ("/result.php?resultid=9", {"nobody": 200, "bruno": 200, "dora": 200}),
    ("/workunit.php?wuid=1", {"nobody": 200, "bruno": 200, "dora": 200}),
]


@pytest.mark.parametrize(("page", "expected"), PERMISSIONS, ids=[page for page, _ in PERMISSIONS])
def test_each_page_opens_for_those_who_may_see_it(
    village: Village, page: str, expected: dict[str, int]
) -> None:
    address = page.format(**village.people.user_ids)
    found = {who: village.visitors[who].get(address).status_code for who in expected}
    assert found == expected


#: What only its owner sees: pages that could show it, and the text.
SECRETS: list[tuple[str, str, str]] = [
    ("ada", email("ada"), "the address"),
    ("ada", "KEY", "the account key"),
    ("ada", "WEAK", "the weak account key"),
    ("ada", "astra.local", "the name of a machine"),
    ("ada", ADDRESS, "a network address"),
]
PAGES_ABOUT_ADA = (
    "/home.php",
    "/show_user.php?userid={ada}",
    "/hosts_user.php?userid={ada}",
    "/show_host_detail.php?hostid=1",
    "/results.php?userid={ada}",
    "/results.php?hostid=1",
    "/result.php?resultid=1",
    "/workunit.php?wuid=1",
    "/top_users.php",
    "/top_hosts.php",
    "/team_display.php?teamid=1",
    "/",
)


@pytest.mark.parametrize(("owner", "secret", "name"), SECRETS, ids=[name for _, _, name in SECRETS])
def test_secrets_are_shown_to_their_owner_only(village: Village, owner: str, secret: str, name: str) -> None:
    key = village.people.keys[owner]
    weak = str(
        village.world.value("SELECT weak_authenticator FROM user_account WHERE authenticator = ?", key)
    )
    text = {"KEY": key, "WEAK": weak}.get(secret, secret)
    seen: dict[str, list[str]] = {}
    for who in ("nobody", "bruno", "ada"):
        pages = [page.format(**village.people.user_ids) for page in PAGES_ABOUT_ADA]
        seen[who] = [page for page in pages if text in village.visitors[who].get(page).text]
    assert seen["nobody"] == seen["bruno"] == []
    assert seen["ada"] != []


def test_a_hidden_computer_is_hidden_wherever_its_tasks_appear(village: Village) -> None:
    for page in (
        "/workunit.php?wuid=1",
        "/result.php?resultid=9",
        "/top_hosts.php",
        "/show_user.php?userid=4",
    ):
        assert "hostid=4" not in village.visitors["bruno"].get(page).text, page
    assert "hostid=4" in village.visitors["dora"].get("/workunit.php?wuid=1").text


def test_a_computer_that_is_hidden_alone_is_hidden_on_lists_of_tasks(village: Village) -> None:
    page = village.visitors["bruno"].get("/workunit.php?wuid=1").text
    assert "hostid=1" in page
    village.world.write(lambda tx: tx.execute("UPDATE host SET hidden = 1 WHERE id = 1"))
    try:
        assert "hostid=1" not in village.visitors["bruno"].get("/workunit.php?wuid=1").text
    finally:
        village.world.write(lambda tx: tx.execute("UPDATE host SET hidden = 0 WHERE id = 1"))


def test_no_page_at_all_tells_others_of_a_hidden_computer(village: Village) -> None:
    """Every address that the server has, with every number that could name Dora's computer, its tasks, or her."""
    paths = {
        route.path
        for route in create_app(village.world.ctx).routes
        if isinstance(route, Route) and "GET" in (route.methods or ()) and "{" not in route.path
    }
    numbers = ("", "userid=4", "hostid=4", "id=4", "wuid=1", "resultid=9", "teamid=1", "userid=4&format=xml")
    told: dict[str, str] = {}
    for page in [f"{path}?{number}" for path in sorted(paths) for number in numbers]:
        for who in ("nobody", "bruno"):
            text = village.visitors[who].get(page).text
            if re.search(r"Apple M2|diorite|hostid=4\b", text):
                told[page] = who
    assert told == {}
    assert "Apple M2" in village.visitors["dora"].get("/show_host_detail.php?hostid=4").text


def test_stderr_of_a_hidden_computer_is_for_its_owner(village: Village) -> None:
    assert "hello" not in village.visitors["bruno"].get("/result.php?resultid=9").text
    assert "hello" in village.visitors["dora"].get("/result.php?resultid=9").text
    assert "hello" in village.visitors["bruno"].get("/result.php?resultid=1").text


def test_user_xml_holds_computers_only_for_the_account_key(village: Village) -> None:
    visitor = village.visitors["nobody"]
    key = village.people.keys["dora"]
    weak = str(
        village.world.value("SELECT weak_authenticator FROM user_account WHERE authenticator = ?", key)
    )
    own = visitor.get(f"/show_user.php?format=xml&auth={key}").text
    assert "<host>" in own
    assert "diorite.local" in own
    public = visitor.get(f"/show_user.php?format=xml&userid={village.people.user_ids['dora']}").text
    assert "<name>Dora</name>" in public
    assert "<host>" not in public
    assert email("dora") not in public
    assert "<error_num>-136</error_num>" in visitor.get(f"/show_user.php?format=xml&auth={weak}").text
    assert "<error_num>-136</error_num>" in visitor.get("/show_user.php?format=xml&userid=99").text
