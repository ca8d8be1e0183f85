"""Texts that the project writes itself: news in Markdown, about, science, terms of use; and what robots and browsers ask for."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from lxml import html
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of

from cobblestone.domain.values import UserId
from cobblestone.store.credit.app_credit import Owner, credit_by_app, follow_ledger
from cobblestone.store.operation import interventions
from cobblestone.store.people import users

NEWS = "# Now\n\nRead [the paper](https://example.org/p) and [the apps](apps.php).\n<script>alert(1)</script>\n\n![x](http://e.org/p.png)"


def test_news_are_shown_with_links_and_without_any_html_of_their_own(world: World) -> None:
    world.write(lambda tx: users.add_news(tx, title="First", text=NEWS, now=world.now))
    page = html.fromstring(world.get("/news.php?id=1").text)
    (article,) = page.xpath("//article")
    assert [link.get("href") for link in article.xpath(".//div//a")] == ["https://example.org/p", "apps.php"]
    assert not page.xpath("//article//script | //article//img")
    assert "<script>alert(1)</script>" in article.text_content()
    assert "Read the paper" in text_of(world.get("/"))


def test_the_feed_of_news_has_whole_addresses(world: World) -> None:
    world.write(lambda tx: users.add_news(tx, title="First", text=NEWS, now=world.now))
    feed = ET.fromstring(world.get("/rss_main.php").text)
    description = feed.findtext("channel/item/description") or ""
    assert 'href="http://127.0.0.1:8080/apps.php"' in description


def test_a_text_of_the_project_is_a_page_as_soon_as_its_file_is_there(world: World) -> None:
    assert world.get("/about.php").status_code == 404
    assert "about.php" not in world.get("/").text
    root = world.ctx.folder.root
    (root / "about.md").write_text("## Who we are\n\nAstronomers.", encoding="utf-8")
    (root / "about.fr.md").write_text("Des **astronomes**.", encoding="utf-8")
    assert "about.php" in world.get("/").text
    assert "Astronomers." in text_of(world.get("/about.php"))
    french = world.get("/about.php", headers={"accept-language": "fr"})
    assert "<strong>astronomes</strong>" in french.text
    (root / "about.md").write_text("Physicists, since today.", encoding="utf-8")
    assert "Physicists, since today." in text_of(world.get("/about.php"))
    (root / "science.md").write_bytes(b"\xff\xfe not a text \x00" * 50_000)
    assert world.get("/science.php").status_code == 200


def test_a_project_without_a_description_names_what_it_computes_and_asks_its_operator_for_one(
    world: World,
) -> None:
    assert "Science, computed by volunteers" in text_of(world.get("/"))
    world.add_app("period")
    lead = html.fromstring(world.get("/").text).xpath("string(//p[@class='lead'])")
    assert lead.endswith(": computed by volunteers. Donate the computing time that you do not need.")
    assert "period" in lead.lower()
    asked = "say here what the project is about"
    assert asked not in text_of(world.get("/"))
    operator = Visitor(world)
    operator.send("/join.php", user_name="Olga", email_addr="olga@example.org", passwd="long enough")
    assert asked not in text_of(operator.get("/"))
    number = world.value("SELECT id FROM user_account WHERE name = 'Olga'")
    world.write(lambda tx: interventions.set_role(tx, UserId(number), "operator"))
    assert asked in text_of(operator.get("/"))


def test_who_joins_agrees_to_the_terms_of_use(world: World) -> None:
    (world.ctx.folder.root / "terms.md").write_text("Be kind & patient.", encoding="utf-8")
    config = world.get("/get_project_config.php").text
    assert "Be kind &amp; patient." in config
    visitor = Visitor(world)
    fields = {"user_name": "Eve", "email_addr": "eve@example.org", "passwd": "long enough"}
    refused = visitor.send("/join.php", **fields)
    assert refused.status_code == 422
    assert "You must agree to the terms to create an account." in text_of(refused)
    assert visitor.send("/join.php", **fields, consent="1").status_code == 303
    query = (
        "/create_account.php?email_addr=f@example.org&passwd_hash=" + "a" * 32 + "&user_name=F&consent_flag="
    )
    assert "<error_num>-242</error_num>" in world.get(query + "0").text
    assert "<authenticator>" in world.get(query + "1").text


def test_browsers_and_robots_find_what_they_ask_every_site_for(world: World) -> None:
    icon = world.get("/favicon.ico", follow_redirects=True)
    assert icon.headers["content-type"].startswith("image/svg")
    robots = world.get("/robots.txt").text
    assert "User-agent: *" in robots
    assert "Disallow: /login.php" in robots


def test_one_short_task_does_not_count_as_a_whole_day_of_its_app(world: World) -> None:
    """Ten seconds of work, by the rule for a first sample, would be taken for 8,640 times as much a day."""
    world.add_jobs(world.add_app())
    host = world.host(world.user("ada"))
    host.rpc(ask=1000.0)
    (name,) = host.new_results()
    world.now += 10
    host.rpc(reports=[host.finish(name, b"answer", cpu_time=10.0)])
    world.settle()
    world.now += 100
    world.write(lambda tx: follow_ledger(tx, now=world.now))
    (by_app,) = world.run(world.ctx.store.aread(lambda db: credit_by_app(db, Owner.HOST, host.id)))
    assert by_app.credit.total > 0
    assert by_app.credit.recent.value < by_app.credit.total


def test_active_are_those_whose_computers_called_within_a_day(world: World) -> None:
    world.host(world.user("ada")).rpc()
    assert "1 active" in text_of(world.get("/server_status.php?part=live"))
    world.now += 2 * 86400
    world.host(world.user("bruno")).rpc()
    text = text_of(world.get("/server_status.php?part=live"))
    assert "2volunteers1 active 2computers1 active" in " ".join(text.split())
