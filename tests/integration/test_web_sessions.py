"""Joining, logging in and out, sessions, and forms that did not come from us."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, hashes_verified, text_of
from tests.helpers.volunteers import PASSWORD, email

from cobblestone.domain.values import UserId
from cobblestone.server.daemons.housekeeping import keep_accounts
from cobblestone.service.pages.sessions import MAX_AGE_SECONDS
from cobblestone.store.people import account_changes

NEW = {"user_name": "Eve", "email_addr": "Eve@Example.org", "passwd": "long enough"}


def test_who_joins_is_logged_in_and_told_what_to_do_next(world: World) -> None:
    visitor = Visitor(world)
    answer = visitor.send("/join.php", **NEW)
    assert (answer.status_code, answer.headers["location"]) == (303, "/home.php")
    home = text_of(visitor.get("/home.php"))
    assert "Next: add a computer" in home
    assert "boinccmd --project_attach http://127.0.0.1:8080/ 1_" in home


def test_a_password_given_on_the_page_works_in_the_client_and_the_other_way_round(world: World) -> None:
    Visitor(world).send("/join.php", **NEW)
    digest = hashlib.md5(b"long enougheve@example.org").hexdigest()
    reply = world.get("/lookup_account.php", params={"email_addr": "eve@example.org", "passwd_hash": digest})
    assert "<authenticator>" in reply.text
    world.user("ada")
    assert Visitor(world).log_in("ada").get("/home.php").status_code == 200


@pytest.mark.parametrize("name", ["ada", "nobody"])
def test_each_log_in_verifies_one_password_hash_also_for_an_unknown_address(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world.user("ada")
    verified = hashes_verified(monkeypatch)
    Visitor(world).send("/login.php", email_addr=email(name), passwd="wrong")
    assert len(verified) == 1
    world.get("/lookup_account.php", params={"email_addr": email(name), "passwd_hash": "0" * 32})
    assert len(verified) == 2


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("user_name", "", "The name is empty"),
        ("user_name", "<b>Eve</b>", "The name contains one of"),
        ("email_addr", "eve", "not a valid e-mail address"),
        ("passwd", "short", "at least 6 characters; yours has 5"),
        ("passwd", "x" * 201, "at most 200 characters"),
    ],
)
def test_a_refused_account_says_what_is_wrong_and_keeps_what_was_typed(
    world: World, field: str, value: str, problem: str
) -> None:
    answer = Visitor(world).send("/join.php", **{**NEW, field: value})
    assert answer.status_code == 422
    assert problem in text_of(answer)
    kept = {**NEW, field: value}
    assert f'value="{kept["email_addr"]}"' in answer.text
    assert kept["passwd"] not in answer.text
    assert world.value("SELECT count(*) FROM user_account") == 0


def test_an_address_that_is_taken_is_refused_unless_the_password_is_right(world: World) -> None:
    Visitor(world).send("/join.php", **NEW)
    other = Visitor(world).send("/join.php", **{**NEW, "passwd": "something else"})
    assert "There is already an account with this address" in text_of(other)
    assert Visitor(world).send("/join.php", **NEW).status_code == 303
    assert world.value("SELECT count(*) FROM user_account") == 1


def test_a_closed_project_takes_no_accounts(make_world: Callable[..., World]) -> None:
    world = make_world(accounts={"creation": "closed"})
    visitor = Visitor(world)
    assert "does not accept new accounts" in text_of(visitor.get("/join.php"))
    assert "join.php" not in visitor.get("/").text
    assert "does not accept new accounts" in text_of(visitor.post("/join.php", **NEW))
    asked = f"email_addr={NEW['email_addr']}&passwd_hash={'0' * 32}&user_name=Ada"
    assert "<error_num>-208</error_num>" in world.get(f"/create_account.php?{asked}").text
    assert world.value("SELECT count(*) FROM user_account") == 0


def test_an_invitation_is_asked_for_and_checked(make_world: Callable[..., World]) -> None:
    world = make_world(accounts={"creation": "invitation", "invitation_code": "pebble"})
    visitor = Visitor(world)
    refused = visitor.send("/join.php", **NEW, invite_code="stone")
    assert "The invitation code is missing or wrong" in text_of(refused)
    assert visitor.send("/join.php", **NEW, invite_code="pebble").status_code == 303


@pytest.mark.parametrize(
    "typed",
    [{"email_addr": email("ada"), "passwd": "wrong"}, {"email_addr": "no@body.org", "passwd": PASSWORD}],
)
def test_a_wrong_log_in_does_not_tell_whether_the_account_exists(world: World, typed: dict[str, str]) -> None:
    world.user("ada")
    answer = Visitor(world).send("/login.php", **typed)
    assert answer.status_code == 422
    assert "There is no account with this e-mail address and password" in text_of(answer)
    assert f'value="{typed["email_addr"]}"' in answer.text


@pytest.mark.parametrize(
    ("wanted", "reached"),
    [
        ("results.php?state=error", "/results.php?state=error"),
        ("//evil.example/x.php", "/home.php"),
        ("https://evil.example/home.php", "/home.php"),
        ("/\\evil.example", "/home.php"),
        ("", "/home.php"),
    ],
)
def test_log_in_leads_back_to_pages_of_this_project_only(world: World, wanted: str, reached: str) -> None:
    world.user("ada")
    visitor = Visitor(world)
    visitor.get("/login.php")
    page = visitor.get("/login.php", params={"next": wanted})
    assert page.status_code == 200
    answer = visitor.send(
        f"/login.php?next={wanted.replace('?', '%3F').replace('=', '%3D')}",
        email_addr=email("ada"),
        passwd=PASSWORD,
    )
    assert answer.headers["location"] == reached


def test_logging_out_ends_the_session(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    assert visitor.log_out().status_code == 303
    assert visitor.get("/home.php").headers["location"] == "/login.php?next=home.php"


def test_a_copy_of_a_cookie_is_worth_nothing_after_its_owner_logged_out(world: World) -> None:
    world.user("ada")
    visitor, thief, other = Visitor(world).log_in("ada"), Visitor(world), Visitor(world).log_in("ada")
    (cookie,) = visitor.http.cookies.jar
    thief.http.cookies.set(cookie.name, cookie.value or "")
    assert thief.get("/home.php").status_code == 200
    visitor.log_out()
    assert thief.get("/home.php").status_code == 303
    assert other.get("/home.php").status_code == 200  # another browser of hers


def test_sessions_that_were_logged_out_are_forgotten_when_their_cookies_are_too_old(world: World) -> None:
    world.user("ada")
    Visitor(world).log_in("ada").log_out()
    world.run(keep_accounts(world.ctx))
    assert world.value("SELECT count(*) FROM ended_session") == 1
    world.now += MAX_AGE_SECONDS + 1
    world.run(keep_accounts(world.ctx))
    assert world.value("SELECT count(*) FROM ended_session") == 0


def test_a_session_ends_after_a_month(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    world.now += 29 * 86400
    assert visitor.get("/home.php").status_code == 200
    world.now += 2 * 86400
    assert visitor.get("/home.php").status_code == 303


def test_a_new_password_ends_all_sessions(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    world.write(lambda tx: account_changes.set_password(tx, UserId(1), "x"))
    assert visitor.get("/home.php").status_code == 303


def test_a_cookie_that_was_changed_is_worth_nothing(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    (cookie,) = visitor.http.cookies.jar
    assert cookie.value is not None
    # Not the last character of the signature: some of its bits are padding, which base64 ignores.
    head, changed, tail = cookie.value[:-10], cookie.value[-10], cookie.value[-9:]
    for value in (head + ("A" if changed != "A" else "B") + tail, "x" * 3000, "{}", ""):
        forged = Visitor(world)
        forged.http.cookies.set(cookie.name, value)
        assert forged.get("/home.php").status_code == 303


@pytest.mark.parametrize(("scheme", "secure"), [("http", False), ("https", True)])
def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(
    make_world: Callable[..., World], scheme: str, secure: bool
) -> None:
    world = make_world(project={"url": f"{scheme}://project.example.org/sun/"})
    answer = Visitor(world, f"{scheme}://project.example.org/").get("/sun/login.php")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "path=/sun/" in cookie
    assert ("secure" in cookie) == secure


FORMS = [("/join.php", NEW), ("/login.php", {"email_addr": email("ada"), "passwd": PASSWORD})]


@pytest.mark.parametrize(("page", "fields"), FORMS, ids=[page for page, _ in FORMS])
def test_a_form_without_its_token_is_refused(world: World, page: str, fields: dict[str, str]) -> None:
    world.user("ada")
    stranger, visitor = Visitor(world), Visitor(world)
    visitor.get(page)
    stolen = stranger.get(page).text.partition('name="form_token" value="')[2][:64]
    for token in ("", "0" * 64, stolen):
        answer = visitor.post(page, form_token=token, **fields)
        assert answer.status_code == 403
        assert "Nothing was changed" in text_of(answer)
    assert "set-cookie" not in answer.headers
    assert world.value("SELECT count(*) FROM user_account") == 1


def test_logging_out_needs_the_token_too(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    assert visitor.post("/logout.php").status_code == 403
    assert visitor.get("/home.php").status_code == 200


def test_a_form_that_is_too_large_is_refused(world: World) -> None:
    visitor = Visitor(world)
    visitor.get("/join.php")
    answer = visitor.post("/join.php", user_name="x" * 100_000)
    assert answer.status_code == 413


def test_the_session_gets_a_new_number_at_log_in(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world)
    before = visitor.get("/login.php").text.partition('name="form_token" value="')[2][:64]
    visitor.log_in("ada")
    assert visitor.post("/logout.php", form_token=before).status_code == 403
