"""Profiles: what people say of themselves and show, and who takes it away."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial

import httpx
import pytest
from lxml import html
from PIL import Image
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of
from tests.helpers.volunteers import email

from cobblestone.domain.values import UserId
from cobblestone.store.people import account_changes, mails

PAGE = "/profile_edit.php"


@pytest.fixture
def people(world: World) -> World:
    for name in ("ada", "bruno"):
        world.user(name)
    return world


def a_picture(size: tuple[int, int] = (600, 300)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "teal").save(file, "PNG")
    return file.getvalue()


def send(world: World, visitor: Visitor, picture: bytes | None = None, **fields: str) -> httpx.Response:
    """Fill in the form and send it, with a file if there is one."""
    token = html.fromstring(visitor.get(PAGE).text).xpath("//main//input[@name='form_token']/@value")[0]
    files = {"picture": ("me.png", picture or b"", "image/png")}
    return world.run(visitor.http.post(PAGE, data={"form_token": token, **fields}, files=files))


def test_a_profile_is_shown_as_markdown_with_a_picture_made_by_us(people: World) -> None:
    ada = Visitor(people).log_in("ada")
    answer = send(people, ada, a_picture(), text="I like **stars**. <script>alert(1)</script>")
    assert answer.status_code == 303, answer.text
    page = people.get("/show_user.php?userid=1")
    assert "<strong>stars</strong>" in page.text
    assert "<script>" not in page.text
    (source,) = html.fromstring(page.text).xpath("//img[@class='portrait']/@src")
    picture = people.get(f"/{source}")
    assert picture.headers["content-type"] == "image/webp"
    assert picture.headers["x-content-type-options"] == "nosniff"
    assert picture.headers["content-security-policy"].endswith("sandbox")
    assert Image.open(io.BytesIO(picture.content)).size == (320, 160)
    assert people.get("/user_picture.php?userid=2").status_code == 404


def test_search_engines_are_asked_to_stay_away_unless_one_wants_them(people: World) -> None:
    ada = Visitor(people).log_in("ada")
    robots = '<meta name="robots" content="noindex">'
    assert robots in people.get("/show_user.php?userid=1").text
    send(people, ada, text="Hello", searchable="1")
    assert robots not in people.get("/show_user.php?userid=1").text
    send(people, ada, text="Hello")
    assert robots in people.get("/show_user.php?userid=1").text


def test_the_text_can_change_while_the_picture_stays_and_goes_when_told(people: World) -> None:
    ada = Visitor(people).log_in("ada")
    send(people, ada, a_picture(), text="One")
    send(people, ada, text="Two")
    assert "Two" in text_of(people.get("/show_user.php?userid=1"))
    assert people.get("/user_picture.php?userid=1").status_code == 200
    send(people, ada, text="Two", no_picture="1")
    assert people.get("/user_picture.php?userid=1").status_code == 404


@pytest.mark.parametrize(
    ("picture", "text"),
    [(lambda: b"<svg onload='alert(1)'/>", "x"), (lambda: a_picture((5100, 5000)), "x"), (None, "x" * 2001)],
    ids=["no picture", "too large", "too long"],
)
def test_what_cannot_be_taken_is_said_and_nothing_is_stored(
    people: World, picture: Callable[[], bytes] | None, text: str
) -> None:
    ada = Visitor(people).log_in("ada")
    answer = send(people, ada, picture and picture(), text=text)
    assert answer.status_code == 422
    assert text in answer.text  # what was typed stays
    assert people.value("SELECT count(*) FROM profile") == 0


def test_forms_that_are_not_ours_too_long_or_in_pieces_change_nothing(people: World) -> None:
    ada = Visitor(people).log_in("ada")
    post = ada.http.post
    assert people.run(post(PAGE, data={"text": "x"}, files={"picture": ("x", b"")})).status_code == 403
    long = {"picture": ("x", b"\0" * 6_000_000)}
    too_large = people.run(post(PAGE, data={"text": "x"}, files=long))
    assert too_large.status_code == 413
    assert "Go back, and send a smaller one" in text_of(too_large)
    headers = {"content-type": "multipart/form-data; boundary=x"}
    for body in (
        b"",
        b"--x\r\n",
        b"--x\r\nContent-Disposition: form-data\r\n\r\nx\r\n--x--",
        b"\0\xff" * 100,
    ):
        assert people.run(post(PAGE, content=body, headers=headers)).status_code in (400, 403), body
    assert (
        people.run(post(PAGE, content=b"x", headers={"content-type": "multipart/form-data"})).status_code
        == 400
    )
    assert people.value("SELECT count(*) FROM profile") == 0


def test_operators_take_a_profile_away_and_others_do_not(people: World) -> None:
    ada, bruno = (Visitor(people).log_in(name) for name in ("ada", "bruno"))
    send(people, ada, a_picture(), text="Bad words")
    token = html.fromstring(bruno.get(PAGE).text).xpath("//main//input[@name='form_token']/@value")[0]
    assert bruno.post("/profile_remove.php?userid=1", form_token=token).status_code == 403
    people.write(lambda tx: tx.execute("UPDATE user_account SET role = 'operator' WHERE id = 2"))
    assert "Remove text and picture" in text_of(bruno.get("/show_user.php?userid=1"))
    assert bruno.post("/profile_remove.php?userid=1", form_token=token).status_code == 303
    assert "Bad words" not in people.get("/show_user.php?userid=1").text
    assert people.get("/user_picture.php?userid=1").status_code == 404
    assert "Bad words" in people.value("SELECT before FROM audit_entry WHERE target = 'user 1'")


def test_a_profile_and_the_addresses_of_mails_go_with_their_account(people: World) -> None:
    ada = Visitor(people).log_in("ada")
    send(people, ada, a_picture(), text="Hello")
    for to in map(email, ("ada", "ada", "bruno")):
        people.write(partial(mails.post, recipient=to, subject="s", body="b", now=people.now))
    people.write(lambda tx: tx.execute("UPDATE mail SET sent_time = 1 WHERE id <> 1"))
    people.write(lambda tx: account_changes.erase(tx, UserId(1), key="k" * 32, now=people.now))
    assert people.value("SELECT count(*) FROM profile") == 0
    assert (
        people.value("SELECT group_concat(id || recipient) FROM mail") == f"1{email('ada')},3{email('bruno')}"
    )
