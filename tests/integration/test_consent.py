"""What people are asked, and what they said: consent to terms and statistics, and whether others see their computers."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of

from cobblestone.domain.people import ConsentKind
from cobblestone.domain.values import UserId
from cobblestone.store.people import account_changes, consents

EVE = {"user_name": "Eve", "email_addr": "eve@example.org", "passwd": "long enough"}
BY_CLIENT = "/create_account.php?email_addr=f@example.org&user_name=F&passwd_hash=" + "a" * 32


def statistics(world: World) -> list[UserId]:
    found = world.query(f"SELECT u.id FROM user_account u WHERE {consents.EXPORTED} ORDER BY u.id")
    return [row[0] for row in found]


def said(world: World, user_id: int = 1) -> list[tuple[str, bool, float, str]]:
    found = world.ctx.store.read(lambda db: consents.said_by(db, UserId(user_id)))
    return [(one.kind.value, one.agreed, one.time, one.source) for one in found]


def profile(visitor: Visitor, **fields: str) -> None:
    assert visitor.send("/account.php", user_name="Eve", **fields).status_code == 303


def test_who_joins_is_asked_and_says_no_by_default(world: World) -> None:
    visitor = Visitor(world)
    box = re.search(r"<input[^>]*name=\"statistics\"[^>]*>", visitor.get("/join.php").text)
    assert box is not None
    assert "checked" not in box[0]
    visitor.send("/join.php", **EVE)
    assert said(world) == [("statistics", False, world.now, "join.php")]
    assert statistics(world) == []


def test_consent_is_stored_with_its_time_and_place_and_can_be_taken_back(world: World) -> None:
    visitor, begin = Visitor(world), world.now
    visitor.send("/join.php", **EVE, statistics="1")
    assert statistics(world) == [1]
    world.now += 86400
    profile(visitor, statistics="1")  # nothing new
    profile(visitor)
    assert statistics(world) == []
    assert "You said no to that on" in text_of(visitor.get("/account.php"))
    profile(visitor, statistics="1")
    assert "You agreed to that on" in text_of(visitor.get("/account.php"))
    assert said(world) == [
        ("statistics", True, begin + 86400, "account.php"),
        ("statistics", False, begin + 86400, "account.php"),
        ("statistics", True, begin, "join.php"),
    ]


def test_an_account_that_a_client_made_has_not_agreed_until_its_owner_says_so(world: World) -> None:
    (world.ctx.folder.root / "terms.md").write_text("Be kind.")
    world.get(BY_CLIENT + "&consent_flag=1&source=BOINC+Manager")
    assert said(world) == [("terms", True, world.now, "create_account.php BOINC Manager")]
    assert statistics(world) == []


def test_somebody_who_was_never_asked_is_told_so_on_the_first_page(world: World) -> None:
    world.user("eve")
    visitor = Visitor(world).log_in("eve")
    assert "you have not answered yet" in text_of(visitor.get("/home.php"))
    assert "&lt;a " not in visitor.get("/home.php").text
    profile(visitor)
    assert "you have not answered yet" not in text_of(visitor.get("/home.php"))


def test_only_those_who_agreed_and_stay_are_listed_and_page_by_page(world: World) -> None:
    for number in range(1, 8):
        world.user(f"user{number}")
    kind = ConsentKind.STATISTICS
    for number in (1, 3, 4, 5, 6, 7):
        world.write(
            lambda tx, n=number: consents.record(tx, UserId(n), kind, True, source="test", now=world.now)
        )
    world.write(lambda tx: consents.record(tx, UserId(3), kind, False, source="test", now=world.now))
    world.write(
        lambda tx: consents.record(tx, UserId(2), ConsentKind.TERMS, True, source="test", now=world.now)
    )
    world.write(lambda tx: account_changes.erase(tx, UserId(4), key="x", now=world.now))
    world.write(lambda tx: account_changes.ask_to_erase(tx, UserId(5), world.now + 1))
    assert statistics(world) == [1, 6, 7]


def test_a_project_may_want_clients_to_say_that_the_terms_were_agreed_to(
    make_world: Callable[..., World],
) -> None:
    world = make_world(accounts={"consent_by_clients": True})
    assert "<authenticator>" in world.get(BY_CLIENT.replace("f@", "g@")).text  # there are no terms
    (world.ctx.folder.root / "terms.md").write_text("Be kind.")
    assert "<error_num>-242</error_num>" in world.get(BY_CLIENT).text
    assert "<error_num>-242</error_num>" in world.get(BY_CLIENT + "&consent_flag=0").text
    assert "<authenticator>" in world.get(BY_CLIENT + "&consent_flag=1").text


def test_an_operator_sees_what_somebody_said(world: World) -> None:
    Visitor(world).send("/join.php", **EVE, statistics="1")
    world.user("ada")
    world.write(lambda tx: tx.execute("UPDATE user_account SET role = 'operator' WHERE id = 2"))
    page = text_of(Visitor(world).log_in("ada").get("/ops_user.php?id=1"))
    assert "statistics: yes" in page
    assert "join.php" in page


@pytest.mark.parametrize(
    ("setting", "answer", "shown"),
    [
        ("asked", {}, 0),
        ("asked", {"show_hosts": "1"}, 1),
        ("hidden", {"show_hosts": "1"}, 0),
        ("shown", {}, 1),
    ],
)
def test_whether_others_see_computers_is_asked_or_set_by_the_operator(
    make_world: Callable[..., World], setting: str, answer: dict[str, str], shown: int
) -> None:
    world = make_world(accounts={"computers": setting})
    visitor = Visitor(world)
    assert ('name="show_hosts"' in visitor.get("/join.php").text) == (setting == "asked")
    visitor.send("/join.php", **EVE, **answer)
    world.get(BY_CLIENT)
    found = [row[0] for row in world.query("SELECT show_hosts FROM user_account ORDER BY id")]
    assert found == [shown, int(setting == "shown")]
