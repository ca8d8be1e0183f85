"""Pages in several languages: chosen in the footer, or by the browser's wish."""

from __future__ import annotations

from lxml import html
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor


def language_of(text: str) -> str:
    return html.fromstring(text).get("lang") or ""


def test_pages_come_in_the_language_that_the_browser_asks_for(world: World) -> None:
    answer = Visitor(world).get("/", headers={"Accept-Language": "sk-SK,sk;q=0.9,en;q=0.5"})
    assert language_of(answer.text) == "sk"
    assert answer.headers["content-language"] == "sk"
    assert language_of(Visitor(world).get("/").text) == "en"


def test_a_language_chosen_on_the_page_stays_and_leads_back(world: World) -> None:
    visitor = Visitor(world)
    page = html.fromstring(visitor.get("/server_status.php?part=&x=1").text)
    (link,) = page.xpath("//nav[@class='languages']/a[@lang='fr']/@href")
    answer = visitor.get(link)
    assert answer.headers["location"] == "/server_status.php?part=&x=1"
    assert "httponly" in answer.headers["set-cookie"].lower()
    assert language_of(visitor.get("/apps.php").text) == "fr"
    assert language_of(visitor.get("/apps.php", headers={"Accept-Language": "sk"}).text) == "fr"


def test_an_unknown_language_changes_nothing_and_no_other_site_is_reached(world: World) -> None:
    visitor = Visitor(world)
    answer = visitor.get("/language.php?to=xx&next=//evil.example/")
    assert answer.headers["location"] == "/"
    assert "set-cookie" not in answer.headers
