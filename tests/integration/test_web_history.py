"""Pages and files about everything since the first day: credit of people, computers and teams, and work of apps."""

from __future__ import annotations

from typing import Any

import pytest
from lxml import html
from tests.helpers.project_world import World, failed
from tests.helpers.visitors import Visitor, text_of

from cobblestone.domain.values import TeamId, UserId
from cobblestone.server.daemons.file_deleter import purge
from cobblestone.server.daemons.housekeeping import HistoryKeeper
from cobblestone.store.people import users

DAY = 86400.0


def keep(world: World) -> None:
    """Let the daemon take in what is there."""
    world.now += 61
    keeper = HistoryKeeper(world.ctx)
    while world.run(keeper.step()):
        pass


@pytest.fixture
def earned(world: World) -> World:
    """Ada and Bruno, in one team; Ada has earned on three days, Bruno on one; one job was given up."""
    app = world.add_app()
    ada, bruno = world.user("ada"), world.user("bruno")
    world.write(lambda tx: users.create_team(tx, "Sunny", UserId(1), now=world.now))
    world.write(lambda tx: users.join_team(tx, UserId(2), TeamId(1)))
    hosts = [world.host(ada), world.host(bruno)]
    for host, days in ((hosts[0], 0), (hosts[0], 1), (hosts[1], 1), (hosts[0], 100)):
        world.now += days * DAY
        world.add_jobs(app)
        host.rpc(ask=1.0)
        (name,) = host.new_results()
        world.now += 1800
        host.rpc(reports=[host.finish(name, b"answer", cpu_time=1000.0)])
        world.settle()
    world.add_jobs(app, 3)
    keep(world)
    return world


def rows(world: World, address: str) -> list[dict[str, Any]]:
    answer = world.get(address)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("application/json")
    return answer.json()


@pytest.mark.parametrize(
    ("query", "table", "n_days", "n_tasks"),
    [("userid=1", "user_account", 3, 3), ("hostid=1", "host", 3, 3), ("teamid=1", "team", 4, 4)],
)
def test_the_history_adds_up_to_the_total_of_its_owner(
    earned: World, query: str, table: str, n_days: int, n_tasks: int
) -> None:
    found = rows(earned, f"/credit_history.json?{query}")
    total = earned.value(f"SELECT total_credit FROM {table} WHERE id = 1")
    assert len(found) == n_days
    assert sum(row["credit"] for row in found) == pytest.approx(total)
    assert found[-1]["total_credit"] == pytest.approx(total)
    assert sum(row["tasks"] for row in found) == n_tasks
    page = earned.get(f"/credit_history.php?{query}")
    assert "each bar: 7 days" in text_of(page)
    bars = html.fromstring(page.text).xpath("//figure//rect[@class='bar']")
    assert len(bars) == 2


def test_milestones_are_on_the_page_with_their_dates(earned: World) -> None:
    text = text_of(earned.get("/credit_history.php?userid=1"))
    assert "the first valid task" in text
    assert text.index("15 Jan 2027") < text.index("the first valid task")


def test_purging_takes_nothing_out_of_the_history(earned: World) -> None:
    before = rows(earned, "/credit_history.json?userid=1"), rows(earned, "/app_history.json?appid=1")
    earned.write(lambda tx: tx.execute("UPDATE batch SET state = 4"))
    earned.settle()
    earned.now += 40 * DAY
    while earned.run(purge(earned.ctx)):
        pass
    assert earned.value("SELECT count(*) FROM workunit") == 3
    keep(earned)
    after = rows(earned, "/credit_history.json?userid=1"), rows(earned, "/app_history.json?appid=1")
    assert [{**row, "recent_average": 0} for row in after[0]] == [
        {**row, "recent_average": 0} for row in before[0]
    ]
    assert after[1][: len(before[1])] == before[1]


def test_what_an_app_did_is_told_by_day(earned: World) -> None:
    found = rows(earned, "/app_history.json?appid=1")
    assert [row["jobs_done"] for row in found] == [1, 1, 1, 1]
    assert [row["active_computers"] for row in found] == [1, 1, 1, 1]
    assert found[-1]["tasks_to_do"] == 3
    assert sum(row["credit"] for row in found) == pytest.approx(
        earned.value("SELECT SUM(total_credit) FROM user_account")
    )


def test_jobs_that_are_given_up_are_counted_apart(world: World) -> None:
    app = world.add_app()
    world.add_jobs(app)
    host = world.host(world.user("ada"))
    world.write(lambda tx: tx.execute("UPDATE workunit SET max_error_results = 0"))
    host.rpc(ask=1.0)
    (name,) = host.new_results()
    host.rpc(reports=[failed(name)])
    world.settle()
    keep(world)
    (day,) = rows(world, "/app_history.json?appid=1")
    assert (day["jobs_done"], day["jobs_failed"]) == (0, 1)


def test_the_page_of_an_app_draws_its_progress_with_a_table_of_the_same_figures(earned: World) -> None:
    tree = html.fromstring(earned.get("/app.php?appid=1").text)
    drawings = tree.xpath("//div[@class='plots']//svg")
    assert len(drawings) == 4  # nothing was given up, nothing is in progress
    assert all(drawing.get("role") == "img" and drawing.get("aria-label") for drawing in drawings)
    assert "4 jobs done since 15 Jan 2027" in " ".join(tree.text_content().split())
    heads = [" ".join(cell.split()) for cell in tree.xpath("//details//th/text()")]
    assert heads[0] == "From date (UTC)"
    assert len(heads) == 7


def test_the_list_of_apps_shows_how_each_gets_on(earned: World) -> None:
    tree = html.fromstring(earned.get("/apps.php").text)
    (drawing,) = tree.xpath("//figure//svg")
    assert drawing.get("aria-label").startswith("Jobs done per day as a bar chart")
    assert drawing.xpath(".//rect[@class='bar']")


def test_hidden_computers_have_no_public_history(earned: World) -> None:
    earned.write(lambda tx: tx.execute("UPDATE user_account SET show_hosts = 0"))
    for page in ("credit_history.php", "credit_history.json"):
        assert earned.get(f"/{page}?hostid=1").status_code == 403
        assert Visitor(earned).log_in("ada").get(f"/{page}?hostid=1").status_code == 200


def test_who_has_nothing_yet_is_told_so(world: World) -> None:
    world.user("ada")
    world.add_app()
    assert "No credit was granted yet" in text_of(world.get("/credit_history.php?userid=1"))
    assert rows(world, "/credit_history.json?userid=1") == []
    assert world.get("/app_history.json?appid=1").status_code == 404
    assert world.get("/credit_history.php").status_code == 404
    assert world.get("/app.php?appid=1").status_code == 200
