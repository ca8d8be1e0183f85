"""Log-in with the account of an institute, against a provider that runs: what opens an account, and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from lxml import html
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of
from tests.helpers.volunteers import email

from cobblestone.domain.people import SubmitRights
from cobblestone.domain.values import UserId
from cobblestone.server.operation import institute
from cobblestone.store.people import account_changes
from cobblestone.store.work import submitters

with warnings.catch_warnings():  # it uses a part of Authlib that is to go
    warnings.simplefilter("ignore")
    import oidc_provider_mock
    from oidc_provider_mock import _app as provider_app

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the same, when it answers

ADA = {"email": email("ada"), "email_verified": True, "preferred_username": "ada", "groups": ["astro"]}
RIGHTS = SubmitRights(max_jobs=20, share=2.0)


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """A provider of log-ins."""
    with oidc_provider_mock.run_server_in_thread(access_token_max_age=timedelta(minutes=5)) as server:
        yield f"http://localhost:{server.server_port}"


MakeWorld = Callable[..., World]


@pytest.fixture
def make(issuer: str, tmp_path: Path) -> Iterator[MakeWorld]:
    """A project whose people log in there."""
    opened: list[World] = []

    def make_world(**oidc: object) -> World:
        settings = {
            "issuer": issuer,
            "name": "Example University",
            "client_id": "stones",
            "client_secret": "secret",
            "groups": ["astro"],
            "max_jobs": 20,
            "share": 2.0,
            **oidc,
        }
        opened.append(World(tmp_path / f"project{len(opened)}", oidc=settings))
        return opened[-1]

    yield make_world
    for world in opened:
        world.close()


def consent(issuer: str, address: str, subject: str, **claims: object) -> str:
    """Let the provider send somebody back, who has these claims; the address that the browser goes to."""
    httpx.put(f"{issuer}/users/{subject}", json=claims).raise_for_status()
    answer = httpx.post(address, data={"sub": subject})
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


def begin(visitor: Visitor) -> str:
    return visitor.get("/login_oidc.php").headers["location"]


def log_in(
    world: World, issuer: str, subject: str = "a1", **claims: object
) -> tuple[Visitor, httpx.Response]:
    """Go there and back."""
    visitor = Visitor(world)
    back = consent(issuer, begin(visitor), subject, **(claims or ADA))
    return visitor, visitor.get(back)


def problem_of(answer: httpx.Response) -> str:
    assert answer.status_code == 403, answer.text
    (said,) = html.fromstring(answer.text).xpath("//p[@role='alert']/text()")
    return str(said)


def rights(world: World, user_id: int = 1) -> SubmitRights | None:
    held = world.ctx.store.read(lambda db: submitters.submitter_of(db, UserId(user_id)))
    return None if held is None else held.rights


def test_a_member_gets_an_account_that_may_submit_and_finds_it_again(make: MakeWorld, issuer: str):
    world = make()
    page = Visitor(world).get("/login.php?next=results.php")
    (address,) = html.fromstring(page.text).xpath("//a[@role='button' and contains(@href, 'oidc')]/@href")
    assert "Log in with Example University" in text_of(page)
    assert address.endswith("login_oidc.php?next=results.php")
    visitor, answer = log_in(world, issuer)
    assert answer.headers["location"].endswith("/home.php")
    assert visitor.get("/home.php").status_code == 200
    assert world.query("SELECT name, email_addr, passwd_hash FROM user_account") == [
        ("ada", email("ada"), "!")
    ]
    assert world.value("SELECT email_verified_time FROM user_account") == world.now
    assert rights(world) == RIGHTS
    assert world.query("SELECT action, actor FROM audit_entry") == [
        ("set rights to submit", "group of user:1")
    ]
    _, again = log_in(world, issuer, **{**ADA, "email": "new@example.org"})
    assert again.status_code == 303
    assert world.value("SELECT count(*) FROM user_account") == 1
    assert world.value("SELECT count(*) FROM audit_entry") == 1


def test_the_request_has_a_challenge_a_state_and_a_nonce_of_its_own(make: MakeWorld, issuer: str):
    world = make()
    asked = [parse_qs(urlsplit(begin(Visitor(world))).query) for _ in range(2)]
    for name in ("state", "nonce", "code_challenge"):
        assert asked[0][name] != asked[1][name]
    assert asked[0]["code_challenge_method"] == ["S256"]
    assert asked[0]["redirect_uri"] == [world.ctx.url("login_oidc.php")]
    cookie = Visitor(world).get("/login_oidc.php").headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie


def test_an_account_that_was_there_is_opened_when_both_sides_confirmed_its_address(
    make: MakeWorld, issuer: str
):
    world = make()
    world.user("ada")
    assert "Log in to it by mail once" in problem_of(log_in(world, issuer)[1])
    world.write(lambda tx: account_changes.set_email_verified(tx, UserId(1), now=world.now))
    unsure = {**ADA, "email_verified": False}
    assert "has not confirmed your e-mail address" in problem_of(log_in(world, issuer, **unsure)[1])
    assert world.value("SELECT count(*) FROM one_time_code") == 0
    assert log_in(world, issuer)[1].status_code == 303
    assert world.value("SELECT count(*) FROM user_account") == 1


def test_groups_give_and_take_the_right_until_an_operator_changes_it(make: MakeWorld, issuer: str):
    world = make()
    nobody = {**ADA, "groups": ["chess", {"a": 1}]}
    log_in(world, issuer, **nobody)
    assert rights(world) is None
    log_in(world, issuer)
    assert rights(world) == RIGHTS
    log_in(world, issuer, **nobody)
    assert rights(world) is None
    log_in(world, issuer, **{**ADA, "groups": "astro"})
    assert rights(world) == RIGHTS
    more = SubmitRights(max_jobs=500)
    world.write(lambda tx: submitters.allow(tx, UserId(1), more, now=world.now))
    log_in(world, issuer, **nobody)
    assert rights(world) == more
    world.write(lambda tx: submitters.withdraw(tx, UserId(1), now=world.now))
    log_in(world, issuer)
    assert rights(world) is None


def test_apps_that_are_not_there_are_not_allowed_yet(make: MakeWorld, issuer: str):
    world = make(apps=["demo", "later"])
    assert log_in(world, issuer)[1].status_code == 303
    assert rights(world) is None
    world.add_app("demo")
    log_in(world, issuer)
    assert rights(world) == SubmitRights(apps=("demo",), max_jobs=20, share=2.0)


@pytest.mark.parametrize(("who", "members", "others"), [("all", 1, 1), ("groups", 1, 0), ("none", 0, 0)])
def test_the_operator_says_who_gets_an_account(
    make: MakeWorld, issuer: str, who: str, members: int, others: int
):
    world = make(new_accounts=who)
    for number, (claims, made) in enumerate(((ADA, members), ({**ADA, "groups": []}, others))):
        answer = log_in(world, issuer, f"b{number}", **{**claims, "email": f"b{number}@example.org"})[1]
        assert answer.status_code == (303 if made else 403)
        if not made:
            assert "not of a group that gets an account here" in problem_of(answer)
    assert world.value("SELECT count(*) FROM user_account") == members + others


@pytest.mark.parametrize(
    ("part", "value", "said"),
    [
        ("OpenIDCode.get_jwt_config", {"aud": ["another service"]}, "for another service"),
        ("OpenIDCode.get_jwt_config", {"exp": -3600}, "has expired"),
        ("OpenIDCode.get_jwt_config", {"iss": "http://localhost:1"}, "for another service"),
        ("OpenIDCode.get_jwt_config", {"aud": ["stones", "x"], "azp": "x"}, "for another service"),
        ("AuthorizationCode.get_nonce", lambda *_: "of another log-in", "belongs to another log-in"),
        ("AuthorizationCodeGrant.authenticate_user", lambda *_: None, "is not valid"),
        ("OpenIDCode.generate_user_info", lambda *_: provider_app.authlib.oidc.core.UserInfo(), "is not valid"),
    ],
)  # fmt: skip
def test_an_answer_that_is_not_for_this_log_in_is_refused_in_words(
    make: MakeWorld, issuer: str, monkeypatch: pytest.MonkeyPatch, part: str, value: Any, said: str
):
    world = make()
    cls, name = part.split(".")
    kind = getattr(provider_app, cls)
    if isinstance(value, dict):
        usual = kind.get_jwt_config
        monkeypatch.setattr(kind, name, lambda *args, **named: {**usual(*args, **named), **value})
    else:
        monkeypatch.setattr(kind, name, value)
    visitor, answer = log_in(world, issuer)
    assert said in problem_of(answer)
    assert visitor.get("/home.php").status_code == 303
    assert world.value("SELECT count(*) FROM user_account") == 0


def test_an_answer_counts_once_in_the_browser_that_asked_for_ten_minutes(make: MakeWorld, issuer: str):
    world = make()
    visitor, stranger = Visitor(world), Visitor(world)
    back = consent(issuer, begin(visitor), "a1", **ADA)
    begin(stranger)
    assert "not begun in this browser" in problem_of(stranger.get(back))
    assert "not begun in this browser" in problem_of(Visitor(world).get(back))
    kept = dict(visitor.http.cookies)
    assert visitor.get(back).status_code == 303
    copied = Visitor(world)
    copied.http.cookies.update({name: value for name, value in kept.items() if name.endswith("_oidc")})
    assert "is not valid" in problem_of(copied.get(back))  # the provider gives a code's answer once
    for address in ("/login_oidc.php?state=x&code=y", "/login_oidc.php?error=access_denied"):
        assert "not begun" in problem_of(Visitor(world).get(address))


def test_who_cancels_there_reads_so(make: MakeWorld, issuer: str):
    visitor = Visitor(make())
    state = parse_qs(urlsplit(begin(visitor)).query)["state"][0]
    answer = visitor.get(f"/login_oidc.php?error=access_denied&state={state}")
    assert "did not let you in, or you cancelled it" in problem_of(answer)
    assert "not begun" in problem_of(visitor.get(f"/login_oidc.php?code=x&state={state}"))


def test_a_provider_that_is_away_is_named(make: MakeWorld):
    assert "Example University does not answer" in problem_of(
        Visitor(make(issuer="http://localhost:1/")).get("/login_oidc.php")
    )


def test_a_provider_that_is_silent_is_not_waited_for_and_holds_up_nobody(
    make: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(institute, "TIMEOUT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        world = make(issuer=f"http://127.0.0.1:{silent.getsockname()[1]}")
        visitor, other = Visitor(world), Visitor(world)

        async def both() -> tuple[httpx.Response, list[httpx.Response]]:
            waiting = asyncio.create_task(visitor.http.get("/login_oidc.php"))
            meanwhile = [await other.http.get("/login.php") for _ in range(3)]
            assert not waiting.done()
            return await waiting, meanwhile

        answer, meanwhile = world.run(both())
    assert "does not answer" in problem_of(answer)
    assert [each.status_code for each in meanwhile] == [200] * 3


def test_a_provider_that_says_a_word_now_and_then_is_silent(make: MakeWorld, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(institute, "TIMEOUT_SECONDS", 0.5)
    ended = threading.Event()

    def drip(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            while not ended.wait(0.1):
                connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=(server,))
        thread.start()
        world = make(issuer=f"http://127.0.0.1:{server.getsockname()[1]}")
        began = time.monotonic()
        assert "does not answer" in problem_of(Visitor(world).get("/login_oidc.php"))
        assert time.monotonic() - began < 60
        ended.set()
        thread.join()


def test_who_comes_after_a_silence_reads_of_it_at_once_for_half_a_minute(
    make: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(institute, "TIMEOUT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(5)
        world = make(issuer=f"http://127.0.0.1:{silent.getsockname()[1]}")
        visitor = Visitor(world)
        for asked, later in ((True, 0), (False, 29), (True, 2)):
            world.now += later
            assert "does not answer" in problem_of(visitor.get("/login_oidc.php"))
            silent.setblocking(False)
            if asked:
                silent.accept()[0].close()
            else:
                with pytest.raises(BlockingIOError):
                    silent.accept()


def test_what_is_known_of_a_provider_serves_while_it_is_away_and_is_fetched_again_each_day(
    make: MakeWorld, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO", "werkzeug")
    with oidc_provider_mock.run_server_in_thread() as server:
        port = server.server_port
        issuer = f"http://localhost:{port}"
        world = make(issuer=issuer)
        visitor = Visitor(world)
        for later in (0, 86000, 1000):
            world.now += later
            begin(visitor)
        assert caplog.text.count("GET /.well-known/openid-configuration") == 2
    for later in (10, 86400, 10):
        world.now += later
        assert begin(visitor).startswith(issuer)
    with oidc_provider_mock.run_server_in_thread(port):
        back = consent(issuer, begin(visitor), "a1", **ADA)
    assert "does not answer" in problem_of(visitor.get(back))
    assert "does not answer" in problem_of(visitor.get("/login_oidc.php")), "the log-in could not be finished"
    world.now += 31
    with oidc_provider_mock.run_server_in_thread(port):
        assert visitor.get(consent(issuer, begin(visitor), "a1", **ADA)).status_code == 303


def test_a_clock_that_was_set_back_leaves_nobody_waiting_for_years(
    make: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(institute, "TIMEOUT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        world = make(issuer=f"http://localhost:{port}")
        visitor = Visitor(world)
        world.now += 10 * 365 * 86400
        assert "does not answer" in problem_of(visitor.get("/login_oidc.php"))
    world.now -= 10 * 365 * 86400
    with oidc_provider_mock.run_server_in_thread(port):
        assert begin(visitor).startswith(f"http://localhost:{port}")


def test_new_keys_of_a_provider_are_fetched_after_the_first_answer_that_they_spoil(
    make: MakeWorld, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(provider_app.jose.RSAKey, "thumbprint", lambda self: "key")  # the name of each
    with oidc_provider_mock.run_server_in_thread() as server:
        port = server.server_port
        issuer = f"http://localhost:{port}"
        visitor = Visitor(make(issuer=issuer))
        begin(visitor)
    with oidc_provider_mock.run_server_in_thread(port):
        first, second = (visitor.get(consent(issuer, begin(visitor), "a1", **ADA)) for _ in range(2))
    assert "is not valid" in problem_of(first)
    assert second.status_code == 303


def test_without_settings_there_is_no_such_log_in(world: World):
    assert "oidc" not in Visitor(world).get("/login.php").text
    assert Visitor(world).get("/login_oidc.php").status_code == 404


def test_claims_that_only_userinfo_has_are_read_there(
    make: MakeWorld, issuer: str, monkeypatch: pytest.MonkeyPatch
):
    world = make()
    usual = provider_app.OpenIDCode.generate_user_info

    def bare(self: Any, user: Any, scope: str) -> Any:
        return {"sub": usual(self, user, scope)["sub"]}

    monkeypatch.setattr(provider_app.OpenIDCode, "generate_user_info", bare)
    assert log_in(world, issuer)[1].status_code == 303
    assert rights(world) == RIGHTS
    assert json.loads(world.value("SELECT payload FROM one_time_code"))["max_jobs"] == 20


def test_an_answer_without_a_signature_is_refused_even_if_the_provider_offers_that(
    make: MakeWorld, issuer: str, monkeypatch: pytest.MonkeyPatch
):
    kind: Any = provider_app.OpenIDCode
    config, encode = kind.get_jwt_config, kind.encode_id_token

    def unsigned(self: Any, token: Any, request: Any) -> str:
        header = urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
        return f"{header}.{encode(self, token, request).split('.')[1]}."

    monkeypatch.setattr(provider_app, "_JWS_ALG", "none")  # what it says of itself
    monkeypatch.setattr(kind, "get_jwt_config", lambda *args: {**config(*args), "alg": "RS256"})
    monkeypatch.setattr(kind, "encode_id_token", unsigned)
    world = make()
    assert "is not valid" in problem_of(log_in(world, issuer)[1])
    assert world.value("SELECT count(*) FROM user_account") == 0
