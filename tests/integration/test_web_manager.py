"""What the family's Manager does with a project, from its address to the preferences: the requests of 7.20.5, replayed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from lxml import html
from tests.helpers.project_world import URL, World
from tests.helpers.visitors import Visitor, text_of
from tests.helpers.wire_elements import Element, read_elements

EMAIL = "new@example.org"


def new_account(world: World) -> str:
    """Attach with a new account as the Manager has its client do it; the account's key."""
    client = {"User-Agent": "BOINC client (x86_64-pc-linux-gnu 7.20.5)", "Accept-Language": "en_US"}

    def ask(page: str, **fields: str) -> Element:
        answer = world.get(page, params=fields, headers=client)
        assert answer.status_code == 200
        return read_elements(answer.content)

    hashed = hashlib.md5(f"secret word{EMAIL}".encode()).hexdigest()
    assert ask("/get_project_config.php").get("master_url") == URL
    # It looks first whether the account exists, and creates it under the name before the @ or the one of the system's user.
    assert ask("/lookup_account.php", email_addr=EMAIL, passwd_hash=hashed).get("error_num") == "-136"
    return ask("/create_account.php", email_addr=EMAIL, passwd_hash=hashed, user_name="new").get(
        "authenticator"
    )


def test_the_managers_new_account_gets_a_name_and_goes_on_to_the_preferences(world: World) -> None:
    key = new_account(world)
    visitor = Visitor(world)
    page = visitor.get(f"/account_finish.php?auth={key}")
    assert page.status_code == 200
    assert html.fromstring(page.text).xpath("//input[@name='user_name']/@value") == ["new"]
    assert visitor.get("/home.php").status_code == 303, "the address alone logs nobody in"
    answer = visitor.send(
        f"/account_finish.php?auth={key}", user_name="Ada L", country="France", statistics="1"
    )
    assert answer.headers["location"] == "/prefs_computing.php"
    assert visitor.get("/prefs_computing.php").status_code == 200
    assert world.query("SELECT name, country, email_addr FROM user_account") == [("Ada L", "France", EMAIL)]
    assert world.query("SELECT kind, agreed, source FROM consent") == [
        ("statistics", 1, "account_finish.php")
    ]


def test_a_name_that_cannot_be_used_is_asked_for_again(world: World) -> None:
    key = new_account(world)
    answer = Visitor(world).send(f"/account_finish.php?auth={key}", user_name="<b>")
    assert answer.status_code == 422
    assert "Choose another name" in text_of(answer)
    assert world.value("SELECT name FROM user_account") == "new"


def test_the_address_of_the_managers_page_is_good_for_a_day_and_for_the_strong_key_alone(
    world: World,
) -> None:
    key = new_account(world)
    weak = world.value("SELECT weak_authenticator FROM user_account")
    visitor = Visitor(world)
    for wrong in (weak, "", "0" * 32, "%00", key.upper()):
        answer = visitor.get(f"/account_finish.php?auth={wrong}")
        assert answer.headers["location"].startswith("/login.php"), wrong
    world.now += 86_401
    assert visitor.get(f"/account_finish.php?auth={key}").headers["location"].startswith("/login.php")


def test_keys_are_not_guessed_without_end(make_world: Callable[..., World]) -> None:
    world = make_world(limits={"lookups_per_address": 10})
    visitor = Visitor(world)
    answers = [visitor.get(f"/account_finish.php?auth={n:032x}").status_code for n in range(12)]
    assert answers == [303] * 10 + [429] * 2


# -- clients that attach by themselves --------------------------------------------------------------------


def attach_line(visitor: Visitor) -> str:
    tree = html.fromstring(visitor.get("/tokens.php").text)
    (form,) = tree.xpath("//form[.//input[@value='attach']]")
    hidden = {field.get("name"): field.get("value") for field in form.xpath(".//input[@type='hidden']")}
    page = visitor.post("/tokens.php", **hidden)
    return html.fromstring(page.text).xpath("//p[@class='address']/code/text()")[0]


def test_a_client_attaches_by_the_line_in_its_folder_for_a_day(make_world: Callable[..., World]) -> None:
    world = make_world(project={"url": URL, "list_number": 17})
    key = world.user("ada")
    line = attach_line(Visitor(world).log_in("ada"))
    number, user_id, token = line.removeprefix("__").split("_")
    assert (number, user_id) == ("17", "1")

    def look_up(**fields: str) -> Element:
        return read_elements(world.get("/login_token_lookup.php", params=fields).content)

    found = look_up(user_id=user_id, token=token)
    assert (found.tag, found.get("authenticator"), found.get("user_name")) == (
        "login_token_reply",
        key,
        "Ada",
    )
    assert look_up(user_id=user_id, token=token).get("authenticator") == key, "for another computer"
    for wrong in ({"user_id": "2", "token": token}, {"user_id": "1", "token": "0" * 32}, {"token": token}):
        assert look_up(**wrong).get("error_num") == "-136"
    assert attach_line(Visitor(world).log_in("ada")) != line
    assert look_up(user_id=user_id, token=token).has("error_num"), "a new line ends the one before"
    newest = attach_line(Visitor(world).log_in("ada")).rpartition("_")[2]
    world.now += 86_401
    assert look_up(user_id=user_id, token=newest).has("error_num")


def test_with_a_second_factor_a_line_brings_the_weak_key(make_world: Callable[..., World]) -> None:
    world = make_world(project={"url": URL, "list_number": 17})
    world.user("ada")
    token = attach_line(Visitor(world).log_in("ada")).rpartition("_")[2]
    world.write(lambda tx: tx.execute("UPDATE user_account SET totp_secret = 'sealed'"))
    answer = read_elements(world.get(f"/login_token_lookup.php?user_id=1&token={token}").content)
    assert answer.get("authenticator") == world.value("SELECT weak_authenticator FROM user_account")


# -- addresses that nothing has --------------------------------------------------------------------------


def test_browsers_get_a_page_wherever_nothing_is_and_programs_a_line(
    make_world: Callable[..., World],
) -> None:
    world = make_world(project={"url": "http://127.0.0.1:8080/far/"})
    visitor = Visitor(world, "http://127.0.0.1:8080/")
    for path in ("/far/nothing.php", "/far/download/12/nothing", "/", "/far/static/none.css"):
        answer = visitor.get(path)
        assert answer.status_code == 404, path
        assert '<main class="container"' in answer.text, path
        plain = visitor.get(path, headers={"Accept": "*/*"})
        assert (plain.status_code, "<" in plain.text) == (404, False), path
    assert visitor.post("/far/nothing.php").status_code == 404
    answer = visitor.get("/far/cgi-bin/cgi")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert '<main class="container"' in answer.text
