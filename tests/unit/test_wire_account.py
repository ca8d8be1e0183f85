"""Web RPCs: queries and answers."""

from __future__ import annotations

import pytest
from tests.helpers.wire_captures import messages
from tests.helpers.wire_elements import read_elements

from cobblestone.wire.project.account import (
    ERROR_MESSAGES,
    AccountCreation,
    AccountInfo,
    AccountLookup,
    AccountSetting,
    PublicHost,
    PublicUser,
    WebRpcError,
    WebRpcFailure,
    legal_email_addr,
    parse_am_get_info,
    parse_am_set_info,
    parse_create_account,
    parse_lookup_account,
    parse_web_query,
    user_name_problem,
    write_account_exists,
    write_am_get_info_reply,
    write_user_xml,
    write_web_rpc_error,
)

HASH = "564082f4c128f999f6df6f16ad8c4996"


def recorded_query(page: str) -> str:
    line = next(m.start_line for m in messages("01") if page in m.start_line)
    return line.split()[1].partition("?")[2]


def test_the_recorded_lookup_is_read():
    assert parse_lookup_account(recorded_query("lookup_account")) == AccountLookup(
        email_addr="alice@example.org", passwd_hash=HASH
    )


def test_the_recorded_creation_is_read():
    assert parse_create_account(recorded_query("create_account")) == AccountCreation(
        email_addr="carol@example.org", passwd_hash="a95fe6fe31caae9928ea8d6c8c4503d2", user_name="Carol"
    )


def test_a_lookup_without_password_asks_whether_the_account_exists():
    assert parse_lookup_account("email_addr=A%40Example.org").passwd_hash is None
    assert parse_lookup_account("email_addr=A%40Example.org").email_addr == "a@example.org"


def test_all_fields_of_a_creation_are_read():
    query = (
        f"email_addr=%20D%40e.org&passwd_hash={HASH.upper()}&user_name=%20D%C3%A9%20X+&team_name=T%0AU"
        "&invite_code=c&consent_flag=1&source=BOINC+Manager"
    )
    assert parse_create_account(query) == AccountCreation(
        email_addr="d@e.org", passwd_hash=HASH, user_name="Dé X", team_name="TU", invite_code="c",
        consent_flag=True, source="BOINC Manager",
    )  # fmt: skip


def test_the_manager_makes_a_name_of_an_address_with_an_apostrophe():
    found = parse_create_account(f"email_addr=o'brien@b.org&passwd_hash={HASH}&user_name=o'brien")
    assert (found.email_addr, found.user_name) == ("o'brien@b.org", "o’brien")


def test_the_manager_shows_why_an_address_is_refused():
    with pytest.raises(WebRpcFailure) as caught:
        parse_create_account(f"email_addr={'a' * 70}@b.org&passwd_hash={HASH}&user_name=x")
    assert caught.value.error is WebRpcError.GENERIC
    assert "not a valid email address" in caught.value.reply_hint


@pytest.mark.parametrize(
    ("flag", "consent"), [("", None), ("&consent_flag=0", False), ("&consent_flag=1", True)]
)
def test_consent_may_be_left_open(flag: str, consent: bool | None):
    query = f"email_addr=a@b.org&passwd_hash={HASH}&user_name=x{flag}"
    assert parse_create_account(query).consent_flag is consent


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("", WebRpcError.BAD_EMAIL_ADDR),
        ("email_addr=", WebRpcError.BAD_EMAIL_ADDR),
        ("email_addr=" + "a" * 300, WebRpcError.BAD_EMAIL_ADDR),
        ("email_addr=a%40b.org&passwd_hash=short", WebRpcError.BAD_PASSWD),
        ("email_addr=a%40b.org&ldap_auth=1", WebRpcError.GENERIC),
        ("x" * 9000, WebRpcError.GENERIC),
        ("a=1&" * 50, WebRpcError.GENERIC),
    ],
)
def test_a_bad_lookup_is_refused_with_its_number(query: str, error: WebRpcError):
    with pytest.raises(WebRpcFailure) as caught:
        parse_lookup_account(query)
    assert caught.value.error is error
    assert str(caught.value) == caught.value.reply_hint


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (f"email_addr=nonsense&passwd_hash={HASH}&user_name=x", WebRpcError.GENERIC),
        (f"email_addr=&passwd_hash={HASH}&user_name=x", WebRpcError.GENERIC),
        ("email_addr=a@b.org&user_name=x", WebRpcError.BAD_PASSWD),
        (f"email_addr=a@b.org&passwd_hash={HASH}", WebRpcError.BAD_USER_NAME),
        (f"email_addr=a@b.org&passwd_hash={HASH}&user_name=%3Cscript%3E", WebRpcError.BAD_USER_NAME),
    ],
)
def test_a_bad_creation_is_refused_with_its_number(query: str, error: WebRpcError):
    with pytest.raises(WebRpcFailure) as caught:
        parse_create_account(query)
    assert caught.value.error is error


@pytest.mark.parametrize("query", ["%" * 8000, "email_addr=" + "%%%a" * 2000])
def test_a_query_of_broken_percent_signs_is_not_decoded(query: str):
    with pytest.raises(WebRpcFailure, match="not encoded"):
        parse_lookup_account(query)


