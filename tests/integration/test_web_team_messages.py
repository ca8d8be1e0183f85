"""What founders write to their teams, and notices of one's own."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable

import pytest
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of

from cobblestone.domain.values import TeamId, UserId
from cobblestone.store.people import users

PAGE = "/team_messages.php?teamid=1"
DAY = 86400.0


@pytest.fixture
def team(world: World) -> World:
    """Ada founded a team, Bruno is a member, Chandra is not."""
    for name in ("ada", "bruno", "chandra"):
        world.user(name)
    world.write(lambda tx: users.create_team(tx, "Sunny", UserId(1), now=world.now))
    world.write(lambda tx: users.join_team(tx, UserId(2), TeamId(1)))
    return world


def write_to_team(visitor: Visitor, title: str = "Race", text: str = "Come to the **race** on Sunday!"):
    return visitor.send(PAGE, title=title, text=text)


def notices(world: World, visitor: Visitor) -> list[str]:
    """Titles of a volunteer's own feed, by the address that the account page names."""
    tree = visitor.get("/home.php").text
    address = tree[tree.index("notices.php?") :].partition('"')[0].replace("&amp;", "&")
    answer = world.get("/" + address)
    assert answer.status_code == 200, answer.text
    return [item.text or "" for item in ET.fromstring(answer.content).findall("channel/item/title")]


def test_members_read_what_their_founder_wrote_and_nobody_else(team: World) -> None:
    ada, bruno = (Visitor(team).log_in(name) for name in ("ada", "bruno"))
    assert write_to_team(ada).status_code == 303
    for visitor in (ada, bruno):
        assert "<strong>race</strong>" in visitor.get(PAGE).text
        assert "Race" in text_of(visitor.get("/home.php"))
        assert notices(team, visitor) == ["Race"]
    chandra = Visitor(team).log_in("chandra")
    assert chandra.get(PAGE).status_code == 403
    assert notices(team, chandra) == []
    assert "Race" not in chandra.get("/team_display.php?teamid=1").text
    assert team.get(PAGE).status_code == 303  # to log in


def test_a_team_gets_one_message_a_day_also_after_one_was_withdrawn(team: World) -> None:
    ada = Visitor(team).log_in("ada")
    write_to_team(ada)
    team.now += DAY - 10
    answer = write_to_team(ada, title="Again")
    assert answer.status_code == 422
    assert "one message a day" in text_of(answer)
    assert "Again" in answer.text  # what was typed stays
    token = {"form_token": ada.get(PAGE).text.partition('name="form_token" value="')[2].partition('"')[0]}
    assert ada.post(PAGE, action="withdraw", id="1", **token).status_code == 303
    assert "There are no messages." in text_of(ada.get(PAGE))
    assert write_to_team(ada, title="Again").status_code == 422
    team.now += 11
    assert write_to_team(ada, title="Again").status_code == 303
    assert ada.post(PAGE, action="withdraw", id="1", **token).status_code == 404


def test_only_the_founder_writes_and_bounds_are_kept(team: World) -> None:
    ada, bruno = (Visitor(team).log_in(name) for name in ("ada", "bruno"))
    token = {"form_token": bruno.get(PAGE).text.partition('name="form_token" value="')[2].partition('"')[0]}
    assert bruno.post(PAGE, action="send", title="Mine", text="x", **token).status_code == 403
    assert bruno.post(PAGE, action="withdraw", id="1", **token).status_code == 403
    assert bruno.post(PAGE, action="strange", **token).status_code == 400
    assert (
        bruno.post(PAGE, action="send", title="Mine", text="x").status_code == 403
    )  # without the form's token
    for fields in ({"title": ""}, {"title": "x" * 101}, {"text": " "}, {"text": "x" * 3001}):
        assert write_to_team(ada, **fields).status_code == 422
    assert team.value("SELECT count(*) FROM team_message") == 0
    assert (
        write_to_team(
            ada, title="<script>", text="<script>alert(1)</script> [x](javascript:alert(1))"
        ).status_code
        == 303
    )
    page = bruno.get(PAGE).text
    assert "<script>" not in page
    assert 'href="javascript' not in page


