"""What our client writes and reads, against messages recorded from BOINC client 7.20.5 and its servers."""

from __future__ import annotations

import dataclasses
import re

import pytest
from tests.helpers.wire_captures import Recorded, messages, recorded, scheduler_replies, scheduler_requests

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.project.account import WebRpcError, write_web_rpc_error
from cobblestone.wire.project.pages import (
    WebRpcRefused,
    create_account_url,
    lookup_account_hash_url,
    parse_account_out,
    parse_project_config,
    scheduler_urls,
)
from cobblestone.wire.project.upload import (
    FileSizeQuery,
    FileUpload,
    UploadHeaderParser,
    parse_upload_reply,
    write_file_size_query,
    write_upload_header,
)
from cobblestone.wire.scheduler.reply import MessagePriority, parse_scheduler_reply, write_scheduler_reply
from cobblestone.wire.scheduler.request import parse_scheduler_request, write_scheduler_request

REQUESTS = scheduler_requests()
REPLIES = scheduler_replies()
each_request = pytest.mark.parametrize("recorded", REQUESTS, ids=[r.id for r in REQUESTS])
each_reply = pytest.mark.parametrize("recorded", REPLIES, ids=[r.id for r in REPLIES])


def lines_that_matter(body: bytes) -> list[str]:
    """Lines without the parts that a reader joins anyhow: an empty stderr, and line ends before a closing tag."""
    text = body.decode("latin-1").replace("<stderr_txt>\n\n</stderr_txt>\n", "")
    text = re.sub(r"\n+(</(?:message|error_msg|stderr_txt|msg_from_host)>)", r"\1", text)
    return re.sub(r"\n\s+(</msg_from_host>)", r"\1", text).splitlines()


@each_request
def test_a_recorded_request_is_written_again_line_by_line(recorded: Recorded) -> None:
    request = parse_scheduler_request(recorded.body)
    written = write_scheduler_request(request)
    assert lines_that_matter(written) == lines_that_matter(recorded.body)
    assert parse_scheduler_request(written) == request


@each_reply
def test_a_recorded_reply_is_read_without_lenience_and_means_the_same_when_we_write_it(
    recorded: Recorded,
) -> None:
    read = parse_scheduler_reply(recorded.body)
    assert read.leniences == ()
    reply = read.reply
    assert reply.master_url == "http://127.0.0.1:18080/mock/"
    again = parse_scheduler_reply(write_scheduler_reply(reply)).reply
    for field in dataclasses.fields(reply):
        if field.name not in ("user", "host"):
            assert getattr(again, field.name) == getattr(reply, field.name), field.name


def test_a_reply_with_work_is_read_to_the_last_field() -> None:
    reply = parse_scheduler_reply(recorded("04", "reply")).reply
    assert [result.name for result in reply.results] == ["shapp_wu1_0", "shapp_wu2_0"]
    assert reply.results[0].file_refs[0].open_name == "out"
    (program,) = (file for file in reply.files if file.executable)
    assert program.file_signature.startswith("115fe1cf")
    assert program.urls == ("http://127.0.0.1:18080/mock/download/shapp_100_x86_64-pc-linux-gnu",)
    assert reply.output_files[0].xml_signature.endswith(".")
    assert reply.app_versions[0].file_refs[0].main_program
    assert reply.workunits[1].file_refs[0].copy_file
    assert reply.host is not None
    assert (reply.host.id, reply.host.announce_id) == (1, True)
    assert reply.user is not None
    assert (reply.user.name, reply.user.team_name) == ("User alice", "Mock Team")
    assert reply.code_sign_key.startswith("1024\nbd22f153")
    assert "<max_cpus>2</max_cpus>" in reply.project_preferences


