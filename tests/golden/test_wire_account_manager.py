"""Account manager RPC against what client 7.20.5 sent and understood."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.wire_captures import recorded

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.client.account_manager import (
    ManagerRequest,
    ProjectReport,
    parse_manager_reply,
    write_manager_request,
)
from cobblestone.wire.client.records import EstimatedCredit, ProjectRecord
from cobblestone.wire.project.signatures import decode_public_key, verify_bytes
from cobblestone.wire.scheduler.host import (
    HostInfo,
    NetStats,
    TimeStats,
    read_host_info,
    read_net_stats,
    read_time_stats,
)
from cobblestone.wire.scheduler.reply import HostBlock
from cobblestone.wire.text.tree import Node, read_tree


def part(body: bytes, tag: str) -> Node:
    return read_tree(body, tag)


def facts(body: bytes) -> tuple[HostInfo, TimeStats, NetStats]:
    return (
        read_host_info(part(body, "host_info").reader([])),
        read_time_stats(part(body, "time_stats").reader([])),
        read_net_stats(part(body, "net_stats").reader([])),
    )


@pytest.mark.parametrize("capture", ["22", "23"])
def test_a_recorded_request_is_written_again_byte_by_byte(capture: str):
    body = recorded(capture, "request" if capture == "22" else "")
    top, project = part(body, "acct_mgr_request").reader([]), part(body, "project").reader([])
    host, times, net = facts(body)
    preferences = part(body, "working_global_preferences").raw.strip()
    dynamic = "cpu_ec" in project.fields
    record = ProjectRecord(
        master_url=project.text("url"),
        authenticator=project.text("account_key"),
        project_name=project.text("project_name"),
        host=HostBlock(id=project.integer("hostid")),
        attached_via_acct_mgr=True,
        resource_share=project.number("resource_share"),
        disk_usage=project.number("disk_usage"),
        disk_share=project.number("disk_share"),
        credit=EstimatedCredit(cpu_ec=project.number("cpu_ec"), cpu_time=project.number("cpu_time")),
        njobs_success=project.integer("njobs_success"),
        suspended_via_gui=project.flag("suspended_via_gui"),
        dont_request_more_work=project.flag("dont_request_more_work"),
    )
    opaque = b"<opaque>" in body
    request = ManagerRequest(
        name=top.text("name"),
        password_hash=top.text("password_hash"),
        host_cpid=top.text("host_cpid"),
        domain_name=top.text("domain_name"),
        client_version="7.20.5",
        run_mode="auto",
        platforms=("x86_64-pc-linux-gnu",),
        previous_host_cpid=top.text("previous_host_cpid"),
        projects=(
            ProjectReport(project=record, dynamic=dynamic, no_work=("CPU",) if b"no_work" in body else ()),
        ),
        working_preferences=preferences,
        host=host,
        opaque="<foo>1</foo>" if opaque else "",
        time_stats=times,
        net_stats=net,
        with_results=b"<results>" in body,
    )
    assert write_manager_request(request).decode().splitlines() == body.decode().splitlines()


def test_a_recorded_answer_is_read_and_its_signatures_tell_right_from_wrong():
    reply = parse_manager_reply(recorded("21", "reply"))
    assert (reply.name, reply.user_name, reply.team_name, reply.repeat_sec) == (
        "Mock AM",
        "Am User",
        "Am Team",
        60.0,
    )
    assert reply.dynamic
    assert reply.send_tasks == "all"
    assert reply.messages == ("hello from AM",)
    assert reply.opaque == "<foo>1</foo>"
    good, bad = reply.accounts
    assert good.resource_share == 50
    assert dataclasses.astuple(good.credit) == (100, 10, 5, 2)
    assert (good.njobs_success, good.njobs_error) == (3, 1)
    key = decode_public_key(reply.signing_key)
    assert verify_bytes(key, good.url.encode(), good.url_signature)
    assert not verify_bytes(key, bad.url.encode(), bad.url_signature)


def test_orders_of_an_answer_are_read():
    (account,) = parse_manager_reply(recorded("22", "reply")).accounts
    assert account.suspend
    assert account.dont_request_more_work
    assert account.update
    assert account.resource_share is None
    assert parse_manager_reply(recorded("20", "reply")).error_num == -206


@given(st.binary(max_size=300))
def test_any_bytes_give_a_value_or_a_protocol_error(inner: bytes):
    try:
        reply = parse_manager_reply(b"<acct_mgr_reply>" + inner + b"</acct_mgr_reply>")
    except RemoteProtocolError:
        return
    assert 60 <= reply.repeat_sec <= 30 * 86400
