"""Account manager RPC from the manager's side, against what client 7.20.5 sent and understood."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.wire_captures import recorded

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.client import account_manager
from cobblestone.wire.client.account_manager import (
    ManagedAccount,
    ManagerReply,
    key_of_address,
    parse_manager_reply,
    parse_manager_request,
    write_manager_reply,
)
from cobblestone.wire.client.records import EstimatedCredit
from cobblestone.wire.project.preferences import UserKeywords
from cobblestone.wire.project.signatures import encode_public_key, generate_key


def test_a_recorded_request_is_read():
    request = parse_manager_request(recorded("22", "request"))
    assert (request.name, request.password_hash) == ("AmUser", "706210b8ce6db9bae8e16269f3c6af7e")
    assert request.client_version == 72005
    assert request.platforms == ("x86_64-pc-linux-gnu",)
    assert request.host.p_ncpus == 2
    assert request.host.p_model == "Example CPU [Family 1 Model 2 Stepping 3]"
    assert request.opaque == {"foo": "1"}
    (project,) = request.projects
    assert project.url == "http://127.0.0.1:18080/mock/"
    assert project.host_id == 4
    assert project.attached_by_manager
    assert project.totals == (0.010555, 4.559874, 0.0, 0.0, 1.0, 0.0)
    assert project.no_work == ("CPU",)


def reply() -> ManagerReply:
    return ManagerReply(
        name="Stones",
        authenticator="5_abc",
        messages=("Hello & <b>welcome</b>",),
        signing_key=encode_public_key(generate_key().public_key()).strip(),
        repeat_sec=43200.0,
        dynamic=True,
        user_name="Ann",
        team_name="Us",
        send_tasks="all",
        no_project_notices=True,
        host_venue="work",
        opaque="<host_id>7</host_id>",
        global_preferences="<global_preferences><mod_time>1</mod_time></global_preferences>",
        accounts=(
            ManagedAccount(
                url="http://127.0.0.1:1/a/",
                url_signature="0123\n.",
                authenticator="3_fff",
                suspend=True,
                resource_share=0.0,
                no_resources=("CPU", "NVIDIA"),
                credit=EstimatedCredit(cpu_ec=1.5, cpu_time=2.5, gpu_ec=3.5, gpu_time=4.5),
                njobs_success=5,
                njobs_error=6,
                user_avg_ec=7.0,
                user_total_ec=8.0,
            ),
            ManagedAccount(
                url="http://127.0.0.1:1/b/",
                url_signature="0123\n.",
                dont_request_more_work=True,
                detach_when_done=True,
                abort_not_started=True,
                update=True,
            ),
            ManagedAccount(url="http://127.0.0.1:1/c/", url_signature="0123\n.", detach=True),
        ),
    )


def test_what_is_written_is_read_by_our_own_client():
    sent = reply()
    assert parse_manager_reply(write_manager_reply(sent)) == replace(
        sent, messages=("Hello & <b>welcome</b>",)
    )


def test_keywords_and_feeds_are_written_for_the_stock_client():
    given = write_manager_reply(
        replace(reply(), keywords=UserKeywords((1, 2), (3,)), feeds=("http://127.0.0.1/rss",))
    )
    assert parse_manager_reply(given).keywords == UserKeywords((1, 2), (3,))
    text = given.decode()
    assert "<yes>1</yes>\n   <yes>2</yes>\n   <no>3</no>" in text
    assert "<rss_feed>\n<url>http://127.0.0.1/rss</url>" in text


def test_an_error_is_an_answer_of_its_own():
    body = write_manager_reply(ManagerReply(error_num=-206, error_msg="Wrong password"))
    assert parse_manager_reply(body).error_num == -206
    assert b"signing_key" not in body


@pytest.mark.parametrize(
    "url",
    [
        "http://Example.org/p/",
        "https://example.org/p/",
        "https://example.org:443/p",
        "HTTP://EXAMPLE.ORG:80/p/",
        "example.org/p",
    ],
)
def test_spellings_of_one_address_have_one_key(url: str):
    assert key_of_address(url) == "example.org/p"


@pytest.mark.parametrize(
    ("one", "other"), [("http://a.b/P/", "http://a.b/p/"), ("http://a.b:81/", "http://a.b/")]
)
def test_other_addresses_have_other_keys(one: str, other: str):
    assert key_of_address(one) != key_of_address(other)


@pytest.mark.parametrize("bad", ["1e304", "nan", "inf", "-5", "1e16", "x"])
def test_totals_of_which_one_is_no_number_are_not_stated(bad: str):
    body = recorded("22", "request").replace(b"<cpu_ec>0.010555</cpu_ec>", f"<cpu_ec>{bad}</cpu_ec>".encode())
    assert parse_manager_request(body).projects[0].totals is None


@pytest.mark.parametrize("name", ["cpu_ec", "cpu_time", "gpu_ec", "gpu_time", "njobs_success", "njobs_error"])
def test_totals_of_which_one_is_absent_are_not_stated(name: str):
    body = re.sub(rf"<{name}>.*?</{name}>".encode(), b"", recorded("22", "request"))
    assert parse_manager_request(body).projects[0].totals is None


def test_a_request_of_too_many_parts_is_cut_and_one_too_long_is_refused():
    project = (
        b"<project><url>http://a.b/</url>"
        + b"<sched_req_no_work>CPU</sched_req_no_work>" * 50
        + b"</project>"
    )
    read = parse_manager_request(b"<acct_mgr_request>" + project * 300 + b"</acct_mgr_request>")
    assert len(read.projects) == account_manager.MAX_PROJECTS
    assert len(read.projects[0].no_work) == account_manager.MAX_DEVICES
    with pytest.raises(RemoteProtocolError, match="at most"):
        parse_manager_request(b"<acct_mgr_request>" + b" " * account_manager.MAX_REQUEST)
    with pytest.raises(RemoteProtocolError, match="deep"):
        parse_manager_request(b"<acct_mgr_request>" + b"<a>" * 100)


@given(st.binary(max_size=400))
def test_any_bytes_give_a_value_or_a_protocol_error(inner: bytes):
    try:
        request = parse_manager_request(b"<acct_mgr_request>" + inner + b"</acct_mgr_request>")
    except RemoteProtocolError:
        return
    for project in request.projects:
        assert all(0 <= each <= account_manager.MAX_CREDIT or each < 2**31 for each in project.totals or ())
