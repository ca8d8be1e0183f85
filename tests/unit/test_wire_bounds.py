"""What a peer writes is cut or refused at a bound: texts, lists and numbers."""

from __future__ import annotations

import pytest

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.client.account_manager import parse_manager_reply, parse_manager_request
from cobblestone.wire.client.config import read_client_config
from cobblestone.wire.client.task_messages import read_status
from cobblestone.wire.project.account import (
    MAX_QUERY_FIELDS,
    WebRpcFailure,
    parse_team_lookup,
    parse_web_query,
)
from cobblestone.wire.project.pages import scheduler_urls
from cobblestone.wire.project.upload import UploadStatus, write_upload_reply
from cobblestone.wire.scheduler import request_layout
from cobblestone.wire.scheduler.job import read_app_info
from cobblestone.wire.text import reader, tree
from cobblestone.wire.text.reader import Lenience, LenienceKind


@pytest.fixture
def notes() -> list[Lenience]:
    return []


def cut(notes: list[Lenience]) -> bool:
    return [each.kind for each in notes] == [LenienceKind.CUT]


def test_a_long_message_of_an_error_is_cut(notes: list[Lenience]):
    found = reader.read_stderr(f"<message>{'x' * 9000}</message>", notes)
    assert len(found.message) == 8192
    assert cut(notes)


def test_a_long_trickle_is_cut(notes: list[Lenience]):
    found = reader.read_trickle("<result_name>r</result_name>" + "x" * 70_000, notes)
    assert (found.result_name, len(found.text)) == ("r", 65536)
    assert cut(notes)


def test_any_other_free_text_is_cut(notes: list[Lenience]):
    assert len(reader.read_verbatim("x" * 70_000, "somewhere", notes)) == 65536
    assert cut(notes)


@pytest.mark.parametrize("text", ["<stderr_out><b><b><b></stderr_out>", "<x/>"])
def test_many_elements_of_an_unusual_request_are_refused(monkeypatch: pytest.MonkeyPatch, text: str):
    monkeypatch.setattr(request_layout, "MAX_UNUSUAL_TAGS", 5)
    body = "<scheduler_request ><hostid>1</hostid>{}</scheduler_request>"
    assert request_layout.take_apart(body.format(text * 2).encode(), []).top["hostid"] == "1"
    with pytest.raises(RemoteProtocolError, match="more than 5 tags"):
        request_layout.take_apart(body.format(text * 3).encode(), [])


@pytest.mark.parametrize("tag", ["<b>1</b>", "<b/><b/>"])
def test_many_tags_are_refused(monkeypatch: pytest.MonkeyPatch, tag: str):
    monkeypatch.setattr(tree, "MAX_TAGS", 10)
    assert tree.read_tree(f"<a>{tag * 4}</a>".encode(), "a").children
    with pytest.raises(RemoteProtocolError, match="more than 10 tags"):
        tree.read_tree(f"<a>{tag * 6}</a>".encode(), "a")


def test_own_programs_of_a_volunteer_are_read_up_to_a_number():
    body = "<app_info>" + "".join(f"<app><name>a{n}</name></app>" for n in range(600)) + "</app_info>"
    assert len(read_app_info(body.encode(), platform="p", cpu_flops=1e9).apps) == 500
    with pytest.raises(RemoteProtocolError):
        read_app_info(body.encode() + b" " * (1 << 20), platform="p", cpu_flops=1e9)


def test_a_page_names_no_more_schedulers_than_a_client_would_try():
    page = "".join(f"<scheduler>http://h{n}/</scheduler>\n" for n in range(30))
    assert len(scheduler_urls(page.encode())) == 20


def test_a_query_has_no_more_fields_than_any_page_wants():
    query = "&".join(f"f{n}=1" for n in range(MAX_QUERY_FIELDS))
    assert len(parse_web_query(query)) == MAX_QUERY_FIELDS == 40
    with pytest.raises(WebRpcFailure):
        parse_web_query(f"{query}&more=1")


def test_a_hundred_teams_are_looked_up_at_once():
    assert len(parse_team_lookup("team_ids=" + ",".join(map(str, range(1, 151)))).team_ids) == 100


def test_an_account_manager_names_no_more_projects_than_a_client_would_attach():
    accounts = "".join(f"<account><url>http://p{n}/</url></account>\n" for n in range(300))
    reply = parse_manager_reply(f"<acct_mgr_reply>\n{accounts}</acct_mgr_reply>".encode())
    assert len(reply.accounts) == 200


@pytest.mark.parametrize("seconds", ["1e11", "-1", "nan", "inf"])
def test_a_program_that_states_impossible_cpu_time_states_none(seconds: str):
    status = read_status(f"<current_cpu_time>{seconds}</current_cpu_time>\n")
    assert status.cpu_time == 0.0


def test_a_volunteer_s_configuration_is_read_up_to_a_number_of_entries():
    options = "".join(f"<exclusive_app>a{n}</exclusive_app>" for n in range(1500))
    config, _problems = read_client_config(f"<cc_config><options>{options}</options></cc_config>".encode())
    assert len(config.exclusive_apps) == 1000


def test_a_computer_tells_a_manager_of_no_more_kinds_of_gpus_than_any_has():
    coprocs = "<coproc_ati><name>n</name><count>1</count></coproc_ati>" * 20
    body = f"<acct_mgr_request><host_info><coprocs>{coprocs}</coprocs></host_info></acct_mgr_request>"
    assert len(parse_manager_request(body.encode()).coprocs) == 16


def test_a_reply_to_an_upload_says_no_more_than_a_client_logs():
    assert write_upload_reply(UploadStatus.PERMANENT_ERROR, "x" * 300).count(b"x" * 201) == 0
