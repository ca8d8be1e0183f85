"""Credit over time on pages and as files: users, computers, teams."""

from __future__ import annotations

import csv
import io

import pytest
from lxml import html
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of

from cobblestone.domain.statistics import RecentAverage
from cobblestone.domain.values import TeamId, UserId
from cobblestone.policy.credit import history as policy
from cobblestone.policy.credit.rac import decayed
from cobblestone.service.pages.wording import credit
from cobblestone.store.credit import history
from cobblestone.store.people import users

DAY = 86400.0


@pytest.fixture
def earned(world: World) -> World:
    """Ada and Bruno, in one team; both have earned, Ada on three days."""
    app = world.add_app()
    ada, bruno = world.user("ada"), world.user("bruno")
    world.write(lambda tx: users.create_team(tx, "Sunny", UserId(1), now=world.now))
    world.write(lambda tx: users.join_team(tx, UserId(2), TeamId(1)))
    hosts = [world.host(ada), world.host(bruno)]
    for host, hours in ((hosts[0], 5), (hosts[0], 9), (hosts[1], 2), (hosts[0], 20), (hosts[0], 21)):
        world.now += hours * 3600
        world.add_jobs(app)
        host.rpc(ask=1.0)
        (name,) = host.new_results()
        world.now += 1800
        host.rpc(reports=[host.finish(name, b"answer", cpu_time=1000.0 + hours)])
        world.settle()
    world.now += 6 * 3600
    return world


def rows(world: World, query: str) -> list[dict[str, str]]:
    answer = world.get(f"/credit.csv?{query}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.text)))


@pytest.mark.parametrize(
    ("query", "table", "n_tasks"),
    [
        ("userid=1", "user_account", 4),
        ("hostid=1", "host", 4),
        ("userid=2", "user_account", 1),
        ("teamid=1", "team", 5),
    ],
)
def test_the_file_ends_with_the_average_that_is_stored_and_adds_up_to_the_total(
    earned: World, query: str, table: str, n_tasks: int
) -> None:
    owner_id = int(query[-1])
    found = rows(earned, query)
    total, value, time = earned.query(
        f"SELECT total_credit, expavg_credit, expavg_time FROM {table} WHERE id = ?", owner_id
    )[0]
    assert total > 0
    assert len(found) == 30
    assert sum(float(row["credit"]) for row in found) == pytest.approx(total, abs=1e-4)
    assert sum(int(row["tasks"]) for row in found) == n_tasks
    average = decayed(RecentAverage(value, time), earned.now)
    assert float(found[-1]["recent_average"]) == pytest.approx(average, rel=0.06 if owner_id == 2 else 1e-4)


@pytest.mark.parametrize(
    ("page", "query"),
    [
        ("/show_user.php?userid=1", "userid=1"),
        ("/show_host_detail.php?hostid=1", "hostid=1"),
        ("/team_display.php?teamid=1", "teamid=1"),
        ("/home.php", "userid=1"),
    ],
)
def test_pages_draw_the_same_figures_and_link_to_the_file(earned: World, page: str, query: str) -> None:
    answer = Visitor(earned).log_in("ada").get(page)
    tree = html.fromstring(answer.text)
    (line,) = tree.xpath("//figure//polyline/@points")
    assert len(line.split()) == 31
    last = rows(earned, query)[-1]
    assert f"{credit(float(last['recent_average']))}credit per day, recent average" in text_of(answer)
    assert f"credit.csv?{query}" in tree.xpath("//figure//a/@href")
    assert len(tree.xpath("//figure//rect[@class='bar']")) == len(
        [row for row in rows(earned, query) if float(row["credit"]) > 0]
    )


def test_a_team_page_lists_its_members_by_recent_credit(earned: World) -> None:
    tree = html.fromstring(earned.get("/team_display.php?teamid=1").text)
    (table,) = tree.xpath("//table[@class='rank']")
    assert table.xpath(".//tbody//a/text()") == ["Ada", "Bruno"]
    assert table.xpath(".//tbody/tr/td[1]/text()") == ["1", "2"]


def test_who_leaves_a_team_takes_nothing_away(earned: World) -> None:
    before = rows(earned, "teamid=1")
    earned.write(lambda tx: tx.execute("UPDATE user_account SET team_id = NULL WHERE id = 2"))
    assert rows(earned, "teamid=1") == before


def test_hidden_computers_have_no_public_file(earned: World) -> None:
    earned.write(lambda tx: tx.execute("UPDATE user_account SET show_hosts = 0"))
    assert earned.get("/credit.csv?hostid=1").status_code == 403
    assert Visitor(earned).log_in("ada").get("/credit.csv?hostid=1").status_code == 200
    assert Visitor(earned).log_in("bruno").get("/credit.csv?hostid=1").status_code == 403


def test_a_year_is_the_longest(earned: World) -> None:
    assert len(rows(earned, "userid=1&days=366")) == 366
    assert earned.get("/credit.csv?userid=1&days=367").status_code == 404


def test_a_correction_lowers_the_day_and_counts_as_no_task(earned: World) -> None:
    before = rows(earned, "userid=1")
    earned.write(
        lambda tx: tx.execute(
            "INSERT INTO credit_entry (time, result_id, workunit_id, host_id, user_id, team_id, kind, system, granted)"
            " SELECT ?, result_id, workunit_id, host_id, user_id, team_id, 'correction', system, -granted"
            " FROM credit_entry WHERE id = 1",
            (earned.now,),
        )
    )
    after = rows(earned, "userid=1")
    assert [row["tasks"] for row in after] == [row["tasks"] for row in before]
    assert float(after[-1]["credit"]) < float(before[-1]["credit"])
    assert 0 < float(after[-1]["recent_average"]) < float(before[-1]["recent_average"])


def test_of_long_ledgers_the_sums_of_days_are_shown_with_the_same_result(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.user("ada")
    world.write(lambda tx: tx.execute("UPDATE user_account SET create_time = ?", (world.now - 50 * DAY,)))
    world.write(
        lambda tx: tx.execute_many(
            "INSERT INTO credit_entry (time, result_id, workunit_id, host_id, user_id, kind, granted, work_start)"
            " VALUES (?, ?, 1, 1, 1, 'grant', ?, ?)",
            [(world.now - (3000 - n) * 1000.0, n, 1.0 + n % 7, world.now - DAY) for n in range(3000)],
        )
    )
    while world.write(lambda tx: history.follow_ledger(tx, now=world.now, limit=1000)):
        pass
    monkeypatch.setattr(history, "MAX_SINGLE", 3000)
    exact = rows(world, "userid=1")
    monkeypatch.setattr(history, "MAX_SINGLE", 2999)
    monkeypatch.delattr(policy, "credit_history")
    summed = rows(world, "userid=1")
    assert [row["tasks"] for row in summed] == [row["tasks"] for row in exact]
    for name in ("credit", "recent_average"):
        assert [float(row[name]) for row in summed] == pytest.approx(
            [float(row[name]) for row in exact], rel=1e-6
        )