@pytest.mark.parametrize(
    "address", ["a@b.org", "o'brien@b.org", "first.last+tag@sub.example.co.uk", "ü@exämple.org"]
)
def test_addresses(address: str):
    assert legal_email_addr(address)


@pytest.mark.parametrize(
    "address",
    ["", "a", "a@b", "@b.org", "a@", "a b@c.org", "a@b..org", "a@b.org,c@d.org", "<a@b.org>", "a@b@c.org"],
)
def test_texts_that_are_no_address(address: str):
    assert not legal_email_addr(address)


@pytest.mark.timeout(5)
def test_checking_an_address_takes_no_more_than_linear_time():
    assert not legal_email_addr("a@" + "b." * 126)
    assert not legal_email_addr("a" * 254)


@pytest.mark.parametrize("name", ["Carol", "X 7", "数据", "O_o", "7up", "\u2764\ufe0f"])
def test_user_names(name: str):
    assert user_name_problem(name) == ""


@pytest.mark.parametrize(
    "name", ["", " a", "a ", "123", "a<b", "a&b", "x" * 255, "a\nb", 'a"b', "\u3164", "\u2800\ufe0f"]
)
def test_texts_that_are_no_user_name(name: str):
    assert user_name_problem(name)


def test_control_characters_are_removed_from_queries_and_the_last_of_several_fields_counts():
    assert parse_web_query("a=1%00%0d%0a2&a=%7f3&b=") == {"a": "3", "b": ""}


def test_an_account_key_is_read():
    assert parse_am_get_info("account_key=" + "a" * 32) == "a" * 32


@pytest.mark.parametrize("query", ["", "account_key=", "account_key=%27+or+1", "account_key=" + "a" * 256])
def test_what_can_be_no_account_key_is_not_found(query: str):
    with pytest.raises(WebRpcFailure) as caught:
        parse_am_get_info(query)
    assert caught.value.error is WebRpcError.NOT_FOUND


def test_what_is_said_of_an_account_is_read_and_all_else_refused():
    key = "a" * 32
    assert parse_am_set_info(f"account_key={key}&cross_project_id={'0' * 32}&statistics=0") == AccountSetting(
        account_key=key, cross_project_id="0" * 32, statistics=False
    )
    for wrong in (
        "cross_project_id=",
        "cross_project_id=" + "0" * 31,
        "cross_project_id=" + "G" * 32,
        "statistics=yes",
        "team_name=" + "x" * 255,
        "email_addr=thief@example.org",
    ):
        with pytest.raises(WebRpcFailure):
            parse_am_set_info(f"account_key={key}&{wrong}")


@pytest.mark.parametrize("error", WebRpcError)
def test_every_error_has_a_number_and_a_text(error: WebRpcError):
    root = read_elements(write_web_rpc_error(error))
    assert (root.tag, int(root.get("error_num"))) == ("error", int(error))
    assert root.get("error_msg") == ERROR_MESSAGES[error]


def test_an_errors_text_may_be_given():
    assert read_elements(write_web_rpc_error(WebRpcError.GENERIC, "a <b>")).get("error_msg") == "a <b>"


def test_an_existing_account_is_confirmed():
    assert read_elements(write_account_exists()).tags == ["success"]


def test_the_account_for_a_manager_is_written_percent_encoded_where_managers_decode():
    account = AccountInfo(
        id=7, name="A & B", country="Côte", weak_auth="7_x", cpid="c", create_time=5, url="http://x/?a=1", teamid=3,
        global_prefs="<global_preferences>\n</global_preferences>", venue="home", teamfounder=True, send_email=True,
    )  # fmt: skip
    root = read_elements(write_am_get_info_reply(account))
    assert root.tag == "am_get_info_reply"
    assert root.tags == [
        "success", "id", "name", "country", "weak_auth", "cpid", "has_profile", "create_time", "global_prefs",
        "project_prefs", "url", "send_email", "show_hosts", "teamid", "venue", "teamfounder",
    ]  # fmt: skip
    assert (root.get("name"), root.get("country")) == ("A+%26+B", "C%C3%B4te")
    assert root.path("global_prefs").has("global_preferences")
    assert (root.get("send_email"), root.get("show_hosts")) == ("1", "0")


def test_a_user_is_shown_without_hosts_to_others_and_with_hosts_to_the_owner():
    user = PublicUser(id=1, cpid="c", create_time=5, name="<x>", total_credit=1.5, venue="home")
    public = read_elements(write_user_xml(user))
    assert public.tags == [
        "id", "cpid", "create_time", "name", "country", "total_credit", "expavg_credit", "expavg_time", "teamid", "url",
        "has_profile",
    ]  # fmt: skip
    assert (public.get("name"), public.get("total_credit")) == ("<x>", "1.500000")
    own = read_elements(write_user_xml(user, [PublicHost(id=9, p_model="CPU & Co", p_fpops=1e9)]))
    assert own.get("venue") == "home"
    host = own.path("host")
    assert host.tags == [
        "id", "create_time", "rpc_seqno", "host_cpid", "total_credit", "expavg_credit", "expavg_time", "domain_name",
        "p_ncpus", "p_vendor", "p_model", "p_fpops", "p_iops", "os_name", "os_version", "venue",
    ]  # fmt: skip
    assert (host.get("p_model"), host.get("p_fpops")) == ("CPU & Co", "1000000000.000000")
