"""What our client writes is read again as it was; whatever servers send gives a value or RemoteProtocolError."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.helpers.effort import times
from tests.helpers.wire_captures import recorded, scheduler_replies
from tests.properties.test_wire_properties import REPLY, REQUEST, damaged, in_order_of_types

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.project.pages import (
    canonical_master_url,
    folder_of,
    parse_project_config,
    scheduler_urls,
)
from cobblestone.wire.scheduler.job import safe_file_name
from cobblestone.wire.scheduler.reply import SchedulerReply, parse_scheduler_reply, write_scheduler_reply
from cobblestone.wire.scheduler.request import (
    SchedulerRequest,
    parse_scheduler_request,
    write_scheduler_request,
)
from cobblestone.wire.text.tree import MAX_DEPTH, read_tree

#: Making them is slow, and making a failing one smaller takes minutes.
BIG_VALUES = settings(
    max_examples=times(8),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[Phase.explicit, Phase.generate],
)
REPLIES = [message.body for message in scheduler_replies()]


#: Sizes of GPU memory go out in the unit of each maker, driver versions for one maker only, opaque data in CDATA.
NOT_COMPARED = ("leniences", "client_opaque", "ram", "driver_version")


def nearly(one: object, other: object) -> bool:
    """Equal but for what six decimals, or whole bytes, cannot carry."""
    if dataclasses.is_dataclass(one):
        names = [f.name for f in dataclasses.fields(one) if f.name not in NOT_COMPARED]
        return all(nearly(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(nearly, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= max(0.51, 1e-9 * abs(one))
    return one == other


@BIG_VALUES
@given(REQUEST)
def test_a_written_request_is_read_as_it_was(request: SchedulerRequest):
    read = parse_scheduler_request(write_scheduler_request(request))
    assert {lenience.where for lenience in read.leniences} <= {"result/exit_status"}
    assert nearly(in_order_of_types(read), in_order_of_types(request))
    assert request.client_opaque in read.client_opaque


@BIG_VALUES
@given(REPLY)
def test_a_written_reply_is_read_as_it_was(reply: SchedulerReply):
    read = parse_scheduler_reply(write_scheduler_reply(reply)).reply
    assert read.result_acks == reply.result_acks
    assert read.result_aborts == reply.result_aborts
    assert [file.name for file in read.files] == [file.name for file in reply.files]
    assert [file.nbytes for file in read.files] == [file.nbytes for file in reply.files]
    assert [file.file_signature.split() for file in read.files] == [
        f.file_signature.split() for f in reply.files
    ]
    assert [w.name for w in read.workunits] == [w.name for w in reply.workunits]
    for one, other in zip(read.results, reply.results, strict=True):
        assert (one.name, one.wu_name, one.version_num) == (other.name, other.wu_name, other.version_num)
        assert abs(one.report_deadline - other.report_deadline) <= 0.51
        assert [ref.file_name for ref in one.file_refs] == [ref.file_name for ref in other.file_refs]


@given(damaged(REPLIES))
def test_a_damaged_reply_gives_a_value_or_a_protocol_error(body: bytes):
    try:
        reply = parse_scheduler_reply(body).reply
    except RemoteProtocolError:
        return
    assert all(safe_file_name(file.name) for file in (*reply.files, *reply.output_files))


@given(st.binary(max_size=300))
def test_any_bytes_give_a_value_or_a_protocol_error(inner: bytes):
    for read in (parse_scheduler_reply, parse_project_config):
        try:
            read(b"<scheduler_reply>" + inner + b"</scheduler_reply>")
            read(b"<project_config>" + inner + b"</project_config>")
        except RemoteProtocolError:
            pass
    assert all(url.startswith("http") for url in scheduler_urls(inner))


@given(st.text(max_size=60))
def test_the_folder_of_a_project_is_one_plain_name(text: str):
    try:
        url = canonical_master_url(text)
    except RemoteProtocolError:
        return
    assert canonical_master_url(url) == url
    folder = folder_of(url)
    assert folder
    assert "/" not in folder
    assert not folder.startswith(".")


def test_a_deep_reply_is_refused_in_linear_time():
    with pytest.raises(RemoteProtocolError, match="deep"):
        read_tree(b"<scheduler_reply>" + b"<a>" * 100_000, "scheduler_reply")


@pytest.mark.parametrize("inner", [b"<a>", b"<a>1</a>"])
def test_elements_are_refused_beyond_the_same_depth_whatever_they_hold(inner: bytes):
    def reply(depth: int) -> bytes:
        return b"<r>" + b"<b>" * depth + inner + b"</b>" * depth + b"</r>"

    read_tree(reply(MAX_DEPTH - 2).replace(b"<a></b>", b"</b>"), "r")
    with pytest.raises(RemoteProtocolError, match="deep"):
        read_tree(reply(MAX_DEPTH - 1), "r")


def test_text_beside_quoted_tags_keeps_what_stands_between_its_own():
    top = read_tree(b"<r><t>one <b>two</b> <![CDATA[<c>]]></t></r>", "r")
    (node,) = top.children
    assert node.text == "one two &lt;c&gt;"


def test_a_name_in_a_reply_may_hold_what_real_projects_use():
    body = recorded("04", "reply").replace(b"shapp_wu1_in", b"w-c2_job+x=1@y(2),#3")
    assert "w-c2_job+x=1@y(2),#3" in [file.name for file in parse_scheduler_reply(body).reply.files]
