"""What people change about their accounts, and what guards these changes."""

from __future__ import annotations

import hashlib
import re
import subprocess
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import segno
from itsdangerous import URLSafeSerializer
from lxml import etree, html
from tests.helpers.post import link_in, post_office
from tests.helpers.project_world import World
from tests.helpers.visitors import Visitor, text_of
from tests.helpers.volunteers import PASSWORD, email

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.people import SubmitRights
from cobblestone.domain.values import TeamId, UserId
from cobblestone.server.accounts.ownership import create_key, public_key
from cobblestone.server.daemons.housekeeping import keep_accounts
from cobblestone.service.mail import Mailer, outbox
from cobblestone.service.passwords import one_time_password, time_step
from cobblestone.store.people import mails, teams, users
from cobblestone.store.work import submitters

NEW_PASSWORD = "a longer secret"


def send(visitor: Visitor, page: str, action: str, **fields: str) -> Any:
    """Fill in the form of a page that does one thing."""
    tree = html.fromstring(visitor.get(page).text)
    (form,) = tree.xpath(f"//main//form[.//input[@name='action' and @value='{action}']]")
    hidden = {field.get("name"): field.get("value") for field in form.xpath(".//input[@type='hidden']")}
    return visitor.post("/" + form.get("action"), **{**hidden, **fields})


def can_log_in(world: World, address: str, password: str) -> bool:
    answer = Visitor(world).send("/login.php", email_addr=address, passwd=password)
    return answer.status_code == 303


# -- profile ---------------------------------------------------------------------------------------------


def test_a_profile_is_stored_and_shown(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    answer = visitor.send(
        "/account.php", user_name="Ada L", country="France", url="https://ada.example/", language="fr"
    )
    assert answer.headers["location"] == "/account.php?done=saved"
    row = world.query("SELECT name, country, url, language, show_hosts, send_email FROM user_account")[0]
    assert row == ("Ada L", "France", "https://ada.example/", "fr", 0, 0)
    assert '<html lang="fr">' in Visitor(world).log_in("ada").get("/home.php").text
    assert "Ada L" in text_of(Visitor(world).get("/show_user.php?userid=1"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"user_name": "<b>"},
        {"user_name": "17"},
        {"url": "javascript:alert(1)"},
        {"country": "x" * 201},
        {"language": "xx"},
    ],
)
def test_a_profile_that_cannot_be_is_refused(world: World, wrong: dict[str, str]) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    fields = {"user_name": "Ada", "country": "", "url": "", "language": "", **wrong}
    assert visitor.send("/account.php", **fields).status_code == 422
    assert world.value("SELECT name FROM user_account") == "Ada"


# -- password --------------------------------------------------------------------------------------------


def test_a_new_password_ends_other_sessions_and_keeps_computers_attached(world: World) -> None:
    key = world.user("ada")
    here, elsewhere = Visitor(world).log_in("ada"), Visitor(world).log_in("ada")
    answer = send(here, "/security.php", "password", passwd=PASSWORD, new_passwd=NEW_PASSWORD)
    assert answer.headers["location"] == "/security.php?done=password"
    assert here.get("/home.php").status_code == 200
    assert elsewhere.get("/home.php").status_code == 303
    assert not can_log_in(world, email("ada"), PASSWORD)
    assert can_log_in(world, email("ada"), NEW_PASSWORD)
    assert world.value("SELECT authenticator FROM user_account") == key
    assert "new password" in post_office(world)[0]["Subject"]


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("password", {"new_passwd": NEW_PASSWORD}),
        ("email", {"email_addr": "new@example.org"}),
        ("keys", {}),
        ("factor_on", {"code": "123456"}),
    ],
)
def test_what_guards_an_account_changes_with_the_password_only(
    world: World, action: str, fields: dict[str, str]
) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    before = world.query("SELECT * FROM user_account")
    answer = send(visitor, "/security.php", action, passwd="wrong", **fields)
    assert answer.status_code == 422
    assert "This is not your password" in text_of(answer)
    assert world.query("SELECT * FROM user_account") == before
    assert world.value("SELECT count(*) FROM mail") == 0


def test_log_out_everywhere_ends_all_other_sessions(world: World) -> None:
    world.user("ada")
    here, elsewhere = Visitor(world).log_in("ada"), Visitor(world).log_in("ada")
    send(here, "/security.php", "sessions")
    assert here.get("/home.php").status_code == 200
    assert elsewhere.get("/home.php").status_code == 303


