"""Certificates: what they say, and that nobody else can make one."""

from __future__ import annotations

import re

import pytest
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of

from cobblestone.domain.values import UserId
from cobblestone.store.people import account_changes


@pytest.fixture
def earned(world: World) -> World:
    """Ada has 1,000 credit, 400 of them from the app demo."""
    world.add_app()
    world.user("ada")
    world.write(lambda tx: tx.execute("UPDATE user_account SET total_credit = 1000 WHERE id = 1"))
    world.write(
        lambda tx: tx.execute(
            "INSERT INTO app_credit (owner, app_id, owner_id, n_results, total_credit) VALUES ('user', 1, 1, 7, 400)"
        )
    )
    return world


def check_page(page: str) -> str:
    (address,) = set(re.findall(r"certificate_check\.php\?code=[\w.-]+", page))
    return f"/{address}"


def test_a_certificate_says_what_was_contributed_and_its_code_shows_that_it_is_ours(earned: World) -> None:
    ada = Visitor(earned).log_in("ada")
    page = ada.get("/certificate.php")
    assert "has contributed 1,000 credit to My project, as a volunteer since 15 Jan 2027." in text_of(page)
    assert "4.32 × 10¹⁴ floating-point operations" in text_of(page)
    assert "<svg" in page.text
    of_app = ada.get("/certificate.php?appid=1")
    assert "has contributed 400.00 credit to demo of My project" in text_of(of_app)
    earned.write(lambda tx: tx.execute("UPDATE user_account SET total_credit = 5000, name = 'Eva'"))
    for certificate, amount in ((page, "1,000"), (of_app, "400.00")):
        answer = earned.get(check_page(certificate.text))
        assert answer.status_code == 200
        assert "This project issued the certificate. It says:" in text_of(answer)
        assert "Ada" in text_of(answer)
        assert amount in text_of(answer)


def test_a_code_that_was_changed_or_made_up_is_not_ours(earned: World) -> None:
    address = check_page(Visitor(earned).log_in("ada").get("/certificate.php").text)
    start, _, signature = address.rpartition(".")
    wrong = (
        address[:-2],
        f"{start}x.{signature}",
        "/certificate_check.php",
        "/certificate_check.php?code=" + "a" * 2001,
        "/certificate_check.php?code=W10.AAAA",
    )
    for each in wrong:
        answer = earned.get(each)
        assert answer.status_code == 404, each
        assert "did not issue this certificate" in text_of(answer)


def test_other_projects_and_other_signed_texts_of_ours_are_no_certificates(earned: World, make_world) -> None:
    address = check_page(Visitor(earned).log_in("ada").get("/certificate.php").text)
    assert make_world().get(address).status_code == 404
    visitor = Visitor(earned).log_in("ada")
    (cookie,) = [value for name, value in visitor.http.cookies.items() if "language" not in name]
    assert earned.get(f"/certificate_check.php?code={cookie}").status_code == 404


def test_nothing_is_told_of_an_account_that_was_deleted(earned: World) -> None:
    address = check_page(Visitor(earned).log_in("ada").get("/certificate.php").text)
    earned.write(lambda tx: account_changes.erase(tx, UserId(1), key="k" * 32, now=earned.now))
    answer = earned.get(address)
    assert answer.status_code == 410
    assert "Ada" not in answer.text


def test_certificates_are_ones_own_and_of_apps_that_one_has_credit_from(earned: World) -> None:
    assert earned.get("/certificate.php").status_code == 303
    assert Visitor(earned).log_in("ada").get("/certificate.php?appid=2").status_code == 404
