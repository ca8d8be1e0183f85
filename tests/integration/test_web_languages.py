"""Pages in several languages: chosen in the footer, or by the browser's wish."""

from __future__ import annotations

from lxml import html
from tests.helpers.project_world import World, failed
from tests.helpers.visitors import Visitor, text_of

from cobblestone.domain.apps import ComparisonRule
from cobblestone.store.operation import interventions

NOTHING = {
    "en": "The project has no application to send at the moment. Nothing is wrong with this computer.",
    "fr": "Le projet n'a pas d'application à envoyer pour le moment. Tout va bien avec cet ordinateur.",
    "sk": "Projekt momentálne nemá aplikáciu, ktorú by poslal. S týmto počítačom je všetko v poriadku.",
}


def set_language(world: World, code: str) -> None:
    world.write(lambda tx: tx.execute("UPDATE user_account SET language = ?", (code,)))


def language_of(text: str) -> str:
    return html.fromstring(text).get("lang") or ""


def test_pages_come_in_the_language_that_the_browser_asks_for(world: World) -> None:
    answer = Visitor(world).get("/", headers={"Accept-Language": "sk-SK,sk;q=0.9,en;q=0.5"})
    assert language_of(answer.text) == "sk"
    assert answer.headers["content-language"] == "sk"
    assert language_of(Visitor(world).get("/").text) == "en"


def test_a_client_hears_in_its_own_language_or_the_accounts_why_there_are_no_tasks(world: World) -> None:
    host = world.host(world.user("ada"))

    def heard() -> list[str]:
        host.rpc(ask=1)
        return host.messages()

    assert NOTHING["en"] in heard()
    set_language(world, "sk")
    assert [NOTHING["sk"] in heard(), "Neboli poslané žiadne úlohy" in heard()] == [True, True]
    host.headers["Accept-Language"] = "fr_FR"
    assert NOTHING["fr"] in heard()
    host.headers["Accept-Language"] = "xx"
    assert NOTHING["sk"] in heard(), "a language that there is not says nothing"
    stranger = world.host("0" * 32)
    stranger.headers["Accept-Language"] = "sk"
    stranger.rpc()
    assert stranger.messages()[0].startswith("Tento projekt nepozná kľúč vášho účtu.")


def test_the_page_of_a_computer_tells_its_owner_why_there_are_no_tasks(world: World) -> None:
    for name in ("ada", "bruno"):
        world.user(name)
    ada = Visitor(world).log_in("ada")
    host = world.host(world.value("SELECT authenticator FROM user_account WHERE id = 1"))
    host.rpc()
    page = "/show_host_detail.php?hostid=1"
    for code, sentence in NOTHING.items():
        assert sentence in text_of(ada.get(page, headers={"Accept-Language": code}))
    assert NOTHING["en"] not in text_of(Visitor(world).log_in("bruno").get(page))
    world.add_jobs(world.add_app())
    assert "it would get tasks" in text_of(ada.get(page))
    world.write(lambda tx: interventions.block(tx, "host", 1, "Its memory is broken"))
    assert "it would get no tasks." in text_of(ada.get(page)), "the reason stands above, so no list follows"


def test_a_task_says_what_was_wrong_in_the_language_of_the_page(world: World) -> None:
    world.add_jobs(world.add_app())
    host = world.host(world.user("ada"))
    host.rpc(ask=1)
    host.rpc(reports=[failed(host.new_results()[0], exit_status=11)])
    page = Visitor(world).get("/result.php?resultid=1", headers={"Accept-Language": "sk"})
    assert "Návratový kód 11 (0xb). Viac povie koniec chybového výstupu úlohy." in text_of(page)


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


def test_a_task_says_in_ones_language_why_it_is_valid_or_not_and_what_it_earned(world: World) -> None:
    app = world.add_app(quorum=2, comparison=ComparisonRule(kind="numeric"))
    world.add_jobs(app, inputs=(), n=1)
    for name, answer in (("ada", b"1 2.75 3"), ("bruno", b"1 2.5 3"), ("chandra", b"1 2.5 3")):
        host = world.host(world.user(name))
        host.rpc(ask=1)
        world.now += 600
        for result in sorted(host.held):
            host.rpc(reports=[host.finish(result, answer)])
        world.settle()
    said = {
        code: " ".join(
            text_of(Visitor(world).get(f"/result.php?resultid={number}", headers={"Accept-Language": code}))
            for number in (1, 2, 3)
        )
        for code in ("en", "fr", "sk")
    }
    for code, sentences in {
        "en": (
            "disagrees with the canonical result demo_1_0_1: out: line 1, column 3: ",
            "s of CPU x Whetstone",
            "mean of 2 claims",
        ),
        "fr": (
            "ne concorde pas avec le résultat canonique demo_1_0_1 : out : ligne 1, colonne 3 : ",
            "s de processeur x Whetstone",
            "moyenne de 2 demandes",
        ),
        "sk": (
            "sa nezhoduje s kanonickým výsledkom demo_1_0_1: out: riadok 1, stĺpec 3: ",
            "s procesora x Whetstone",
            "priemer 2 nárokov",
        ),
    }.items():
        assert [sentence for sentence in sentences if sentence not in said[code]] == [], code
