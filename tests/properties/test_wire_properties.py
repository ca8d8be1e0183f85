"""Whatever comes in: a value or RemoteProtocolError.  Whatever goes out: readable, and the same when read again."""

from __future__ import annotations

import dataclasses
import math
import re
import string
import unicodedata
from collections.abc import Callable, Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.helpers.wire_captures import messages, recorded, scheduler_requests
from tests.helpers.wire_elements import read_elements
from tests.helpers.wire_requests import written_request

from cobblestone.domain.errors import CobblestoneError, LocalProtocolError, RemoteProtocolError
from cobblestone.domain.texts import markup_in
from cobblestone.wire.project.account import (
    AccountInfo,
    PublicHost,
    PublicUser,
    WebRpcFailure,
    fanout_directory,
    parse_am_get_info,
    parse_create_account,
    parse_lookup_account,
    write_am_get_info_reply,
    write_user_xml,
)
from cobblestone.wire.project.pages import ProjectConfig, RssChannel, RssItem, write_project_config, write_rss
from cobblestone.wire.project.preferences import (
    UserKeywords,
    parse_global_preferences,
    write_global_preferences,
)
from cobblestone.wire.project.signatures import (
    decode_public_key,
    upload_signature,
    verify_bytes,
    verify_upload_signature,
)
from cobblestone.wire.project.templates import BadTemplate, parse_input_template, parse_output_template
from cobblestone.wire.project.upload import (
    FileUpload,
    UploadHeaderParser,
    UploadStatus,
    legal_file_name,
    write_upload_reply,
)
from cobblestone.wire.scheduler.host import CoprocRequest, DiskUsage, HostInfo, NetStats, TimeStats
from cobblestone.wire.scheduler.reply import (
    AppBlock,
    FileInfo,
    FileRef,
    GuiUrl,
    HostBlock,
    Message,
    MessagePriority,
    ResultBlock,
    SchedulerReply,
    UserBlock,
    WorkunitBlock,
    write_scheduler_reply,
)
from cobblestone.wire.scheduler.report import (
    KEPT_STDERR,
    MsgFromHost,
    ReportedFile,
    ReportedResult,
    StickyFile,
    without_long_stderr,
)
from cobblestone.wire.scheduler.request import (
    ClientAppVersion,
    InProgressResult,
    OtherResult,
    SchedulerRequest,
    parse_scheduler_request,
)

REQUESTS = [message.body for message in scheduler_requests()]
UPLOADS = [message.body for message in messages("0") if b"<data_server_request>" in message.body]
TOKENS = [
    b"<", b">", b"</", b"<![CDATA[", b"]]>", b"&", b"\x00", b"\xff", b"<result>", b"</result>", b"<file_info>",
    b"<stderr_out>", b"</stderr_out>", b"<msg_from_host>", b"</scheduler_request>", b"<?xml", b"<!--", b"<a b='c'/>",
    b"<other_results>", b"</host_info>", b"nan", b"1e304", b"-1", b"&#0;", b"&#55296;", b"<coprocs>", b"<data>\n",
]  # fmt: skip


# -- damaged input ----------------------------------------------------------------------------------------


@st.composite
def damaged(draw: st.DrawFn, originals: list[bytes]) -> bytes:
    """A recorded message with a few pieces cut out, repeated, moved or replaced."""
    body = draw(st.sampled_from(originals))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(body)))
        end = min(len(body), start + draw(st.sampled_from([0, 1, 5, 40, 400, 4000])))
        piece = body[start:end]
        new = draw(
            st.one_of(st.just(b""), st.just(piece * 2), st.binary(max_size=8), st.sampled_from(TOKENS))
        )
        body = body[:start] + new + body[end:]
    return body