def test_new_keys_end_the_old_ones(world: World) -> None:
    key = world.user("ada")
    send(Visitor(world).log_in("ada"), "/security.php", "keys", passwd=PASSWORD)
    fresh, weak = world.query("SELECT authenticator, weak_authenticator FROM user_account")[0]
    assert fresh != key
    assert weak.startswith("1_")
    assert world.host(key).rpc(ask=1.0).all("hostid") == []
    assert world.host(fresh).rpc(ask=1.0).has("hostid")


def test_a_session_cookie_is_new_at_log_in(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world)
    visitor.get("/login.php")
    before = number_of_session(visitor)
    after, elsewhere = (number_of_session(each.log_in("ada")) for each in (visitor, Visitor(world)))
    assert len({before, after, elsewhere}) == 3


def number_of_session(visitor: Visitor) -> str:
    """The random number in the cookie, which is signed but not secret."""
    (cookie,) = visitor.http.cookies.jar
    _, content = URLSafeSerializer("").loads_unsafe(cookie.value or "")
    return content["n"]


# -- forgotten password ----------------------------------------------------------------------------------


def test_a_forgotten_password_is_replaced_through_a_mailed_link_once(world: World) -> None:
    world.user("ada")
    old = Visitor(world).log_in("ada")
    visitor = Visitor(world)
    assert visitor.send("/password_reset.php", email_addr="ADA@example.org").status_code == 200
    (message,) = post_office(world)
    assert message["To"] == email("ada")
    link = link_in(message)
    page = visitor.get(link)
    assert page.headers["referrer-policy"] == "same-origin"
    answer = visitor.send(link, new_passwd=NEW_PASSWORD)
    assert answer.headers["location"] == "/login.php?done=password"
    assert can_log_in(world, email("ada"), NEW_PASSWORD)
    assert old.get("/home.php").status_code == 303
    assert Visitor(world).get(link).status_code == 410
    code = link.partition("code=")[2]
    token = html.fromstring(visitor.get("/password_reset.php").text).xpath("//main//@value")[0]
    visitor.post("/password_new.php", form_token=token, code=code, new_passwd="yet another")
    assert not can_log_in(world, email("ada"), "yet another")


def test_a_reset_link_ends_after_two_hours_and_with_the_next_one(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world)
    visitor.send("/password_reset.php", email_addr=email("ada"))
    visitor.send("/password_reset.php", email_addr=email("ada"))
    first, second = (link_in(message) for message in post_office(world))
    assert visitor.get(first).status_code == 410
    assert visitor.get(second).status_code == 200
    world.now += 2 * 3600 + 1
    assert visitor.get(second).status_code == 410


def test_nobody_learns_by_a_reset_whether_there_is_an_account(world: World) -> None:
    world.user("ada")
    known = Visitor(world).send("/password_reset.php", email_addr=email("ada"))
    unknown = Visitor(world).send("/password_reset.php", email_addr="no@body.org")
    assert text_of(known) == text_of(unknown)
    assert [message["To"] for message in post_office(world)] == [email("ada")]


def test_codes_are_stored_hashed_and_mails_forgotten_once_sent(world: World) -> None:
    world.user("ada")
    Visitor(world).send("/password_reset.php", email_addr=email("ada"))
    code = link_in(post_office(world)[0]).partition("code=")[2]
    dump = repr(world.query("SELECT * FROM one_time_code")) + repr(world.query("SELECT * FROM mail"))
    assert code not in dump


# -- new address -----------------------------------------------------------------------------------------


