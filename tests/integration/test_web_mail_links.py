"""Links that are sent by mail: one that logs in, and one that confirms the address."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from tests.helpers.post import link_in, post_office
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of
from tests.helpers.volunteers import PASSWORD, email

from cobblestone.domain.values import UserId
from cobblestone.server.accounts.security import LOG_IN_SECONDS
from cobblestone.service.mail import CONFIRM_SECONDS
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import account_changes, users

EVE = {"user_name": "Eve", "email_addr": "eve@example.org", "passwd": "long enough"}


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world(accounts={"confirmed_email": "asked"})


def log_in_link(world: World, address: str = "eve@example.org") -> str:
    """Ask for a link, and get it out of the mail."""
    assert Visitor(world).send("/login_mail.php", email_addr=address).status_code == 200
    return link_in(post_office(world)[-1])


def is_in(visitor: Visitor) -> bool:
    return visitor.get("/home.php").status_code == 200


def confirmed(world: World, user_id: int = 1) -> bool:
    user = world.ctx.store.read(lambda db: users.user_by_id(db, UserId(user_id)))
    assert user is not None
    return user.email_verified


# -- log-in ----------------------------------------------------------------------------------------------


def test_a_link_logs_in_once_after_its_button_was_pressed(world: World) -> None:
    Visitor(world).send("/join.php", **EVE)
    link, visitor = log_in_link(world), Visitor(world)
    assert "Log in as Eve" in text_of(visitor.get(link))
    assert visitor.send(link).headers["location"] == "/home.php"
    assert is_in(visitor)
    other = Visitor(world)
    assert other.get(link).status_code == 410
    assert not is_in(other)
    assert confirmed(world)  # mails reach Eve, as everybody can see now


def test_programs_that_look_through_mails_use_no_link_up(world: World) -> None:
    Visitor(world).send("/join.php", **EVE)
    confirmation = link_in(post_office(world)[-1])
    link, scanner = log_in_link(world), Visitor(world)
    for address in (link, confirmation):
        for _time in range(3):
            assert scanner.get(address).status_code == 200
            assert world.run(scanner.http.head(address)).status_code == 200
            assert scanner.post(address.partition("?")[0], code=address[-43:]).status_code == 403
    assert not is_in(scanner)
    assert not confirmed(world)
    visitor = Visitor(world)
    visitor.send(link)
    assert is_in(visitor)


def test_nobody_learns_from_the_form_whether_an_address_has_an_account(world: World) -> None:
    Visitor(world).send("/join.php", **EVE)
    answers: list[str] = []
    for address in ("eve@example.org", "nobody@example.org"):
        visitor = Visitor(world)
        page = visitor.send("/login_mail.php", email_addr=address)
        answers.append(f"{page.status_code} {text_of(page)}")
        again = [Visitor(world).send("/login_mail.php", email_addr=address).status_code for _n in range(8)]
        answers.append(str(again))
    assert answers[0] == answers[2]
    first_eve, first_nobody = answers[1], answers[3]
    assert "422" in first_eve  # nobody is flooded
    assert "422" in first_nobody
    assert world.value("SELECT count(*) FROM mail WHERE recipient = 'nobody@example.org'") == 0


def test_a_link_ends_after_a_quarter_of_an_hour_and_with_the_next_one(world: World) -> None:
    Visitor(world).send("/join.php", **EVE)
    first = log_in_link(world)
    second = log_in_link(world)
    assert first != second
    assert Visitor(world).get(first).status_code == 410
    world.now += LOG_IN_SECONDS - 1
    assert Visitor(world).get(second).status_code == 200
    world.now += 2
    assert Visitor(world).get(second).status_code == 410


@pytest.mark.parametrize("event", ["a new password", "logging out everywhere", "erased"])
def test_a_link_ends_when_what_guards_the_account_changes(world: World, event: str) -> None:
    Visitor(world).send("/join.php", **EVE)
    link = log_in_link(world)

    def happen(tx: Transaction) -> None:
        match event:
            case "a new password":
                account_changes.set_password(tx, UserId(1), "x")
            case "erased":
                account_changes.erase(tx, UserId(1), key="x", now=world.now)
            case _:
                account_changes.end_sessions(tx, UserId(1))

    world.write(happen)
    assert Visitor(world).get(link).status_code == 410


def test_the_second_factor_is_asked_for_after_the_link_too(world: World) -> None:
    Visitor(world).send("/join.php", **EVE)
    world.write(lambda tx: account_changes.set_second_factor(tx, UserId(1), "sealed", step=0))
    visitor = Visitor(world)
    answer = visitor.send(log_in_link(world))
    assert answer.headers["location"] == "/login_code.php?next=home.php"
    assert not is_in(visitor)


def test_two_browsers_at_once_get_one_session(world: World) -> None:
    Visitor(world).send("/join.php", **EVE)
    link = log_in_link(world)
    pair = [Visitor(world), Visitor(world)]
    tokens = [visitor.get(link).text.partition('name="form_token" value="')[2][:64] for visitor in pair]
    code = link.partition("code=")[2]
    answers = [
        visitor.post("/login_link.php", form_token=token, code=code).status_code
        for visitor, token in zip(pair, tokens, strict=True)
    ]
    assert answers == [303, 410]


def test_only_hashes_of_links_are_stored(world: World) -> None:
    Visitor(world).send("/join.php", **EVE)
    codes = [link_in(post_office(world)[-1]).partition("code=")[2], log_in_link(world).partition("code=")[2]]
    dump = repr(world.query("SELECT * FROM one_time_code")) + repr(world.query("SELECT * FROM mail"))
    assert all(code not in dump for code in codes)


# -- confirmed addresses ---------------------------------------------------------------------------------


def test_who_joins_gets_a_link_that_confirms_the_address(world: World) -> None:
    visitor = Visitor(world)
    visitor.send("/join.php", **EVE)
    assert "It is not confirmed yet." in text_of(visitor.get("/security.php"))
    (mail,) = post_office(world)
    assert mail["To"] == "eve@example.org"
    assert "Eve" not in mail.as_string()  # the name is the writer's, who may be anybody
    anywhere = Visitor(world)  # the link needs no log-in
    answer = anywhere.send(link_in(mail))
    assert "your address is confirmed" in text_of(answer)
    assert not is_in(anywhere)
    assert "It is confirmed." in text_of(visitor.get("/security.php"))
    assert Visitor(world).get(link_in(mail)).status_code == 410


def test_so_does_who_joins_by_a_client(world: World) -> None:
    world.user("ada")
    (mail,) = post_office(world)
    assert mail["To"] == email("ada")
    world.user("ada")  # the same again: a log-in
    assert len(post_office(world)) == 1


def test_another_link_can_be_sent_a_few_times_and_ends_the_one_before(world: World) -> None:
    visitor = Visitor(world)
    visitor.send("/join.php", **EVE)
    first = link_in(post_office(world)[-1])
    token = visitor.get("/security.php").text.partition('name="form_token" value="')[2][:64]
    again = [visitor.post("/security.php", form_token=token, action="confirm") for _n in range(6)]
    assert [answer.status_code for answer in again] == [303, 303, 303, 303, 422, 422]
    assert "too many attempts" in text_of(again[-1])
    assert Visitor(world).get(first).status_code == 410
    assert Visitor(world).get(link_in(post_office(world)[-1])).status_code == 200
    world.now += CONFIRM_SECONDS
    assert Visitor(world).get(link_in(post_office(world)[-1])).status_code == 410


def test_a_changed_address_is_confirmed_and_old_links_confirm_nothing(world: World) -> None:
    visitor = Visitor(world)
    visitor.send("/join.php", **EVE)
    old = link_in(post_office(world)[-1])
    token = visitor.get("/security.php").text.partition('name="form_token" value="')[2][:64]
    fields = {"action": "email", "email_addr": "new@example.org", "passwd": EVE["passwd"]}
    assert visitor.post("/security.php", form_token=token, **fields).status_code == 303
    assert visitor.send(link_in(post_office(world)[-1])).status_code == 303
    assert confirmed(world)
    assert Visitor(world).get(old).status_code == 410
    assert [mail["To"] for mail in post_office(world)] == [
        "eve@example.org",
        "new@example.org",
        "eve@example.org",
    ]


def test_a_link_for_a_new_password_confirms_the_address_as_well(world: World) -> None:
    world.user("ada")
    Visitor(world).send("/password_reset.php", email_addr=email("ada"))
    Visitor(world).send(link_in(post_office(world)[-1]), new_passwd="quite a new one")
    assert confirmed(world)


def test_a_project_may_keep_teams_for_people_with_confirmed_addresses(
    make_world: Callable[..., World],
) -> None:
    world = make_world(accounts={"confirmed_email": "required"})
    world.user("ada")
    ada = Visitor(world).log_in("ada")
    Visitor(world).send(link_in(post_office(world)[-1]))
    assert ada.send("/team_create.php", name="Pebbles").status_code == 303
    eve = Visitor(world)
    eve.send("/join.php", **EVE)
    refused = eve.get("/team_create.php")
    assert refused.status_code == 403
    assert "Confirm your address first" in text_of(refused)
    token = eve.get("/security.php").text.partition('name="form_token" value="')[2][:64]
    assert eve.post("/team_join.php?teamid=1", form_token=token).status_code == 403
    digest = hashlib.md5(f"{PASSWORD}f@example.org".encode()).hexdigest()
    world.get(
        f"/create_account.php?email_addr=f@example.org&user_name=F&passwd_hash={digest}&team_name=Pebbles"
    )
    assert world.query("SELECT team_id FROM user_account ORDER BY id") == [(1,), (None,), (None,)]


def test_accounts_without_end_send_no_mails_without_end(make_world: Callable[..., World]) -> None:
    world = make_world(accounts={"confirmed_email": "asked"}, limits={"mails_per_address": 2})
    for name in ("ada", "bruno", "chandra"):
        world.user(name)
    assert [mail["To"] for mail in post_office(world)] == [email("ada"), email("bruno")]
    assert world.value("SELECT count(*) FROM user_account") == 3