def test_messages_keep_their_priority_and_their_html() -> None:
    found = parse_scheduler_reply(recorded("14", "")).reply.messages
    assert found[2].priority is MessagePriority.NOTICE
    assert found[2].text == 'notice text & <a href="http://x/">link</a>'
    assert [m.text for m in found if m.priority is MessagePriority.HIGH] == ["high prio text"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", ".ssh", "a..b", "", "x" * 300, "a\\b"])
def test_a_name_that_could_leave_the_projects_folder_is_refused(name: str) -> None:
    body = recorded("04", "reply").replace(b"<name>shapp_wu1_in</name>", f"<name>{name}</name>".encode())
    with pytest.raises(RemoteProtocolError, match="cannot be a file's name"):
        parse_scheduler_reply(body)


@each_reply
def test_half_a_reply_is_no_reply(recorded: Recorded) -> None:
    for size in (10, len(recorded.body) // 2, len(recorded.body) - 20):
        with pytest.raises(RemoteProtocolError):
            parse_scheduler_reply(recorded.body[:size])


# -- uploads, accounts, front page ----------------------------------------------------------------------


def uploads() -> list[Recorded]:
    return [m for m in messages() if b"<file_upload>" in m.body and m.start_line.startswith("POST")]


@pytest.mark.parametrize("recorded", uploads(), ids=[r.id for r in uploads()])
def test_a_recorded_upload_header_is_written_again_byte_by_byte(recorded: Recorded) -> None:
    upload = UploadHeaderParser().receive_data(recorded.body)
    assert isinstance(upload, FileUpload)
    header = write_upload_header(upload)
    assert recorded.body.startswith(header)


def test_the_question_for_a_size_is_the_recorded_one() -> None:
    query = FileSizeQuery(name="big2_0_0", client_version=72005)
    assert write_file_size_query(query) == recorded("08", "size")
    assert parse_upload_reply(recorded("08", "1. reply")).file_size == 0
    assert parse_upload_reply(recorded("08", "3. reply")).file_size == 999311


def test_a_proxys_page_is_no_answer_to_an_upload() -> None:
    with pytest.raises(RemoteProtocolError, match="something else"):
        parse_upload_reply(b"<html><body>502 Bad Gateway</body></html>")


def test_account_answers_are_keys_or_reasons() -> None:
    assert parse_account_out(recorded("01", "create, reply")) == "0f0b4f3a1663f07c9bc615a80ff1bb5c"
    with pytest.raises(WebRpcRefused, match="already") as refused:
        parse_account_out(recorded("01", "taken"))
    assert refused.value.number == -137
    with pytest.raises(WebRpcRefused, match="holds one of <"):
        parse_account_out(write_web_rpc_error(WebRpcError.BAD_USER_NAME, "The user name holds one of < > &"))
    with pytest.raises(RemoteProtocolError):
        parse_account_out(b"<html>welcome to the wireless network of this hotel</html>")


def test_account_questions_are_the_recorded_ones() -> None:
    recorded_lines = [m.start_line for m in messages("01")]
    hashed = "a95fe6fe31caae9928ea8d6c8c4503d2"
    asked = create_account_url("/mock/", "carol@example.org", hashed, "Carol", consent=False)
    assert f"GET {asked.replace('.org', '%2Eorg')} HTTP/1.1" in recorded_lines
    asked = lookup_account_hash_url("/mock/", "alice@example.org", "564082f4c128f999f6df6f16ad8c4996")
    assert f"GET {asked.replace('.org', '%2Eorg')} HTTP/1.1" in recorded_lines


def test_the_configuration_and_the_schedulers_address_are_read() -> None:
    config = parse_project_config(recorded("02", "reply"))
    assert (config.name, config.master_url, config.min_passwd_length) == (
        "Mock Project",
        "http://127.0.0.1:18080/mock/",
        6,
    )
    assert [p.platform_name for p in config.platforms] == ["x86_64-pc-linux-gnu"]
    assert scheduler_urls(recorded("03", "reply")) == ("http://127.0.0.1:18080/mock_cgi/cgi",)