def test_an_address_changes_when_the_link_sent_to_it_is_used(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    send(visitor, "/security.php", "email", email_addr="New@Example.org", passwd=PASSWORD)
    assert can_log_in(world, email("ada"), PASSWORD)
    (message,) = post_office(world)
    assert message["To"] == "new@example.org"
    link = link_in(message)
    assert Visitor(world).get(link).headers["location"].startswith("/login.php?next=email_new.php")
    answer = visitor.send(link)
    assert answer.headers["location"] == "/security.php?done=email"
    assert visitor.get("/home.php").status_code == 200
    assert not can_log_in(world, email("ada"), PASSWORD)
    assert can_log_in(world, "new@example.org", PASSWORD)
    digest = hashlib.md5(f"{PASSWORD}new@example.org".encode()).hexdigest()
    reply = world.get("/lookup_account.php", params={"email_addr": "new@example.org", "passwd_hash": digest})
    assert "<authenticator>" in reply.text
    assert post_office(world)[-1]["To"] == email("ada")


def test_a_link_for_a_new_address_is_good_for_its_own_account_only(world: World) -> None:
    world.user("ada")
    world.user("bruno")
    send(
        Visitor(world).log_in("ada"), "/security.php", "email", email_addr="new@example.org", passwd=PASSWORD
    )
    link = link_in(post_office(world)[0])
    assert Visitor(world).log_in("bruno").send(link).status_code == 410
    assert world.value("SELECT count(*) FROM user_account WHERE email_addr = 'new@example.org'") == 0


def test_a_taken_address_is_not_taken_over_and_not_told(world: World) -> None:
    world.user("ada")
    world.user("bruno")
    answer = send(
        Visitor(world).log_in("ada"), "/security.php", "email", email_addr=email("bruno"), passwd=PASSWORD
    )
    assert answer.headers["location"] == "/security.php?done=email_sent"
    assert post_office(world) == []


# -- second factor ---------------------------------------------------------------------------------------


def turn_on(world: World, visitor: Visitor) -> tuple[bytes, list[str]]:
    """Turn the second factor on; its secret and the recovery codes."""
    import base64

    page = html.fromstring(visitor.get("/security.php").text)
    secret = base64.b32decode(page.xpath("//p[@class='address']/code/text()")[0])
    code = one_time_password(secret, time_step(world.now))
    answer = send(visitor, "/security.php", "factor_on", passwd=PASSWORD, code=code)
    assert answer.status_code == 200, text_of(answer)
    codes = html.fromstring(answer.text).xpath("//pre/code/text()")[0].split()
    return secret, codes


def give_password(world: World, name: str = "ada") -> Visitor:
    visitor = Visitor(world)
    answer = visitor.send("/login.php", email_addr=email(name), passwd=PASSWORD)
    assert answer.headers["location"].startswith("/login_code.php")
    return visitor


def test_the_second_factor_is_shown_as_a_picture_of_its_address(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    page = html.fromstring(visitor.get("/security.php").text)
    (address,) = page.xpath("//a[starts-with(@href, 'otpauth://')]/@href")
    (drawn,) = page.xpath("//*[@class='qr']/*[local-name() = 'svg']")
    assert dark_modules(drawn) == [list(row) for row in segno.make_qr(address, error="m").matrix]
    back, _lines = drawn.xpath(".//*[local-name() = 'path']")
    assert back.get("fill") == "#fff", "read also where the page is dark"


def dark_modules(svg: Any) -> list[list[int]]:
    """The modules that the lines of a QR code cover, without the quiet zone."""
    size = int(svg.get("viewbox").split()[2])
    modules = [[0] * size for _ in range(size)]
    x, y = 0, 0.0
    for command, numbers in re.findall(r"([Mmh])([-\d. ]+)", svg.xpath(".//*[@stroke]/@d")[0]):
        values = [float(number) for number in numbers.split()]
        if command == "h":
            for place in range(x, x + int(values[0])):
                modules[int(y)][place] = 1
            x += int(values[0])
        else:
            x, y = (int(values[0]), values[1]) if command == "M" else (x + int(values[0]), y + values[1])
    return [row[4:-4] for row in modules[4:-4]]


def test_the_second_factor_is_asked_for_and_opens_the_account(world: World) -> None:
    world.user("ada")
    owner = Visitor(world).log_in("ada")
    secret, codes = turn_on(world, owner)
    assert len(set(codes)) == 10
    assert owner.get("/home.php").status_code == 200
    visitor = give_password(world)
    for page in ("/home.php", "/security.php", "/tokens.php", "/results.php"):
        assert visitor.get(page).headers["location"].startswith("/login.php"), page
    world.now += 60
    wrong = visitor.send("/login_code.php", code="000000")
    assert wrong.status_code == 422
    code = one_time_password(secret, time_step(world.now))
    assert visitor.send("/login_code.php", code=code).headers["location"] == "/home.php"
    assert visitor.get("/home.php").status_code == 200
    again = give_password(world)
    assert again.send("/login_code.php", code=code).status_code == 422


def test_a_recovery_code_opens_the_account_once(world: World) -> None:
    world.user("ada")
    _, codes = turn_on(world, Visitor(world).log_in("ada"))
    assert give_password(world).send("/login_code.php", code=codes[3].upper()).status_code == 303
    assert give_password(world).send("/login_code.php", code=codes[3]).status_code == 422
    assert "recovery code" in post_office(world)[-1]["Subject"]


def test_the_wait_for_the_second_factor_ends_after_ten_minutes(world: World) -> None:
    world.user("ada")
    secret, _ = turn_on(world, Visitor(world).log_in("ada"))
    visitor = give_password(world)
    world.now += 601
    code = one_time_password(secret, time_step(world.now))
    assert visitor.get("/login_code.php").headers["location"] == "/login.php"
    assert visitor.post("/login_code.php", code=code).headers["location"] == "/login.php"


def test_with_a_second_factor_a_password_gives_clients_the_weak_key_only(world: World) -> None:
    strong = world.user("ada")
    turn_on(world, Visitor(world).log_in("ada"))
    digest = hashlib.md5(f"{PASSWORD}{email('ada')}".encode()).hexdigest()
    for rpc, more in (("lookup_account", {}), ("create_account", {"user_name": "Ada"})):
        reply = world.get(f"/{rpc}.php", params={"email_addr": email("ada"), "passwd_hash": digest, **more})
        assert strong not in reply.text
        assert "<authenticator>1_" in reply.text
    joined = Visitor(world).send("/join.php", user_name="Ada", email_addr=email("ada"), passwd=PASSWORD)
    assert joined.headers["location"].startswith("/login_code.php")


def test_the_secret_of_the_second_factor_is_not_stored_in_the_clear(world: World) -> None:
    import base64

    world.user("ada")
    secret, codes = turn_on(world, Visitor(world).log_in("ada"))
    dump = repr(world.query("SELECT * FROM user_account")) + repr(world.query("SELECT * FROM one_time_code"))
    assert base64.b32encode(secret).decode() not in dump
    assert codes[0] not in dump
    assert codes[0].replace("-", "") not in dump


def test_the_second_factor_is_turned_off_with_the_password(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    turn_on(world, visitor)
    send(visitor, "/security.php", "factor_off", passwd=PASSWORD)
    assert can_log_in(world, email("ada"), PASSWORD)
    assert Visitor(world).log_in("ada").get("/home.php").status_code == 200


# -- the end ---------------------------------------------------------------------------------------------


def test_an_account_is_deleted_after_the_grace_period_and_its_credit_stays(world: World) -> None:
    app = world.add_app()
    key = world.user("ada")
    world.user("bruno")
    world.write(lambda tx: tx.execute("INSERT INTO team (name, name_lc, founder_id) VALUES ('T', 't', 1)"))
    world.write(lambda tx: tx.execute("UPDATE user_account SET team_id = 1"))
    world.write(lambda tx: users.set_profile(tx, UserId(1), text="I am Ada.", searchable=True, now=world.now))
    world.write(
        lambda tx: teams.send_message(
            tx, TeamId(1), UserId(1), title="Hello", text="It is Ada.", now=world.now
        )
    )
    host = world.host(key, domain_name="ada-laptop")
    world.add_jobs(app)
    host.rpc(ask=1.0)
    (name,) = host.new_results()
    world.now += 500
    host.rpc(reports=[host.finish(name, b"answer")])
    world.settle()
    credit = world.value("SELECT total_credit FROM team")
    assert credit > 0
    visitor = Visitor(world).log_in("ada")
    assert visitor.send("/delete_account.php", sure="Ada", passwd="wrong").status_code == 422
    assert visitor.send("/delete_account.php", sure="Bruno", passwd=PASSWORD).status_code == 422
    answer = visitor.send("/delete_account.php", sure="Ada", passwd=PASSWORD)
    assert answer.headers["location"] == "/login.php?done=erase"
    assert visitor.get("/home.php").status_code == 303
    world.now += 6.9 * 86400
    world.run(keep_accounts(world.ctx))
    assert world.value("SELECT name FROM user_account WHERE id = 1") == "Ada"
    world.now += 0.2 * 86400
    world.run(keep_accounts(world.ctx))
    everything = "".join(
        repr(world.query(f"SELECT * FROM {table}"))
        for table in (
            *("user_account", "host", "one_time_code", "api_token", "result_text", "profile", "team_message"),
        )
    )
    for trace in ("Ada", email("ada"), key, "ada-laptop"):
        assert trace not in everything
    assert world.value("SELECT total_credit FROM team") == credit
    assert world.value("SELECT sum(granted) FROM credit_entry WHERE team_id = 1") == pytest.approx(credit)
    assert world.value("SELECT founder_id FROM team") == 2
    assert not can_log_in(world, email("ada"), PASSWORD)
    assert "Deleted account" in text_of(world.get("/show_user.php?userid=1"))
    assert "deleted" not in text_of(world.get("/top_users.php"))
    assert host.rpc(ask=1.0).all("result") == []
    assert (
        Visitor(world)
        .send("/join.php", user_name="Ada", email_addr=email("ada"), passwd=PASSWORD)
        .status_code
        == 303
    )


def test_a_deletion_is_taken_back_by_logging_in(world: World) -> None:
    world.user("ada")
    Visitor(world).log_in("ada").send("/delete_account.php", sure="Ada", passwd=PASSWORD)
    visitor = Visitor(world)
    answer = visitor.send("/login.php", email_addr=email("ada"), passwd=PASSWORD)
    assert answer.headers["location"] == "/delete_account.php"
    send(visitor, "/delete_account.php", "keep")
    world.now += 30 * 86400
    world.run(keep_accounts(world.ctx))
    assert world.value("SELECT name FROM user_account") == "Ada"


# -- proof of ownership ----------------------------------------------------------------------------------


def test_another_site_checks_that_an_account_is_its_members_own(world: World, tmp_path: Path) -> None:
    user_id = world.user("ada") and world.value("SELECT id FROM user_account")
    visitor = Visitor(world).log_in("ada")
    assert visitor.get("/account_ownership.php").status_code == 404
    assert b"account_ownership" not in world.get("/get_project_config.php").content
    assert create_key(world.ctx.folder)
    assert not create_key(world.ctx.folder)
    assert world.ctx.folder.ownership_private.stat().st_mode & 0o77 == 0
    assert "account_ownership.php" in visitor.get("/home.php").text
    answer = visitor.send("/account_ownership.php", user_data=" <Ada> & 17 é ")
    proof = etree.fromstring(html.fromstring(answer.text).xpath("string(//main//pre)"))
    assert proof.findtext("master_url") == world.ctx.settings.project.url
    assert proof.findtext("msg") == f"{user_id} <Ada> & 17 é"
    config = etree.fromstring(world.get("/get_project_config.php").content)
    (tmp_path / "key").write_bytes(b64decode(config.findtext("account_ownership_public_key") or ""))
    (tmp_path / "msg").write_text(proof.findtext("msg") or "", encoding="utf-8")
    (tmp_path / "signature").write_bytes(b64decode(proof.findtext("signature") or ""))
    command = ["openssl", "dgst", "-sha512", "-verify", "key", "-signature", "signature", "msg"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=True).stdout == b"Verified OK\n"


@pytest.mark.parametrize("text", ["", "  ", "x" * 4097, "\u202eright to left"])
def test_what_is_no_text_of_another_site_is_not_signed(world: World, text: str) -> None:
    world.user("ada")
    create_key(world.ctx.folder)
    answer = Visitor(world).log_in("ada").send("/account_ownership.php", user_data=text)
    assert answer.status_code == 422
    assert "<signature>" not in answer.text


def test_a_damaged_key_for_proofs_is_named(world: World) -> None:
    world.ctx.folder.ownership_private.write_text("rubbish")
    with pytest.raises(ConfigError, match="Restore it from a backup"):
        public_key(world.ctx.folder)


# -- tokens ----------------------------------------------------------------------------------------------


def test_a_volunteers_token_reads_own_data_and_nothing_else(world: World) -> None:
    world.add_jobs(world.add_app(), 2)
    ada, bruno = world.host(world.user("ada"), domain_name="astra"), world.host(world.user("bruno"))
    ada.rpc(ask=1000.0)
    bruno.rpc()
    visitor = Visitor(world).log_in("ada")
    answer = visitor.send("/tokens.php", name="my script", days="30")
    secret = html.fromstring(answer.text).xpath("//p[@class='address']/code/text()")[0]
    headers = {"Authorization": f"Bearer {secret}"}
    assert world.get("/api/v1/me", headers=headers).json()["name"] == "Ada"
    computers = world.get("/api/v1/me/computers", headers=headers).json()["computers"]
    assert [item["name"] for item in computers] == ["astra"]
    tasks = world.get("/api/v1/me/tasks?limit=1", headers=headers).json()
    assert tasks["tasks"][0]["state"] == "in_progress"
    rest = world.get(f"/api/v1/me/tasks?before={tasks['before']}", headers=headers).json()
    assert len(rest["tasks"]) == 1
    assert rest["before"] is None
    assert world.get(f"/api/v1/me/tasks?computer={bruno.id}", headers=headers).status_code == 404
    for path in ("apps", "users", "batches", "tokens"):
        assert world.get(f"/api/v1/{path}", headers=headers).status_code == 403, path
    send(visitor, "/tokens.php", "revoke")
    assert world.get("/api/v1/me", headers=headers).status_code == 401


def test_a_token_submits_jobs_where_its_owner_may_and_says_so(world: World) -> None:
    world.user("ada")
    visitor = Visitor(world).log_in("ada")
    page = visitor.get("/tokens.php")
    assert "submit" not in text_of(page)
    fields = {"name": "my script", "days": "30"}
    fields["form_token"] = html.fromstring(page.text).xpath("//input[@name='form_token']/@value")[0]
    world.write(lambda tx: submitters.allow(tx, UserId(1), SubmitRights(max_jobs=3), now=world.now))
    statuses: list[int] = []
    for asked in ({"submit": "1"}, {}):
        answer = visitor.post("/tokens.php", **fields, **asked)
        secret = html.fromstring(answer.text).xpath("//p[@class='address']/code/text()")[0]
        headers = {"Authorization": f"Bearer {secret}"}
        statuses += [world.get(f"/api/v1/{path}", headers=headers).status_code for path in ("me", "batches")]
    assert statuses == [200, 200, 200, 403]
    assert text_of(visitor.get("/tokens.php")).count("my script") == 2  # and not that of the account itself


def test_nobody_revokes_the_tokens_of_others(world: World) -> None:
    world.user("ada")
    world.user("bruno")
    Visitor(world).log_in("ada").send("/tokens.php", name="mine", days="30")
    bruno = Visitor(world).log_in("bruno")
    bruno.send("/tokens.php", name="his", days="30")
    assert send(bruno, "/tokens.php", "revoke", id="1").status_code == 404
    assert world.value("SELECT count(*) FROM api_token WHERE revoke_time IS NOT NULL") == 0


# -- mails -----------------------------------------------------------------------------------------------


def test_a_mail_that_cannot_be_sent_waits_and_is_tried_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(lambda tx: mails.post(tx, recipient="a@b.org", subject="s", body="b", now=world.now))
    folder = outbox(world.ctx.folder.root)
    folder.write_text("a file where the folder should be")
    assert world.run(Mailer(world.ctx, world.ctx.settings.mail, world.ctx.folder.root).step()) == 1
    assert world.run(Mailer(world.ctx, world.ctx.settings.mail, world.ctx.folder.root).step()) == 0
    assert "exists" in world.value("SELECT error FROM mail").lower() or world.value("SELECT error FROM mail")
    folder.unlink()
    world.now += 61
    assert len(post_office(world)) == 1
    assert world.query("SELECT body, sent_time IS NOT NULL FROM mail") == [("", 1)]


def test_a_mail_survives_the_death_of_the_server_between_sending_and_noting(world: World) -> None:
    world.write(lambda tx: mails.post(tx, recipient="a@b.org", subject="s", body="b", now=world.now))
    assert len(post_office(world)) == 1
    world.write(lambda tx: tx.execute("UPDATE mail SET sent_time = NULL, body = 'b'"))
    assert len(post_office(world)) == 1  # the same file


def test_mails_are_in_the_language_of_the_account(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.user("ada")
    world.write(lambda tx: tx.execute("UPDATE user_account SET language = 'fr'"))
    Visitor(world).send("/password_reset.php", email_addr=email("ada"))
    (message,) = post_office(world)
    assert message["Subject"]


def test_the_managers_way_to_a_forgotten_password_leads_to_the_form(world: World):
    visitor = Visitor(world)
    page = visitor.get("/get_passwd.php")
    assert page.status_code == 200
    assert "email_addr" in page.text
    assert visitor.send("/get_passwd.php", email_addr="nobody@example.org").status_code == 200
