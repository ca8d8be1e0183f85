"""Remote job submission: a call is read as it was meant, damaged ones are refused, and every answer is XML."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from tests.helpers.remote_client import RemoteClient, element, job
from tests.properties.test_wire_properties import damaged

from cobblestone.domain.apps import App
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.job_form import InputSlot, JobForm
from cobblestone.domain.values import AppId
from cobblestone.domain.work import OutputSpec
from cobblestone.wire.project import remote_submission as wire
from cobblestone.wire.text.writer import printable

#: What a caller can put in without an escape: the family's programs know none.
PLAIN = st.text(
    st.characters(codec="utf-8", exclude_characters="<>&", exclude_categories=("C", "Z")), max_size=40
)
NAME = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="<>&"), min_size=1, max_size=60
)
ANY = st.text(st.characters(codec="utf-8"))
CALLER = RemoteClient(lambda *_args, **_options: pytest.fail("nothing is sent"), "f" * 32)
JOBS = st.lists(st.tuples(NAME, PLAIN, st.lists(NAME, max_size=3), st.integers(1, 10**17)), max_size=5)
CALLS = [
    CALLER.submit_text("sum", [job("a", "f1", "f2", line="--x 1"), job("b")], batch_id=7).encode(),
    CALLER.text(
        "query_batch2", element("batch_name", "a"), element("batch_name", "b"), min_mod_time=1.5
    ).encode(),
    CALLER.text("upload_files", element("phys_name", "a"), element("md5", "0" * 32), batch_id=1).encode(),
]


@given(NAME, st.integers(0, 2**31 - 1), JOBS)
def test_a_submission_is_read_as_it_was_meant(
    app: str, number: int, jobs: list[tuple[str, str, list[str], int]]
):
    written = [job(name, *files, line=line, rsc_fpops_est=f"{size}.0") for name, line, files, size in jobs]
    call = wire.parse_call(CALLER.submit_text(app, written, batch_id=number).encode())
    assert (call.action, call.authenticator, call.app_name, call.batch_id) == (
        "submit_batch",
        "f" * 32,
        app,
        number,
    )
    assert [
        (each.name, each.command_line, [file.source for file in each.files], each.rsc_fpops_est)
        for each in call.jobs
    ] == [(name, line, files, float(size)) for name, line, files, size in jobs]
    assert {file.mode for each in call.jobs for file in each.files} <= {"local_staged"}


@given(st.lists(st.tuples(st.sampled_from(["job_name", "phys_name", "md5"]), NAME), max_size=8))
def test_names_keep_their_order(names: list[tuple[str, str]]):
    call = wire.parse_call(CALLER.text("abort_jobs", *(element(*each) for each in names)).encode())
    assert call.names == tuple(("jf_" if tag == "md5" else "") + name for tag, name in names)


@given(damaged(CALLS))
def test_a_damaged_call_is_read_or_refused(body: bytes):
    try:
        call = wire.parse_call(body)
    except RemoteProtocolError:
        return
    assert len(call.jobs) <= wire.MAX_JOBS
    assert all(0 <= number < 1e19 for number in (call.batch_id, call.job_id, call.min_mod_time))
    for text in (call.authenticator, call.app_name, call.batch_name, *call.names):
        assert len(text) <= 260
        assert text == printable(text)


@given(st.sampled_from(["", "ping", "submit_batch"]), ANY)
def test_a_refusal_is_xml_whatever_it_says(action: str, message: str):
    root = etree.fromstring(wire.write_refusal(action, message))
    error = root if not action else root.find("error")
    assert error is not None
    assert error.tag == "error"
    assert error.findtext("error_num") == "-1"
    told = error.findtext("error_msg") or ""
    assert told.split() == printable(" ".join(message.split())).split()


@given(ANY, st.lists(NAME, max_size=3), st.lists(NAME, max_size=3))
def test_answers_are_xml_whatever_programs_write_and_files_are_called(
    text: str, inputs: list[str], outputs: list[str]
):
    app = App(id=AppId(1), name="sum", output_specs=tuple(OutputSpec(open_name=name) for name in outputs))
    form = JobForm(inputs=tuple(InputSlot(name="slot", open_name=name) for name in inputs))
    content = wire.write_element("job", ("name", text), inside=wire.write_stderr(text))
    root = etree.fromstring(wire.write_reply("query", content + wire.write_templates(app, form)))
    assert [each.text for each in root.iterfind(".//input_template//open_name")] == inputs
    assert [each.text for each in root.iterfind(".//output_template//open_name")] == outputs
    assert len(root.findall(".//stderr_out")) == 1


def test_a_value_that_is_cut_or_guessed_elsewhere_is_refused_here():
    for broken, fault in (
        (element("batch_id", "1e300"), "no possible number: 1e300"),
        (element("batch_id", "seven"), "no possible number: seven"),
        (element("min_mod_time", "nan"), "no possible number: nan"),
        (element("batch_name", "n" * 300), "too long: 300 "),
        (element("job_name", "n" * 300), "too long: 300 "),
        (element("batch_name", "a\x01b"), ""),
    ):
        with pytest.raises(RemoteProtocolError, match=rf"cannot be used \({fault}"):
            wire.parse_call(CALLER.text("query_batch", broken).encode())
