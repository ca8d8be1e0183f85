"""Badges and places on the pages, and the daemon that gives badges."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pytest
from lxml import html
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of

from cobblestone.server.daemons.housekeeping import BadgeKeeper
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import ranking
from cobblestone.store.operation.ranking import Order, RankPlace


def give(world: World) -> None:
    keeper = BadgeKeeper(world.ctx)
    while world.run(keeper.step()):
        pass


@pytest.fixture
def crowd(world: World) -> World:
    """Ten volunteers with a computer and a team each: the n-th has n times 1,000 credit, and n times 10 a day."""
    for name in "abcdefghij":
        world.user(name * 3)
    for table in ("user_account", "team", "host"):
        if table != "user_account":
            columns = "name_lc, name" if table == "team" else "user_id, host_cpid"
            world.write(
                lambda tx, table=table, columns=columns: tx.execute_many(
                    f"INSERT INTO {table} (id, {columns}) VALUES (?, ?, ?)",
                    [(n, n if table == "host" else f"t{n}", f"T{n}") for n in range(1, 11)],
                )
            )
        world.write(
            lambda tx, table=table: tx.execute(
                f"UPDATE {table} SET total_credit = id * 1000, expavg_credit = id * 10, expavg_time = ?",
                (world.now,),
            )
        )
    return world


def badges(world: World, page: str) -> list[str]:
    return html.fromstring(world.get(page).text).xpath("//p[@class='badges']/img/@alt")


def test_badges_stand_on_pages_and_in_lists_with_words_and_pictures(crowd: World) -> None:
    give(crowd)
    expected = ["10,000 credit in total", "100 credit per day", "Among the best 1 %"]
    for page in ("show_user.php?userid=10", "team_display.php?teamid=10", "show_host_detail.php?hostid=10"):
        assert sorted(badges(crowd, f"/{page}")) == sorted(expected), page
    assert badges(crowd, "/show_user.php?userid=3") == ["1,000 credit in total"]
    for page in ("top_users.php", "top_teams.php", "top_hosts.php"):
        tree = html.fromstring(crowd.get(f"/{page}").text)
        first_row = tree.xpath("//tbody/tr")[0].xpath(".//img[@class='small-badge']")
        assert sorted(image.get("alt") for image in first_row) == sorted(expected)
        for image in first_row:
            answer = crowd.get("/" + image.get("src"))
            assert answer.headers["content-type"] == "image/svg+xml"
            assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert crowd.get("/badge/total-7.svg").status_code == 404


def test_badges_follow_the_credit_and_the_settings(crowd: World, make_world: Callable[..., World]) -> None:
    give(crowd)
    first = crowd.query("SELECT owner_id, create_time FROM badge_owner WHERE owner = 'user' ORDER BY 1, 2")
    crowd.now += 86400
    crowd.write(lambda tx: tx.execute("UPDATE user_account SET total_credit = 500 WHERE id = 3"))
    crowd.write(lambda tx: tx.execute("UPDATE user_account SET total_credit = 10000 WHERE id = 4"))
    give(crowd)
    assert badges(crowd, "/show_user.php?userid=3") == []
    assert badges(crowd, "/show_user.php?userid=4") == ["10,000 credit in total"]
    kept = crowd.query("SELECT owner_id, create_time FROM badge_owner WHERE owner = 'user' ORDER BY 1, 2")
    assert set(kept) - set(first) == {(4, crowd.now)}
    crowd.write(lambda tx: tx.execute("UPDATE user_account SET erased_time = 1 WHERE id = 10"))
    give(crowd)
    assert crowd.value("SELECT count(*) FROM badge_owner WHERE owner = 'user' AND owner_id = 10") == 0


def test_a_project_without_levels_gives_none(make_world: Callable[..., World]) -> None:
    world = make_world(badges={"total": [], "recent": [], "rank_percent": []})
    world.user("ada")
    world.write(lambda tx: tx.execute("UPDATE user_account SET total_credit = 1e9, expavg_credit = 1e9"))
    give(world)
    assert badges(world, "/show_user.php?userid=1") == []


def test_a_round_that_is_broken_off_is_made_up_for_by_the_next(
    crowd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cobblestone.server.daemons.housekeeping.BADGE_CHUNK", 3)
    crowd.run(BadgeKeeper(crowd.ctx).step())  # of three users, then killed
    assert crowd.value("SELECT count(DISTINCT owner_id) FROM badge_owner") == 3
    give(crowd)
    for kind in ("user", "host", "team"):
        n = crowd.value("SELECT count(DISTINCT owner_id) FROM badge_owner WHERE owner = ?", kind)
        assert n == 10


def test_the_rank_page_shows_the_neighbours_of_whom_it_is_about(crowd: World) -> None:
    page = crowd.get("/rank.php?userid=5")
    assert "Rank 6 of 10" in text_of(page)
    for table in html.fromstring(page.text).xpath("//table"):
        assert table.xpath(".//tr/td[1]/text()") == ["3", "4", "5", "6", "7", "8", "9"]
        assert table.xpath(".//tr[@class='own']//a/text()") == ["Eee"]
    assert "rank 6 of 10 by total credit" in text_of(crowd.get("/show_user.php?userid=5"))
    assert html.fromstring(crowd.get("/rank.php?teamid=1").text).xpath("//tr[@class='own']//a/text()") == [
        "T1",
        "T1",
    ]


def test_hidden_computers_stand_in_the_neighbourhood_without_a_name(crowd: World) -> None:
    crowd.write(lambda tx: tx.execute("UPDATE user_account SET show_hosts = 1"))
    crowd.write(lambda tx: tx.execute("UPDATE user_account SET show_hosts = 0 WHERE id = 6"))
    names = html.fromstring(crowd.get("/rank.php?hostid=5").text).xpath("//table[1]//tr/td[2]")
    assert "hidden" in [cell.text_content() for cell in names]
    assert crowd.get("/rank.php?hostid=6").status_code == 403
    assert Visitor(crowd).log_in("fff").get("/rank.php?hostid=6").status_code == 200


def test_without_credit_there_is_no_rank(world: World) -> None:
    world.user("ada")
    assert "There is no rank without credit." in text_of(world.get("/rank.php?userid=1"))
    assert world.get("/rank.php?userid=2").status_code == 404


@pytest.mark.of_sqlite
def test_ranks_are_counted_in_the_index(crowd: World) -> None:
    for table, condition in (
        ("user_account", "erased_time IS NULL"),
        ("host", "merged_into IS NULL AND removed_time IS NULL"),
    ):
        for column in ("total_credit", "expavg_credit"):
            plan = crowd.query(
                f"EXPLAIN QUERY PLAN SELECT count(*) FROM {table} WHERE {condition} AND {column} > 0"
                f" AND ({column}, id) > (5.0, 3)"
            )
            assert "COVERING INDEX" in plan[0][3], plan


@pytest.mark.of_sqlite
def test_a_rank_in_a_long_list_is_counted_from_the_nearest_place_that_is_kept(
    crowd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(tx: Transaction) -> None:
        tx.execute_many(
            "INSERT INTO team (id, name_lc, total_credit, expavg_credit) VALUES (?, ?, ?, ?)",
            [(n, str(n), float(n), float(n)) for n in range(1000, 21_000)],
        )

    crowd.write(fill)
    monkeypatch.setattr(ranking, "LONG", 10_000)
    kept: dict[Hashable, Any] = {}
    steps: list[int] = []

    def keep(key: Hashable, find: Callable[[], Any]) -> Any:
        return kept.setdefault(key, kept.get(key) or find())

    def look(db: Database, team: int) -> RankPlace | None:
        connection: Any = db._connection  # SQLite's own, below the layer
        steps.clear()
        connection.set_progress_handler(lambda: bool(steps.append(1)), 100)
        try:
            return ranking.place(db, Owner.TEAM, Order.TOTAL, team, keep)
        finally:
            connection.set_progress_handler(None, 0)

    for team, rank in ((20_999, 1), (19_000, 2000), (18_999, 2001), (9_000, 12_001), (1_001, 20_008)):
        found = crowd.ctx.store.read(lambda db, team=team: look(db, team))
        assert found is not None
        assert (found.rank, found.of) == (rank, 20_010)
        assert len(steps) < 300 or team == 20_999  # the first look makes the list of places