def finite_numbers(value: object) -> Iterator[float]:
    """All numbers inside a value."""
    if isinstance(value, bool) or value is None:
        return
    if isinstance(value, int | float):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from finite_numbers(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from finite_numbers(getattr(value, field.name))


def texts(value: object) -> Iterator[str]:
    """All texts inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from texts(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from texts(getattr(value, field.name))


def check_request(body: bytes) -> None:
    try:
        request = parse_scheduler_request(body)
    except RemoteProtocolError as error:
        assert error.reply_hint  # noqa: PT017  # both outcomes are checked
        return
    assert all(math.isfinite(number) and -(2**62) <= number <= 1e30 for number in finite_numbers(request))
    for text in texts(request):
        assert "\x00" not in text
        assert len(text) <= 64 * 1024 + 100
        text.encode()  # no lone surrogates
    assert len({r.name for r in request.results}) == len(request.results)
    assert all(r.name for r in request.results)
    assert len(request.leniences) <= 100


@given(damaged(REQUESTS))
def test_a_damaged_request_gives_a_value_or_a_protocol_error(body: bytes):
    check_request(body)


@given(st.sampled_from(REQUESTS), st.integers(0, 20_000))
def test_a_chopped_request_is_never_taken_for_a_whole_one(body: bytes, length: int):
    chopped = body.rstrip()[:length]
    if len(chopped) < len(body.rstrip()):
        with pytest.raises(RemoteProtocolError):
            parse_scheduler_request(chopped)


@given(
    st.sampled_from(REQUESTS), st.binary(max_size=40).filter(lambda b: b"<" not in b), st.binary(max_size=40)
)
def test_bytes_around_a_request_do_not_matter(body: bytes, before: bytes, after: bytes):
    expected = parse_scheduler_request(body)
    if b"scheduler_request" not in after:
        assert parse_scheduler_request(before + body + after) == expected


@given(st.binary(max_size=300))
def test_arbitrary_bytes_within_a_request_give_a_value_or_a_protocol_error(inner: bytes):
    check_request(b"<scheduler_request>\n" + inner + b"\n</scheduler_request>\n")


@given(
    st.lists(
        st.one_of(
            st.sampled_from(TOKENS), st.sampled_from([b"hostid>", b"1", b"name>", b"stderr_out>", b" "])
        ),
        max_size=40,
    )
)
def test_any_sequence_of_tags_gives_a_value_or_a_protocol_error(tokens: list[bytes]):
    check_request(b"<scheduler_request>\n" + b"".join(tokens) + b"\n</scheduler_request>\n")


@given(
    st.binary(max_size=2000).filter(
        lambda text: b"</stderr_out>" not in text and b"</stderr_txt>" not in text
    )
)
@example(b"]]>")
@example(b"<stderr_out>")
@example(b"</result>\n<result>\n<name>forged</name>\n</result>\n<result>")
def test_whatever_a_program_prints_stays_in_its_stderr(printed: bytes):
    body = REQUESTS[2]
    whole = parse_scheduler_request(body)
    start = body.index(b"<stderr_txt>\n") + len(b"<stderr_txt>\n")
    end = body.index(b"\n</stderr_txt>", start)
    request = parse_scheduler_request(body[:start] + printed + body[end:])
    first = dataclasses.replace(request.results[0], stderr=whole.results[0].stderr)
    assert dataclasses.replace(request, results=(first, *request.results[1:])) == whole


@given(damaged(UPLOADS), st.integers(1, 400))
def test_a_damaged_upload_gives_a_message_or_a_protocol_error(body: bytes, size: int):
    parser = UploadHeaderParser()
    try:
        message = None
        for at in range(0, len(body), size):
            message = parser.receive_data(body[at : at + size])
            if message:
                break
        message = message or parser.end_of_body()
    except RemoteProtocolError:
        return
    assert legal_file_name(message.name)
    if isinstance(message, FileUpload):
        assert 0 <= message.offset <= message.nbytes <= 2**50


@given(st.text(max_size=300))
@example("email_addr=a@b.org&passwd_hash=%00&user_name=%ff")
def test_any_query_gives_a_value_or_a_web_rpc_failure(query: str):
    for parse in (parse_lookup_account, parse_create_account, parse_am_get_info):
        _value_or(parse, query, WebRpcFailure)


@given(
    st.text(max_size=300),
    st.sampled_from(["<input_template>{}</input_template>", "<output_template>{}</output_template>", "{}"]),
)
def test_any_text_gives_a_template_or_a_reason_why_not(text: str, frame: str):
    for parse in (parse_input_template, parse_output_template):
        _value_or(parse, frame.format(text), BadTemplate)


def _value_or(parse: Callable[[str], object], text: str, error: type[CobblestoneError]) -> None:
    try:
        assert parse(text) is not None
    except error as caught:
        assert str(caught)  # noqa: PT017  # both outcomes are checked


@given(st.text(max_size=40))
def test_the_fanout_directory_is_always_a_small_hex_number(name: str):
    assert int(fanout_directory(name, 1024), 16) < 1024


@given(st.text())
def test_no_legal_file_name_leaves_its_folder(name: str):
    if legal_file_name(name):
        assert set(name) <= set(string.ascii_letters + string.digits + "_-.~")
        assert ".." not in name
        assert not name.startswith(".")


@given(st.binary(max_size=200), st.text(max_size=300))
def test_only_the_known_signature_fits_the_known_key(data: bytes, signature: str):
    key = decode_public_key(read_elements(recorded("04", "reply")).get("code_sign_key"))
    assert not verify_bytes(key, data, signature)


@given(
    st.binary(min_size=1, max_size=32),
    st.text("abc_.", min_size=1, max_size=20),
    st.integers(0, 2**50),
    st.text(max_size=300),
)
def test_an_upload_signature_fits_itself_and_nothing_else(secret: bytes, name: str, size: int, other: str):
    signature = upload_signature(secret, name, size)
    assert verify_upload_signature(secret, name, size, signature)
    assert verify_upload_signature(secret, name, size, other) == (
        "".join(other.split()) == "".join(signature.split())
    )
    assert not verify_upload_signature(secret, name, size + 1, signature)


# -- round trips ------------------------------------------------------------------------------------------

LINE = st.text(st.characters(categories=("L", "N", "P", "S"), include_characters=" "), max_size=30).map(
    str.strip
)
NAME = st.text(string.ascii_letters + string.digits + "_-.~", min_size=1, max_size=40)
FILE_NAME = NAME.filter(legal_file_name)
SIZE = st.floats(0, 1e18, allow_nan=False)
TIME = st.floats(0, 1e11)
FRACTION = st.floats(0, 1)
COUNT = st.integers(0, 2**31 - 1)
#: What ends a free text, or is read as something else; the rest of what a program may print is tried elsewhere.
ENDS = ("</stderr", "</msg_from_host>", "<variety>", "<message>", "<stderr_txt>", "&#")
FREE = (
    st.text(st.characters(categories=("L", "N", "P", "S"), include_characters=" \n\t"), max_size=80)
    .map(str.strip)
    .filter(lambda text: not any(end in text for end in ENDS))
)


def values(cls: type, **fields: object) -> st.SearchStrategy:
    """Values of a message class: numbers and texts by their annotation, others as given."""
    given_fields = {}
    for field in dataclasses.fields(cls):
        by_type = {"float": SIZE, "int": st.integers(0, 100_000), "str": LINE, "bool": st.booleans()}
        if field.name in fields:
            given_fields[field.name] = fields[field.name]
        elif field.type in by_type:
            given_fields[field.name] = by_type[field.type]
    return st.builds(cls, **given_fields)


def tuples(strategy: st.SearchStrategy, size: int = 3) -> st.SearchStrategy:
    return st.lists(strategy, max_size=size).map(tuple)


def unique_by_name(strategy: st.SearchStrategy, size: int = 3) -> st.SearchStrategy:
    return st.lists(strategy, max_size=size, unique_by=lambda value: value.name).map(tuple)


TIMES = {field.name: TIME for field in dataclasses.fields(TimeStats) if not field.name.endswith("frac")}
FRACTIONS = {field.name: FRACTION for field in dataclasses.fields(TimeStats) if field.name.endswith("frac")}
FILES = values(ReportedFile, name=NAME, error_msg=st.sampled_from(["", "permanent upload error"]))
RESULTS = values(
    ReportedResult,
    name=NAME.filter(lambda name: not name.startswith(("upload_", "download_"))),
    final_cpu_time=TIME,
    final_elapsed_time=TIME,
    exit_status=st.just(0),
    exit_status_present=st.booleans(),
    state=st.integers(0, 7),
    stderr=FREE,
    error_message=FREE,
    files=tuples(FILES),
).flatmap(
    lambda result: st.integers(-(2**31), 2**31 - 2).map(
        lambda status: dataclasses.replace(result, exit_status=status if result.exit_status_present else 0)
    )
)
TRANSFERS = values(ReportedResult, name=NAME.map("upload_{}".format), state=st.integers(0, 7), stderr=st.just(""),
                   error_message=st.just(""), exit_status=st.just(0), files=st.just(()), final_cpu_time=TIME,
                   final_elapsed_time=TIME)  # fmt: skip
COPROCS = st.lists(
    values(
        CoprocRequest,
        type=st.sampled_from(["NVIDIA", "ATI", "intel_gpu", "apple_gpu", "fpga"]),
        count=st.integers(1, 8),
        ram=st.floats(1, 1e12),
        req_instances=st.floats(0, 1e5),
    ),
    max_size=3,
    unique_by=lambda coproc: coproc.type,
).map(tuple)
VERSIONS = values(ClientAppVersion, app_name=NAME, avg_ncpus=st.floats(0, 1e5), coproc_type=st.sampled_from(["", "NVIDIA"]),
                  coproc_count=st.just(0.0))  # fmt: skip
REQUEST = values(
    SchedulerRequest,
    authenticator=NAME,
    hostid=st.integers(0, 2**50),
    client_version=st.just(72005),
    client_version_text=st.just("7.20.5"),
    resource_share_fraction=FRACTION,
    rrs_fraction=FRACTION,
    prrs_fraction=FRACTION,
    duration_correction_factor=st.floats(0, 1e6),
    work_req_seconds=TIME,
    cpu_req_secs=TIME,
    cpu_req_instances=st.floats(0, 1e5),
    cpu_estimated_delay=TIME,
    platforms=st.lists(NAME, max_size=3, unique=True).map(tuple),
    code_sign_key=st.sampled_from(["", "1024\nab\n."]),
    global_preferences=st.just(parse_global_preferences(write_global_preferences({"mod_time": 5.0}))),
    time_stats=values(TimeStats, **TIMES, **FRACTIONS),
    net_stats=values(NetStats, avg_time_up=TIME, avg_time_down=TIME),
    host_info=values(
        HostInfo, timezone=st.integers(-86400, 86400), p_ncpus=st.integers(1, 1000), p_calculated=TIME
    ),
    disk_usage=values(DiskUsage),
    coprocs=COPROCS,
    results=unique_by_name(RESULTS),
    results_truncated=st.just(False),
    file_transfer_results=unique_by_name(TRANSFERS),
    trickles=tuples(values(MsgFromHost, result_name=NAME, time=TIME, variety=NAME, text=FREE)),
    trickles_truncated=st.just(False),
    sticky_files=tuples(values(StickyFile, name=NAME, status=st.integers(-300, 1))),
    app_versions=tuples(VERSIONS),
    other_results=tuples(values(OtherResult, name=NAME, app_version=st.integers(-1, 1000))),
    other_results_listed=st.just(True),
    in_progress_results=tuples(
        values(
            InProgressResult,
            name=NAME,
            report_deadline=TIME,
            time_remaining=TIME,
            avg_ncpus=st.floats(0, 1e5),
        )
    ),
    client_opaque=FREE,
    user_keywords=st.builds(UserKeywords, tuples(st.integers(0, 999_999_999)), tuples(st.integers(0, 55))),
    leniences=st.just(()),
)


def in_order_of_types(request: SchedulerRequest) -> SchedulerRequest:
    return dataclasses.replace(
        request, coprocs=tuple(sorted(request.coprocs, key=lambda coproc: coproc.type))
    )


@given(REQUEST)
def test_a_request_survives_writing_and_reading(request: SchedulerRequest):
    read = parse_scheduler_request(written_request(request))
    # A missing exit status is the only thing to be noted here.
    assert {lenience.where for lenience in read.leniences} <= {"result/exit_status"}
    assert in_order_of_types(dataclasses.replace(read, leniences=())) == in_order_of_types(request)


@given(REQUEST)
def test_the_general_parser_reads_the_same_as_the_quick_scan(request: SchedulerRequest):
    body = written_request(request)
    quick = parse_scheduler_request(body)
    general = parse_scheduler_request(body.replace(b"<hostid>", b"<!-- x --><hostid>", 1))
    assert in_order_of_types(dataclasses.replace(general, leniences=())) == in_order_of_types(
        dataclasses.replace(quick, leniences=())
    )


#: With control characters and lone surrogates, which databases and JSON may hand to us.
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=40)
MESSAGES = st.builds(
    Message, text=ANY_TEXT | ANY_TEXT.map(lambda text: text * 40), priority=st.sampled_from(MessagePriority)
)
#: What clients write into their state as it is; texts that they would lose are refused, which is tried elsewhere.
KEPT_LINE = LINE.filter(lambda text: not markup_in(text))
KEPT_TEXT = ANY_TEXT.filter(lambda text: not markup_in(text))
REFS = tuples(
    st.builds(
        FileRef, file_name=FILE_NAME, open_name=KEPT_LINE, copy_file=st.booleans(), optional=st.booleans()
    )
)
HEX = st.sampled_from(["", "ab" * 32 + "\n."])
FINITE = st.floats(-1e15, 1e15)
REPLY = st.builds(
    SchedulerReply,
    master_url=KEPT_LINE,
    request_delay=st.floats(0, 1e6),
    messages=tuples(MESSAGES),
    project_name=LINE,
    user=st.builds(UserBlock, id=COUNT, name=ANY_TEXT, total_credit=FINITE, expavg_credit=FINITE, team_id=COUNT,
                   team_name=ANY_TEXT),
    host=st.builds(HostBlock, id=COUNT, total_credit=FINITE, venue=LINE, announce_id=st.booleans()),
    result_acks=tuples(NAME),
    result_aborts=tuples(NAME),
    apps=tuples(st.builds(AppBlock, name=FILE_NAME, user_friendly_name=ANY_TEXT)),
    files=tuples(st.builds(FileInfo, name=FILE_NAME, urls=tuples(KEPT_LINE), nbytes=COUNT, md5_cksum=NAME, sticky=st.booleans(),
                           executable=st.booleans(), file_signature=HEX)),
    workunits=tuples(st.builds(WorkunitBlock, name=FILE_NAME, app_name=NAME, rsc_fpops_est=SIZE, rsc_fpops_bound=SIZE,
                               rsc_memory_bound=SIZE, rsc_disk_bound=SIZE, command_line=KEPT_TEXT, file_refs=REFS)),
    results=tuples(st.builds(ResultBlock, name=FILE_NAME, wu_name=NAME, platform=NAME, version_num=COUNT, report_deadline=TIME,
                             file_refs=REFS)),
    gui_urls=tuples(st.builds(GuiUrl, name=ANY_TEXT, description=LINE, url=KEPT_LINE)),
)  # fmt: skip


def kept(text: str) -> str:
    """What of a text XML can hold, white space apart, which becomes spaces."""
    return "".join(
        c
        for c in text
        if not c.isspace() and unicodedata.category(c) not in ("Cc", "Cs") and c not in "\ufffe\uffff"
    )


def same_text(one: str, other: str) -> bool:
    return kept(one) == kept(other)


@given(REPLY)
def test_a_reply_can_be_read_and_holds_what_was_given(reply: SchedulerReply):
    data = write_scheduler_reply(reply)
    root = read_elements(data)
    assert reply.user is not None
    assert reply.host is not None
    assert same_text(root.get("user_name"), reply.user.name)
    assert float(root.get("user_total_credit")) == pytest.approx(reply.user.total_credit, abs=1e-6)
    assert root.has("hostid") == reply.host.announce_id
    assert [e.get("name") for e in root.all("result_ack")] == list(reply.result_acks)
    assert [e.get("name") for e in root.all("file_info")] == [file.name for file in reply.files]
    for element, workunit in zip(root.all("workunit"), reply.workunits, strict=True):
        assert same_text(element.get("command_line"), workunit.command_line)
        assert float(element.get("rsc_fpops_est")) == pytest.approx(workunit.rsc_fpops_est, abs=1e-6)
        assert [ref.get("file_name") for ref in element.all("file_ref")] == [
            ref.file_name for ref in workunit.file_refs
        ]
    for element, result in zip(root.all("result"), reply.results, strict=True):
        assert abs(int(element.get("report_deadline")) - result.report_deadline) <= 0.5
    for element, message in zip(root.all("message"), reply.messages, strict=True):
        if len(message.text.encode("utf-8", "replace")) < 150:
            assert same_text(element.text, message.text)
    assert all(len(line) < 1100 for line in data.split(b"\n") if line.startswith(b"<message"))


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_reply_is_written_exactly_when_its_numbers_are_finite(credit: float):
    reply = SchedulerReply(master_url="", user=UserBlock(id=1, name="", total_credit=credit))
    if math.isfinite(credit):
        assert float(read_elements(write_scheduler_reply(reply)).get("user_total_credit")) == pytest.approx(
            credit, abs=1e-6
        )
    else:
        with pytest.raises(LocalProtocolError):
            write_scheduler_reply(reply)


@given(st.sampled_from(UploadStatus), st.none() | st.text(max_size=400), st.none() | COUNT)
def test_an_upload_reply_can_be_read(status: UploadStatus, message: str | None, size: int | None):
    root = read_elements(write_upload_reply(status, message, size))
    assert int(root.get("status")) == status
    assert root.has("message") == (message is not None)
    assert root.get("file_size") == ("" if size is None else str(size))


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_no_text_breaks_the_pages_that_it_is_put_into(one: str, two: str, three: str):
    item = RssItem(title=one, guid=two, published=1e9, description=three, link=one)
    feed = read_elements(
        write_rss(RssChannel(title=one, link=two, description=three, items=(item,)), built=0.0)
    )
    assert same_text(feed.path("channel", "item").get("description"), three)
    config = ProjectConfig(name=one, master_url=two, terms_of_use=three)
    assert same_text(read_elements(write_project_config(config)).get("name"), one)
    user = PublicUser(id=1, cpid="", create_time=0.0, name=one, country=two, url=three)
    assert same_text(read_elements(write_user_xml(user, [PublicHost(id=1, p_model=two)])).get("url"), three)
    assert read_elements(write_am_get_info_reply(AccountInfo(id=1, name=one, country=two))).has("success")


@given(
    st.lists(
        st.sampled_from(["<stderr_out>", "</stderr_out>", "x" * 700, "é" * 900, "<result>"]), max_size=40
    )
)
def test_nothing_but_the_middle_of_stderr_is_left_out(parts: list[str]):
    body = "".join(parts).encode()
    short = without_long_stderr(body)
    assert without_long_stderr(short) == short
    longest = KEPT_STDERR * 2 + len(b"\n[...]\n</stderr_out>")
    at = 0
    for piece in short.split(b"\n[...]\n"):
        at = body.index(piece, at) + len(piece)
    assert at == len(body)
    if b"<stderr_out>" not in body:
        assert short == body
    for text in re.findall(rb"<stderr_out>.*?</stderr_out>", short):
        assert len(text) <= longest
