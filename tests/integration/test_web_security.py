"""Forms that did not come from us, attempts without end, headers, and accounts that operators make."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from lxml import html
from starlette.routing import Route
from tests.helpers.api_client import ApiClient
from tests.helpers.project_world import URL, World
from tests.helpers.visitors import Visitor, text_of
from tests.helpers.volunteers import PASSWORD, email

from cobblestone.server.accounts.service import Accounts
from cobblestone.server.app import create_app
from cobblestone.server.web import web_routes
from cobblestone.service import serving
from cobblestone.store.people import users

#: A page that the family's programs post to, and that changes nothing.
SHOWS_ONLY = "/server_status.php"


def posting_routes(world: World) -> list[str]:
    routes = web_routes(world.ctx, Accounts(world.ctx))
    return [route.path for route in routes if isinstance(route, Route) and "POST" in (route.methods or ())]


def test_every_form_that_changes_something_needs_the_token_of_its_session(world: World) -> None:
    world.user("ada")
    world.write(lambda tx: tx.execute("UPDATE user_account SET role = 'operator'"))
    world.write(lambda tx: users.create_team(tx, "Sunny", users.UserId(1), now=world.now))
    world.host(world.value("SELECT authenticator FROM user_account")).rpc()
    tables = ("user_account", "team", "host", "api_token", "mail", "one_time_code")
    before = [world.query(f"SELECT * FROM {table}") for table in tables]
    visitor = Visitor(world).log_in("ada")
    other = Visitor(world)
    page = html.fromstring(other.get("/login.php").text)
    foreign = page.xpath("//main//input[@name='form_token']/@value")[0]
    page = html.fromstring(Visitor(world).log_in("ada").get("/account.php").text)
    of_another_session = page.xpath("//main//input[@name='form_token']/@value")[0]
    paths = posting_routes(world)
    assert len(paths) >= 18
    for path in paths:
        for token in ("", "0" * 64, foreign, of_another_session):
            answer = visitor.post(
                f"{path}?teamid=1&hostid=1&userid=1", form_token=token, action="x", name="y"
            )
            if path == SHOWS_ONLY:
                assert answer.status_code == 200
                continue
            # Pages of visitors without an account send those who have one home.
            assert answer.status_code in (403, 404) or answer.headers.get("location") == "/home.php", (
                path,
                token,
            )
    assert [world.query(f"SELECT * FROM {table}") for table in tables] == before


def test_pages_of_an_account_send_strangers_to_log_in(world: World) -> None:
    visitor = Visitor(world)
    for page in (
        "home", "account", "security", "tokens", "delete_account", "prefs_computing", "prefs_project", "host_edit",
        "team_create", "team_edit", "email_new",
    ):  # fmt: skip
        assert visitor.get(f"/{page}.php").headers["location"].startswith("/login.php?next="), page
    for page in (
        "account",
        "security",
        "tokens",
        "delete_account",
        "team_join",
        "team_leave",
        "prefs_project",
    ):
        assert visitor.post(f"/{page}.php", action="x").headers["location"].startswith("/login.php"), page


def test_an_https_project_tells_browsers_to_stay_with_https(make_world: Callable[..., World]) -> None:
    world = make_world(project={"url": "https://project.example.org/"})
    answer = Visitor(world, "https://project.example.org/").get("/")
    assert "max-age=" in answer.headers["strict-transport-security"]


# -- attempts without end --------------------------------------------------------------------------------


def lookup(world: World, name: str, password: str) -> str:
    digest = hashlib.md5(f"{password}{email(name)}".encode()).hexdigest()
    return world.get("/lookup_account.php", params={"email_addr": email(name), "passwd_hash": digest}).text


def test_guessing_a_password_is_slowed_down_for_pages_and_clients_alike(
    make_world: Callable[..., World],
) -> None:
    world = make_world(limits={"failures_per_account": 6})
    world.user("ada")
    for guess in range(3):
        assert "-206" in lookup(world, "ada", f"guess {guess}")
    for guess in range(3):
        answer = Visitor(world).send("/login.php", email_addr=email("ada"), passwd=f"guess {guess}")
        assert "There is no account with" in text_of(answer)
    refused = lookup(world, "ada", PASSWORD)
    assert "<error_num>-1</error_num>" in refused
    assert "too many attempts" in refused
    answer = Visitor(world).send("/login.php", email_addr=email("ada"), passwd=PASSWORD)
    assert answer.status_code == 422
    assert "too many attempts. Try again in 10 minutes" in text_of(answer)
    world.now += 601
    assert "<authenticator>" in lookup(world, "ada", PASSWORD)


def test_guessing_over_many_accounts_is_slowed_down_by_address(make_world: Callable[..., World]) -> None:
    world = make_world(limits={"failures_per_address": 5})
    for number in range(5):
        assert "-136" in lookup(world, f"nobody{number}", "x")
    assert "too many attempts" in lookup(world, "nobody9", "x")


def test_behind_a_proxy_each_visitor_has_limits_of_their_own(make_world: Callable[..., World]) -> None:
    world = make_world(limits={"lookups_per_address": 2})
    app: Any = create_app(world.ctx)  # Starlette, uvicorn and httpx each have their own types for ASGI
    behind: Any = serving._behind_proxies(app, "127.0.0.1")
    world.http = httpx.AsyncClient(transport=httpx.ASGITransport(behind), base_url=URL)

    def ask(address: str) -> str:
        headers = {"X-Forwarded-For": f"9.9.9.9, {address}"}
        return world.get("/lookup_account.php?email_addr=a@b.org", headers=headers).text

    assert [("-136" in ask("192.0.2.1")) for _ in range(3)] == [True, True, False]
    assert "-136" in ask("192.0.2.2")


def test_accounts_are_not_made_without_end_from_one_address(make_world: Callable[..., World]) -> None:
    world = make_world(limits={"creations_per_address": 2})
    world.user("ada")
    world.user("bruno")
    reply = world.get(
        "/create_account.php",
        params={"email_addr": "c@example.org", "passwd_hash": "0" * 32, "user_name": "C"},
    )
    assert "<error_num>-1</error_num>" in reply.text
    assert "too many attempts" in reply.text
    answer = Visitor(world).send("/join.php", user_name="C", email_addr="c@example.org", passwd="long enough")
    assert "too many attempts" in text_of(answer)
    assert world.value("SELECT count(*) FROM user_account") == 2


def test_nobody_is_flooded_with_mails(make_world: Callable[..., World]) -> None:
    world = make_world(limits={"mails_per_account": 2})
    world.user("ada")
    statuses = [
        Visitor(world).send("/password_reset.php", email_addr=email("ada")).status_code for _ in range(3)
    ]
    assert statuses == [200, 200, 422]
    assert world.value("SELECT count(*) FROM mail") == 2


def test_codes_of_the_second_factor_are_not_guessed_without_end(make_world: Callable[..., World]) -> None:
    world = make_world(limits={"failures_per_account": 3})
    world.user("ada")
    world.write(lambda tx: tx.execute("UPDATE user_account SET totp_secret = 'x'"))
    visitor = Visitor(world)
    visitor.send("/login.php", email_addr=email("ada"), passwd=PASSWORD)
    answers = [
        text_of(visitor.send("/login_code.php", code=f"recovery-code-{number}")) for number in range(4)
    ]
    assert "too many attempts" in answers[-1]
    assert "too many attempts" not in answers[-2]


def test_operators_make_accounts_while_a_project_is_closed(make_world: Callable[..., World]) -> None:
    world = make_world(accounts={"creation": "closed"})
    made = ApiClient(world).post("/users", {"email": "eve@example.org", "name": "Eve"})
    assert len(made["authenticator"]) == 32
    reply = world.get(
        "/create_account.php",
        params={"email_addr": "c@example.org", "passwd_hash": "0" * 32, "user_name": "C"},
    )
    assert "-208" in reply.text


@pytest.mark.parametrize("scope", ["account"])
def test_operators_do_not_make_tokens_for_the_data_of_volunteers(world: World, scope: str) -> None:
    problem = ApiClient(world).problem(422, "POST", "/tokens", {"name": "x", "scopes": [scope]})
    assert problem["code"] == "bad_scope"


def test_guesses_that_come_at_the_same_moment_are_counted_before_they_are_looked_at(
    make_world: Callable[..., World],
) -> None:
    world = make_world(limits={"failures_per_account": 5, "failures_per_address": 1000})
    world.user("ada")

    async def guess_all() -> list[httpx.Response]:
        return await asyncio.gather(
            *(
                world.http.get(f"/lookup_account.php?email_addr=ada@example.org&passwd_hash={n:032x}")
                for n in range(40)
            )
        )

    answers = [answer.text for answer in world.run(guess_all())]
    assert sum("too many attempts" in text for text in answers) == 35