def test_who_does_not_want_messages_sees_them_on_their_own_page_only(team: World) -> None:
    ada, bruno = (Visitor(team).log_in(name) for name in ("ada", "bruno"))
    write_to_team(ada)
    assert bruno.send(PAGE).status_code == 303  # the form with the box that is not ticked
    assert "Race" not in text_of(bruno.get("/home.php"))
    assert notices(team, bruno) == []
    assert "Race" in text_of(bruno.get(PAGE))
    bruno.send(PAGE, team_messages="1")
    assert notices(team, bruno) == ["Race"]


def test_operators_withdraw_what_should_not_stand_there_and_it_is_recorded(team: World) -> None:
    write_to_team(Visitor(team).log_in("ada"), title="Bad words")
    team.write(lambda tx: tx.execute("UPDATE user_account SET role = 'operator' WHERE id = 3"))
    chandra = Visitor(team).log_in("chandra")
    assert chandra.send(PAGE).status_code == 303  # the only form there is
    assert "Bad words" not in Visitor(team).log_in("bruno").get(PAGE).text
    assert "Bad words" in team.value("SELECT before FROM audit_entry WHERE target = 'team 1'")


def test_only_the_newest_messages_are_kept(team: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cobblestone.store.people.teams.KEPT_MESSAGES", 2)
    ada = Visitor(team).log_in("ada")
    for number in range(4):
        team.now += DAY
        assert write_to_team(ada, title=f"Number {number}").status_code == 303
    assert team.query("SELECT title FROM team_message ORDER BY id") == [("Number 2",), ("Number 3",)]


def test_clients_are_told_of_the_feed_that_holds_milestones(team: World) -> None:
    app = team.add_app()
    team.add_jobs(app)
    host = team.host(team.value("SELECT authenticator FROM user_account WHERE id = 2"))
    reply = host.rpc(ask=1.0)
    feeds = [feed.get("url") for feed in reply.all("rss_feeds")[0].all("rss_feed")]
    assert feeds[0].endswith("/rss_main.php")
    team.write(
        lambda tx: tx.execute_many(
            "INSERT INTO milestone (owner, owner_id, credit, time) VALUES ('user', 2, ?, ?)",
            [(0, team.now - 50 * DAY), (1000, team.now - DAY)],
        )
    )
    team.write(
        lambda tx: tx.execute("UPDATE user_account SET total_credit = 2000, language = 'fr' WHERE id = 2")
    )
    answer = team.get(feeds[1].removeprefix("http://127.0.0.1:8080"))
    titles = [item.text or "" for item in ET.fromstring(answer.content).findall("channel/item/title")]
    assert len(titles) == 1
    assert "000 de crédit" in titles[0]


@pytest.mark.parametrize("query", ["", "userid=2", "userid=2&auth=0", "userid=x&auth=y", "userid=99&auth=é"])
def test_notices_are_shown_to_who_has_the_key(team: World, query: str) -> None:
    assert team.get(f"/notices.php?{query}").status_code == 404


def test_the_forum_is_a_link_and_a_frame_only_where_the_project_wants_it(
    make_world: Callable[..., World],
) -> None:
    url = "https://forum.example.org/sun"
    linked = make_world(project={"forum_url": url})
    assert f'href="{url}" rel="noreferrer"' in linked.get("/").text
    assert linked.get("/forum.php").status_code == 404
    framed = make_world(project={"forum_url": url, "forum_embedded": True})
    answer = framed.get("/forum.php")
    assert f'src="{url}"' in answer.text
    assert answer.headers["content-security-policy"].endswith("; frame-src https://forum.example.org")
    assert "frame-src" not in framed.get("/").headers["content-security-policy"]
