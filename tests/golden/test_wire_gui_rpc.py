"""GUI RPC: our answers against those recorded from the stock client, and who may ask what."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.wire_elements import read_elements

from cobblestone.domain.computing import ClientConfig
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.client import gui_rpc as answers
from cobblestone.wire.client.gui_rpc import (
    END,
    MAX_REQUEST,
    GuiRpcCall,
    GuiRpcConnection,
    GuiRpcReply,
    write_error,
    write_reply,
)
from cobblestone.wire.client.records import DailyCredit, ProjectRecord

RECORDED = Path(__file__).parent / "gui_rpc"
NONCE = "1795344493.768609"


def recorded(name: str) -> str:
    return (RECORDED / f"{name}.xml").read_text()


def framed(content: str) -> str:
    return write_reply(content).removesuffix(END).decode()


def request(operation: str) -> bytes:
    return f"<boinc_gui_rpc_request>\n{operation}\n</boinc_gui_rpc_request>\n".encode() + END


def connection(password: str = "secret", *, local: bool = True) -> GuiRpcConnection:
    return GuiRpcConnection(password=password, local=local, nonce=NONCE)


def proof(password: str = "secret") -> bytes:
    hashed = hashlib.md5((NONCE + password).encode()).hexdigest()
    return request(f"<auth2>\n<nonce_hash>{hashed}</nonce_hash>\n</auth2>")


URL = "http://127.0.0.1:55669/"
AUTO = answers.ModeStatus(mode=2, permanent=2)
SAME = {
    "get_cc_status": answers.cc_status(
        {"task": AUTO, "gpu": AUTO, "network": AUTO},
        network_status=0,
        bad_manager_password=False,
        config=ClientConfig(),
    ),
    "get_message_count": "<seqno>70</seqno>\n",
    "get_disk_usage": answers.disk_usage(
        [ProjectRecord(master_url=URL, authenticator="", disk_usage=94208.0)],
        total=270553174016.0,
        free=83233742848.0,
        used=90112.0,
        allowed=83223189749.759995,
    ),
    "get_file_transfers": answers.file_transfers([], 0.0),
    "get_notices": answers.notices([]),
    "get_old_results": answers.old_results([]),
    "get_daily_xfer_history": answers.daily_transfers([(20779, 5982.0, 59993.0)]),
    "get_statistics": answers.statistics(
        {
            URL: [
                DailyCredit(
                    day=1795305600.0,
                    user_total_credit=0,
                    user_expavg_credit=0,
                    host_total_credit=0,
                    host_expavg_credit=0,
                )
            ]
        }
    ),
    "exchange_versions": answers.client_version(
        answers.ClientIdentity(version=(7, 20, 5), platforms=("x86_64-pc-linux-gnu",))
    ),
    "get_proxy_settings": answers.proxy_settings({}),
    "acct_mgr_info": answers.manager_info(url="", name="", has_credentials=False),
    "project_attach_poll": answers.poll("project_attach_reply", 0),
    "acct_mgr_rpc_poll": answers.poll("acct_mgr_rpc_reply", 0),
    "project_suspend_bad": write_error("No such project"),
    "suspend_result_bad": write_error("no such result"),
}


@pytest.mark.parametrize("name", SAME)
def test_an_answer_is_the_stock_clients_byte_by_byte(name: str):
    assert framed(SAME[name]) == recorded(name)


def test_messages_are_written_as_recorded():
    (first,) = read_elements(recorded("get_messages")).all("msgs")
    body = "Starting BOINC client version 7.20.5 for x86_64-pc-linux-gnu"
    message = answers.LoggedMessage(seqno=1, time=1795344477.3, project="", priority=1, body=body)
    written = answers.messages([message])
    assert recorded("get_messages").startswith("<boinc_gui_rpc_reply>\n" + written.removesuffix("</msgs>\n"))
    assert first.all("msg")[0].get("body").strip() == body


# -- who may do what --------------------------------------------------------------------------------------


def test_the_right_password_opens_everything():
    peer = connection()
    (nonce,) = peer.receive_data(request("<auth1/>"))
    assert nonce == GuiRpcReply(recorded("auth1").encode() + END)
    (welcome,) = peer.receive_data(proof())
    assert welcome == GuiRpcReply(recorded("auth2").encode() + END)
    (call,) = peer.receive_data(
        request("<project_update>\n<project_url>http://x/</project_url>\n</project_update>")
    )
    assert isinstance(call, GuiRpcCall)
    assert (call.operation, call.arguments.text("project_url")) == ("project_update", "http://x/")


def test_the_wrong_password_closes_the_connection():
    peer = connection()
    peer.receive_data(request("<auth1/>"))
    (answer,) = peer.receive_data(proof("guess"))
    assert isinstance(answer, GuiRpcReply)
    assert b"unauthorized" in answer.data
    assert answer.close


def test_the_answer_without_the_question_is_worth_nothing():
    (answer,) = connection().receive_data(proof())
    assert answer == GuiRpcReply(write_reply("<unauthorized/>\n"), close=True)


@pytest.mark.parametrize("operation", ["quit", "project_detach", "set_run_mode", "get_global_prefs_working"])
def test_control_needs_the_password_and_the_second_try_ends_it(operation: str):
    peer = connection()
    first, second = (peer.receive_data(request(f"<{operation}/>"))[0] for _ in range(2))
    assert first == GuiRpcReply(write_reply("<unauthorized/>\n"))
    assert second == GuiRpcReply(write_reply("<unauthorized/>\n"), close=True)


def test_looking_is_free_on_this_computer_only():
    assert isinstance(connection().receive_data(request("<get_state/>"))[0], GuiRpcCall)
    assert isinstance(connection(local=False).receive_data(request("<get_state/>"))[0], GuiRpcReply)


def test_requests_may_come_in_pieces_and_several_at_once():
    peer = connection()
    data = request("<get_state/>") + request("<get_messages>\n<seqno>5</seqno>\n</get_messages>")
    found = [each for byte in data for each in peer.receive_data(bytes([byte]))]
    assert [each.operation for each in found if isinstance(each, GuiRpcCall)] == ["get_state", "get_messages"]
    assert [
        c.arguments.integer("seqno") for c in connection().receive_data(data) if isinstance(c, GuiRpcCall)
    ] == [0, 5]


def test_an_endless_request_is_refused():
    with pytest.raises(RemoteProtocolError):
        connection().receive_data(b"x" * (MAX_REQUEST + 1))


@given(
    st.lists(
        st.binary(max_size=60)
        | st.sampled_from([request("<auth1/>"), proof(), b"\x03", b"<boinc_gui_rpc_request>\n<"])
    )
)
def test_any_bytes_give_calls_that_are_open_or_answers(pieces: list[bytes]):
    peer = connection("a password that nobody guesses")
    for piece in pieces:
        for found in peer.receive_data(piece):
            if isinstance(found, GuiRpcCall):
                assert found.operation.startswith(("get_", "exchange_"))
