"""Reading scheduler requests: what clients send, and what nobody should send."""

from __future__ import annotations

import contextlib
import dataclasses
import re

import pytest
from tests.helpers.wire_captures import recorded
from tests.helpers.wire_requests import written_request

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.server.scheduler.reports import refused_figures
from cobblestone.wire.scheduler import request_layout
from cobblestone.wire.scheduler.host import (
    ALWAYS_SENT,
    CoprocRequest,
    DiskUsage,
    HostInfo,
    NetStats,
    TimeStats,
    write_disk_usage,
    write_host_info,
    write_net_stats,
    write_time_stats,
)
from cobblestone.wire.scheduler.report import StickyFile
from cobblestone.wire.scheduler.request import (
    InProgressResult,
    OtherResult,
    SchedulerRequest,
    parse_scheduler_request,
)
from cobblestone.wire.text.reader import LenienceKind

NO_WORK = recorded("05", "request")
REPORT = recorded("10", "request")


def with_top(*elements: str, base: bytes = NO_WORK) -> bytes:
    """A recorded request with more elements at its top."""
    return base.replace(b"<other_results>", "\n".join(elements).encode() + b"\n<other_results>")


def with_text(element: str, text: str, base: bytes = NO_WORK) -> bytes:
    """A recorded request with another text in the first element of that name."""
    changed, count = re.subn(
        rf"<{element}>[^<]*</{element}>".encode(),
        lambda _: f"<{element}>{text}</{element}>".encode(),
        base,
        count=1,
    )
    assert count == 1
    return changed


BLOCKS = (
    write_time_stats(TimeStats())
    + write_net_stats(NetStats())
    + write_host_info(HostInfo())
    + write_disk_usage(DiskUsage())
)


def minimal(inner: str = "", blocks: str = BLOCKS) -> bytes:
    """A request with little but what a test is about."""
    top = "<authenticator>key</authenticator>\n"
    return f"<scheduler_request>\n{top}{blocks}{inner}</scheduler_request>\n".encode()


def kinds(request: SchedulerRequest) -> set[LenienceKind]:
    return {lenience.kind for lenience in request.leniences}


def reported(
    stderr: str = "", rest: str = "<exit_status>0</exit_status>\n<state>5</state>\n", name: str = "r_0"
) -> str:
    return f"<result>\n<name>{name}</name>\n{rest}{stderr}</result>\n"


# -- what clients send ------------------------------------------------------------------------------------


def test_the_parts_of_a_recorded_request_are_read():
    request = parse_scheduler_request(NO_WORK)
    assert request.authenticator == "a" * 32
    assert (request.hostid, request.rpc_seqno) == (1, 0)
    assert (request.client_version, request.client_version_text) == (72005, "7.20.5")
    assert request.work_req_seconds == request.cpu_req_secs == 3454.419737
    assert request.platforms == ("x86_64-pc-linux-gnu",)
    assert request.code_sign_key.startswith("1024\nbd22f153")
    assert request.code_sign_key.endswith("10001\n.")
    assert request.working_global_preferences is not None
    assert request.working_global_preferences.ram_max_used_busy_pct == 90
    assert request.global_preferences is None
    assert request.time_stats.connected_frac == -1
    assert request.net_stats.bwup == 671857.494959
    assert request.host_info.os_version == "Debian GNU/Linux 12 (bookworm) [6.1.0-generic|libc 2.36]"
    assert request.host_info.p_ncpus == 2
    assert request.disk_usage.d_project_share == 79e9
    assert [(v.app_name, v.version_num, v.api_version) for v in request.app_versions] == [
        ("shapp", 100, "7.20.5")
    ]
    assert [job.name for job in request.other_results] == ["shapp_wu2_0", "shapp_wu1_0"]
    assert request.other_results_listed
    assert request.wants_work
    assert request.leniences == ()


def test_reports_of_all_kinds_are_read():
    request = parse_scheduler_request(REPORT)
    assert [(r.name, r.exit_status, r.state) for r in request.results] == [
        ("pyapp_wu4_0", 0, 5),
        ("failapp_wu5_0", 7, 3),
        ("apiapp_wu7_0", 0, 5),
        ("plain_wu6_0", 0, 5),
        ("nofin_wu3_0", 203, 6),
    ]
    failed = request.results[1]
    assert failed.error_message == "process exited with code 7 (0x7, -249)"
    assert failed.stderr == "about to fail"
    assert request.results[2].files[0].md5_cksum == "67456c32d053aa32cfa7747949030320"
    (trickle,) = request.trickles
    assert (trickle.result_name, trickle.time, trickle.variety) == ("apiapp_wu7_0", 1795230273, "mockvariety")
    assert trickle.text == "<progress>half way</progress>"


def test_tags_in_the_stderr_of_one_job_do_not_become_elements_of_the_request():
    first = parse_scheduler_request(REPORT).results[0]
    assert "<authenticator>" in first.stderr
    assert "<host_info>" in first.stderr
    assert parse_scheduler_request(REPORT).host_info.p_membw == 1e9


def test_a_refused_upload_is_read_beside_exit_status_0_and_state_5():
    (result,) = parse_scheduler_request(recorded("26", "request")).results
    assert (result.exit_status, result.state) == (0, 5)
    assert result.files[0].error_msg == "permanent upload error"


def test_the_message_of_a_download_error_names_the_file():
    (result,) = parse_scheduler_request(recorded("27", "wrong checksum")).results
    assert (result.exit_status, result.state) == (-186, 1)
    assert "<file_name>md5bad_in</file_name>" in result.error_message
    assert "-119 (md5 checksum failed for file)" in result.error_message


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("\n1024\nab\n.\n", "1024\nab\n."),
        ("1024\r\nab\r\n.", "1024\nab\n."),
        ("", ""),
        ("1024\nax\x00\n.", "1024\na??\n."),
        ("1" * 5000, "1" * 4096),
    ],
)
def test_the_key_that_the_client_holds_is_read_without_white_space_at_its_ends(sent: str, read: str):
    assert parse_scheduler_request(with_text("code_sign_key", sent)).code_sign_key == read


def test_sticky_files_are_read():
    request = parse_scheduler_request(recorded("16", "sticky"))
    assert request.sticky_files == (StickyFile(name="stk1_in", nbytes=12, status=1),)


def test_a_report_without_exit_status_counts_as_status_0():
    (result,) = parse_scheduler_request(minimal(reported(rest="<state>5</state>\n"))).results
    assert (result.exit_status, result.exit_status_present) == (0, False)


def test_an_unreadable_exit_status_counts_as_missing():
    (result,) = parse_scheduler_request(minimal(reported(rest="<exit_status>ok</exit_status>\n"))).results
    assert (result.exit_status, result.exit_status_present) == (0, False)


def test_the_second_report_of_a_name_is_dropped():
    twice = minimal(reported(rest="<exit_status>1</exit_status>\n") + reported())
    request = parse_scheduler_request(twice)
    assert [r.exit_status for r in request.results] == [1]
    assert LenienceKind.DUPLICATE in kinds(request)


def test_reports_of_file_transfers_are_kept_apart():
    body = minimal(reported() + reported(name="upload_x_1") + reported(name="download_y_2"))
    request = parse_scheduler_request(body)
    assert [r.name for r in request.results] == ["r_0"]
    assert [r.name for r in request.file_transfer_results] == ["upload_x_1", "download_y_2"]


def test_a_report_without_name_is_dropped():
    request = parse_scheduler_request(minimal("<result>\n<state>5</state>\n</result>\n"))
    assert request.results == ()
    assert LenienceKind.NAMELESS in kinds(request)


def test_without_list_of_jobs_in_progress_none_can_be_missed():
    request = parse_scheduler_request(
        NO_WORK[: NO_WORK.index(b"<other_results>")] + b"</scheduler_request>\n"
    )
    assert (request.other_results, request.other_results_listed) == ((), False)


def test_an_empty_list_of_jobs_in_progress_is_a_list():
    request = parse_scheduler_request(minimal("<other_results>\n</other_results>\n"))
    assert (request.other_results, request.other_results_listed) == ((), True)


def test_alternate_platforms_follow_the_primary_one():
    alternates = "".join(
        f"<alt_platform><name>{n}</name></alt_platform>" for n in ("i686", "x86_64-pc-linux-gnu", "arm")
    )
    request = parse_scheduler_request(with_top(alternates))
    assert request.platforms == ("x86_64-pc-linux-gnu", "i686", "arm")


def test_gpus_are_read_with_their_requests():
    cuda = (
        "<coproc_cuda>\n<count>2</count>\n<name>GeForce</name>\n<available_ram>4e9</available_ram>\n"
        "<have_cuda>1</have_cuda>\n<have_opencl>1</have_opencl>\n<req_secs>100</req_secs>\n"
        "<req_instances>1.5</req_instances>\n<estimated_delay>-1</estimated_delay>\n<peak_flops>5e12</peak_flops>\n"
        "<drvVersion>53512</drvVersion>\n<totalGlobalMem>6e9</totalGlobalMem>\n"
        "<coproc_opencl>\n<name>other name</name>\n<opencl_device_version>OpenCL 3.0</opencl_device_version>\n"
        "</coproc_opencl>\n<pci_info>\n<bus_id>1</bus_id>\n</pci_info>\n</coproc_cuda>\n"
    )
    ati = "<coproc_ati>\n<count>1</count>\n<name>Radeon</name>\n<localRAM>1024</localRAM>\n</coproc_ati>\n"
    own = "<coproc>\n<type>fpga</type>\n<count>3</count>\n</coproc>\n"
    request = parse_scheduler_request(with_top(f"<coprocs>\n{cuda}{ati}{own}</coprocs>"))
    assert request.leniences == ()
    assert request.coprocs == (
        CoprocRequest(
            type="NVIDIA", count=2, name="GeForce", peak_flops=5e12, ram=6e9, available_ram=4e9, driver_version=53512,
            have_opencl=True, opencl_device_version="OpenCL 3.0", req_secs=100, req_instances=1.5,
        ),
        CoprocRequest(type="ATI", name="Radeon", ram=2**30),
        CoprocRequest(type="fpga", count=3),
    )  # fmt: skip


def test_a_gpu_request_alone_is_a_wish_for_work():
    gpu = CoprocRequest(type="NVIDIA", req_secs=5)
    request = SchedulerRequest(authenticator="", coprocs=(gpu,))
    assert request.wants_work
    assert not dataclasses.replace(request, dont_send_work=True).wants_work
    assert not dataclasses.replace(request, coprocs=()).wants_work


def test_the_whole_queue_is_read_when_it_was_asked_for():
    job = "<ip_result>\n<name>a</name>\n<report_deadline>5</report_deadline>\n<time_remaining>7</time_remaining>\n</ip_result>"
    request = parse_scheduler_request(with_top(f"<in_progress_results>\n{job}\n</in_progress_results>"))
    assert request.in_progress_results == (InProgressResult(name="a", report_deadline=5, time_remaining=7),)


def test_opaque_data_of_an_account_manager_is_taken_verbatim():
    request = parse_scheduler_request(with_top("<client_opaque>\n<x a='1'>&y</x>\n</client_opaque>"))
    assert request.client_opaque == "<x a='1'>&y</x>"


@pytest.mark.parametrize(
    ("content", "yes", "no"),
    [
        ("\n   <yes>1</yes>\n   <no>14</no>\n   <yes>9</yes>\n", (1, 9), (14,)),
        ("<user_keywords><no>3</no>", (), (3,)),  # as in the layout of older clients
        ("<yes>-1</yes><yes>x</yes><no>1e9</no><yes>99999999999</yes><yes/>", (), ()),
        ("<yes>1</yes>" * 100_000, (1,) * 833, ()),
    ],
)
def test_keywords_of_an_account_manager_are_read_within_bounds(
    content: str, yes: tuple[int, ...], no: tuple[int, ...]
):
    request = parse_scheduler_request(with_top(f"<user_keywords>{content}</user_keywords>"))
    assert (request.user_keywords.yes, request.user_keywords.no) == (yes, no)


@pytest.mark.parametrize("block", ["time_stats_log", "job_log", "daily_xfer_history", "user_keywords"])
def test_blocks_of_no_use_to_us_are_jumped_over(block: str):
    request = parse_scheduler_request(with_top(f"<{block}>\n<hostid>9</hostid> & <\x00\n</{block}>"))
    assert request.hostid == 1
    assert request.leniences == ()


def test_everything_the_messages_hold_survives_writing_and_reading():
    """The property test does this for arbitrary values; here is one full example that can be looked at."""
    request = parse_scheduler_request(REPORT)
    again = parse_scheduler_request(written_request(request))
    assert again == request


# -- free texts that programs write -----------------------------------------------------------------------


def stderr_out(text: bytes) -> bytes:
    return (
        b"<stderr_out>\n<core_client_version>7.20.5</core_client_version>\n<![CDATA[\n<stderr_txt>\n"
        + text
        + b"\n</stderr_txt>\n]]>\n</stderr_out>\n"
    )


def report_with_stderr(text: bytes) -> bytes:
    return minimal(reported("@") + reported(name="second_0")).replace(b"@", stderr_out(text))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"plain", "plain"),
        (b"a ]]> b", "a ]]> b"),
        (b"<result>\n<name>forged_0</name>\n</result>", "<result>\n<name>forged_0</name>\n</result>"),
        (b"</result></scheduler_request>", "</result></scheduler_request>"),
        (b"forged </stderr_out> end", "forged </stderr_out> end"),
        (b"caf&#195;&#169;", "café"),
        (b"caf&#233;", "caf\ufffd"),
        (b"voil\xc3\xa0", "voilà"),  # whose last byte is white space in Latin-1
        (b"\xe2\x80\xa6 and \xc3\x85", "… and Å"),
        (b"caf\xc3\xa9 raw", "café raw"),
        (b"bad \xff byte", "bad \ufffd byte"),
        (b"nul \x00 bell \x07 tab \t", "nul  bell  tab \t"),
        (b"kept: &#60; &lt; &amp; &#300;", "kept: &#60; &lt; &amp; &#300;"),
        (b"<stderr_txt> </stderr_txt> nested", "<stderr_txt> </stderr_txt> nested"),
    ],
)
def test_stderr_is_taken_as_the_program_wrote_it(written: bytes, read: str):
    request = parse_scheduler_request(report_with_stderr(written))
    assert [r.name for r in request.results] == ["r_0", "second_0"]
    assert request.results[0].stderr == read
    assert request.leniences == ()


def test_only_the_last_part_of_a_long_stderr_is_kept():
    request = parse_scheduler_request(report_with_stderr(b"x" * 100_000 + b"end"))
    assert len(request.results[0].stderr) == 64 * 1024
    assert request.results[0].stderr.endswith("xend")
    assert LenienceKind.CUT in kinds(request)


@pytest.mark.parametrize(
    ("stderr", "program", "message"),
    [
        ("", "", ""),
        ("<stderr_out>\n</stderr_out>", "", ""),
        ("<stderr_out>old client, bare text</stderr_out>", "old client, bare text", ""),
        ("<stderr_out><![CDATA[<message>aborted</message>]]></stderr_out>", "", "aborted"),
        ("<stderr_out><![CDATA[<stderr_txt>not closed]]></stderr_out>", "not closed", ""),
        (
            "<stderr_out><![CDATA[<message>one</message><stderr_txt>t</stderr_txt><message>two</message>]]></stderr_out>",
            "t",
            "one\ntwo",
        ),
    ],
)
def test_stderr_in_other_forms_is_read(stderr: str, program: str, message: str):
    (result,) = parse_scheduler_request(minimal(reported(stderr))).results
    assert (result.stderr, result.error_message) == (program, message)


def test_an_unclosed_stderr_is_refused():
    with pytest.raises(RemoteProtocolError, match=r"stderr_out.* has no closing tag") as caught:
        parse_scheduler_request(minimal(reported("<stderr_out>text")))
    assert caught.value.reply_hint == "The request was cut short."


@pytest.mark.parametrize(
    ("content", "variety", "text"),
    [
        ("<result_name>r</result_name><time>5</time><variety>v</variety>\nhello", "v", "hello"),
        ("<result_name>r</result_name><time>5</time>\nhello <b", "", "hello <b"),
        ("<result_name>r</result_name><time>5</time>\nfirst\n<variety>v</variety>\nlast", "v", "first\nlast"),
        ("<result_name>r</result_name><time>5</time><variety>open", "", "<variety>open"),
    ],
)
def test_trickles_are_split_into_variety_and_text(content: str, variety: str, text: str):
    (trickle,) = parse_scheduler_request(minimal(f"<msg_from_host>\n{content}\n</msg_from_host>\n")).trickles
    assert (trickle.result_name, trickle.time, trickle.variety, trickle.text) == ("r", 5, variety, text)


def test_tags_in_a_trickle_do_not_become_elements_of_the_request():
    inner = "<msg_from_host><result_name>r</result_name><result><name>x</name></result></msg_from_host>\n"
    request = parse_scheduler_request(minimal(inner))
    assert request.results == ()
    assert request.trickles[0].text == "<result><name>x</name></result>"


# -- numbers and texts that make no sense -----------------------------------------------------------------


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e304", "-1", "text", "", "1.2.3", "0x10"])
def test_a_number_that_makes_no_sense_becomes_its_default(text: str):
    request = parse_scheduler_request(with_text("p_fpops", text))
    assert request.host_info.p_fpops == 1e9
    (lenience,) = request.leniences
    assert (lenience.kind, lenience.where) == (LenienceKind.BAD_NUMBER, "scheduler_request/p_fpops")
    assert lenience.detail == text


@pytest.mark.parametrize("text", ["nan", "1e304", "-5", "2147483648", "x"])
def test_a_whole_number_that_makes_no_sense_becomes_its_default(text: str):
    assert parse_scheduler_request(with_text("p_ncpus", text)).host_info.p_ncpus == 1


def test_a_time_beyond_all_calendars_is_none():
    body = minimal(reported(rest="<final_elapsed_time>1e12</final_elapsed_time>\n"))
    assert parse_scheduler_request(body).results[0].final_elapsed_time == 0.0


def test_a_fraction_above_one_is_not_believed():
    request = parse_scheduler_request(with_text("on_frac", "1.5"))
    assert request.time_stats.on_frac == 1.0
    assert kinds(request) == {LenienceKind.BAD_NUMBER}


@pytest.mark.parametrize(
    ("text", "value"), [("0", False), ("1", True), ("", False), ("2", True), ("yes", False)]
)
def test_a_flag_is_a_number_other_than_0(text: str, value: bool):
    assert parse_scheduler_request(with_text("sandbox", text)).sandbox is value


def test_entities_are_resolved_in_texts():
    request = parse_scheduler_request(
        with_text("domain_name", "A&amp;B &lt;x&gt; &#233; &#xe9; &unknown; &#55296;")
    )
    assert request.host_info.domain_name == "A&B <x> é é &unknown; \ufffd"


def test_control_characters_are_removed_from_texts():
    request = parse_scheduler_request(with_text("p_model", "a\x00b\x07c&#0;d"))
    assert request.host_info.p_model == "abcd"
    assert kinds(request) == {LenienceKind.CONTROL_CHARACTERS}


def test_line_ends_in_a_text_become_spaces():
    assert parse_scheduler_request(with_text("p_model", "a\n  b")).host_info.p_model == "a b"


def test_a_text_that_is_not_utf8_is_read_as_latin1():
    body = with_text("domain_name", "REPLACED").replace(b"REPLACED", b"caf\xe9")
    request = parse_scheduler_request(body)
    assert request.host_info.domain_name == "café"
    assert kinds(request) == {LenienceKind.NOT_UTF8}


def test_utf8_in_one_element_and_latin1_in_another_are_both_read():
    body = with_text("domain_name", "caf\u00e9").replace(b"GenuineVendor", b"vend\xe9")
    host = parse_scheduler_request(body).host_info
    assert (host.domain_name, host.p_vendor) == ("café", "vendé")


def test_a_long_text_is_cut():
    request = parse_scheduler_request(with_text("p_features", "f " * 4000))
    assert len(request.host_info.p_features) == 4096
    assert kinds(request) == {LenienceKind.CUT}


def test_a_name_longer_than_any_we_give_out_is_no_name():
    request = parse_scheduler_request(minimal(reported(name="n" * 256) + reported(name="n" * 255)))
    assert [len(r.name) for r in request.results] == [255]


def test_absent_and_unusable_elements_about_the_computer_are_known():
    assert parse_scheduler_request(minimal(blocks="")).unsaid == ALWAYS_SENT
    assert parse_scheduler_request(NO_WORK).unsaid == set()
    spoilt = parse_scheduler_request(with_text("p_fpops", "inf", base=REPORT))
    assert spoilt.unsaid == {"p_fpops"}
    (why,) = refused_figures(spoilt, spoilt.results[0])
    assert "p_fpops was sent as inf" in str(why)


# -- bounds -----------------------------------------------------------------------------------------------


@pytest.fixture
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "MAX_RESULTS",
        "MAX_OTHER_RESULTS",
        "MAX_TRICKLES",
        "MAX_FILE_INFOS",
        "MAX_APP_VERSIONS",
        "MAX_FILES_PER_RESULT",
        "MAX_PLATFORMS",
        "MAX_COPROCS",
    ):
        monkeypatch.setattr(request_layout, name, 2)


CROWDED = (
    "".join(f"<alt_platform>\n<name>p{n}</name>\n</alt_platform>\n" for n in range(4))
    + "<coprocs>\n" + "<coproc_ati>\n<count>1</count>\n</coproc_ati>\n" * 4 + "</coprocs>\n"
    + "".join(reported("<file_info>\n<name>f</name>\n</file_info>\n" * 4, name=f"r_{n}") for n in range(4))
    + "<msg_from_host>\n<result_name>r</result_name>\n</msg_from_host>\n" * 4
    + "<file_info>\n<name>s</name>\n</file_info>\n" * 4
    + "<app_versions>\n" + "<app_version>\n<app_name>a</app_name>\n</app_version>\n" * 4 + "</app_versions>\n"
    + "<other_results>\n" + "<other_result>\n<name>o</name>\n</other_result>\n" * 4 + "</other_results>\n"
    + "<in_progress_results>\n" + "<ip_result>\n<name>i</name>\n</ip_result>\n" * 4 + "</in_progress_results>\n"
)  # fmt: skip


@pytest.mark.usefixtures("small_bounds")
@pytest.mark.parametrize("layout", ["", "<!-- general parser -->\n"])
def test_no_list_is_longer_than_its_bound(layout: str):
    request = parse_scheduler_request(minimal(layout + CROWDED))
    lists = (
        request.platforms,
        request.coprocs,
        request.results,
        request.results[0].files,
        request.trickles,
        request.sticky_files,
        request.app_versions,
        request.other_results,
        request.in_progress_results,
    )
    assert [len(found) for found in lists] == [2] * 9
    assert LenienceKind.TOO_MANY in kinds(request)
    assert request.results_truncated
    assert request.trickles_truncated
    assert not request.other_results_listed, "an incomplete list must not make jobs look lost"


def test_the_bounds_allow_what_a_big_client_sends():
    jobs = "".join(
        f"<other_result>\n<name>job_{n}_0</name>\n<app_version>0</app_version>\n</other_result>\n"
        for n in range(5000)
    )
    reports = "".join(reported(name=f"r{n}_0") for n in range(2000))
    request = parse_scheduler_request(minimal(f"{reports}<other_results>\n{jobs}</other_results>\n"))
    assert (len(request.results), len(request.other_results)) == (2000, 5000)
    assert request.other_results_listed
    assert not request.results_truncated


def test_a_body_that_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(RemoteProtocolError, match="at most 100 are read"):
        parse_scheduler_request(NO_WORK, max_bytes=100)
    with pytest.raises(RemoteProtocolError, match="8388608"):
        parse_scheduler_request(b" " * (8 * 1024 * 1024 + 1))


def test_a_block_that_is_too_long_is_refused():
    with pytest.raises(RemoteProtocolError, match="characters, at most"):
        parse_scheduler_request(minimal("<a>1</a>\n" * 40_000))


def test_the_list_of_leniences_is_bounded():
    inner = "".join(reported(rest="<state>x</state>\n", name=f"r{n}") for n in range(300))
    assert len(parse_scheduler_request(minimal(inner)).leniences) == 100


HOSTILE = {
    "unclosed tags": b"<a>" * 80_000,
    "unclosed free texts": b"<stderr_out><![CDATA[" * 80_000,
    "closed free texts without the end of CDATA": b"<stderr_out><![CDATA[x</stderr_out>" * 40_000,
    "reports without end": b"<result><stderr_out></stderr_out>" * 40_000,
    "white space in a tag": b"<" + b" " * 400_000,
    "white space in a trickle": b"<msg_from_host>" + b" " * 1_000_000 + b"</msg_from_host>",
    "open venues": b"<global_preferences>" + b"<venue" * 10_000 + b"</global_preferences>",
    "ampersands": b"<b>" + b"&" * 400_000,
    "deep nesting": b"<b>" * 50_000 + b"</b>" * 50_000,
    "empty reports": b"<result></result>" * 100_000,
    "a long name of an element": b"<" + b"n" * 400_000 + b">",
    "declarations": b"<?xml" * 80_000,
    "line ends behind the end of CDATA": b"<stderr_out><![CDATA[x</stderr_out>]]>" + b"\n" * 500_000,
}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("inner", HOSTILE.values(), ids=HOSTILE)
def test_hostile_input_takes_no_more_than_linear_time(inner: bytes):
    with contextlib.suppress(RemoteProtocolError):
        parse_scheduler_request(b"<scheduler_request>\n" + inner + b"\n</scheduler_request>\n")


# -- other layouts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["<dont_throttle/>", "<needs_network/>\n<is_wrapper/>"])
def test_marks_of_app_versions_are_the_usual_layout(mark: str):
    version = f"<app_version>\n<app_name>a</app_name>\n<coproc>\n<type>ATI</type>\n</coproc>\n{mark}\n</app_version>\n"
    request = parse_scheduler_request(minimal(f"<app_versions>\n{version}</app_versions>\n"))
    assert request.leniences == ()
    assert [(each.app_name, each.coproc_type) for each in request.app_versions] == [("a", "ATI")]


@pytest.mark.parametrize(
    "change",
    [
        (b"<hostid>", b"<hostid >"),
        (b"<hostid>1</hostid>", b'<hostid type="int">1</hostid>'),
        (b"<hostid>", b'<?xml version="1.0"?>\n<hostid>'),
        (b"<hostid>1<", b"<hostid><![CDATA[1]]><"),
        (b"<scheduler_request>", b"<scheduler_request >"),
        (b"<hostid>", b"<future_block><hostid>9</hostid><name>x</name></future_block>\n<hostid>"),
        (b"</other_results>", b"</other_results>\n<hostid>1</hostid><!-- end -->"),
    ],
)
def test_an_unusual_layout_is_read_with_the_general_parser(change: tuple[bytes, bytes]):
    body = NO_WORK.replace(*change, 1)
    assert body != NO_WORK
    request = parse_scheduler_request(body)
    assert [lenience.kind for lenience in request.leniences] == [LenienceKind.UNUSUAL_LAYOUT]
    assert dataclasses.replace(request, leniences=()) == parse_scheduler_request(NO_WORK)


def test_blocks_in_another_order_are_read():
    body = NO_WORK
    blocks = [
        body[body.index(b"<%b>" % name) : body.index(b"</%b>\n" % name) + len(name) + 4]
        for name in (b"time_stats", b"host_info")
    ]
    moved = body.replace(blocks[0], b"").replace(blocks[1], blocks[1] + blocks[0])
    assert dataclasses.replace(parse_scheduler_request(moved), leniences=()) == parse_scheduler_request(
        NO_WORK
    )


def test_an_xml_declaration_before_the_root_is_usual():
    body = b'<?xml version="1.0" encoding="ISO-8859-1" ?>\n\n' + NO_WORK
    assert parse_scheduler_request(body) == parse_scheduler_request(NO_WORK)


def test_an_empty_element_means_true_for_flags_only():
    body = minimal("<sandbox/>\n<client_brand/>\n<other_results/>\n")
    request = parse_scheduler_request(body)
    assert request.sandbox
    assert request.client_brand == ""
    assert request.other_results_listed


@pytest.mark.parametrize(
    "change",
    [
        (b"<domain_name>volunteer-host<", b"<domain_name>a & b < c<"),
        (b"</p_model>", b""),
        (b"</time_stats>", b""),
        (b"<name>shapp_wu2_0</name>", b"<name>shapp_wu2_0"),
    ],
)
def test_broken_xml_is_repaired_and_never_makes_jobs_look_lost(change: tuple[bytes, bytes]):
    body = NO_WORK.replace(*change, 1)
    assert body != NO_WORK
    request = parse_scheduler_request(body)
    assert LenienceKind.RECOVERED in kinds(request)
    assert not request.other_results_listed
    assert (request.authenticator, request.hostid) == ("a" * 32, 1)


def test_reports_survive_a_missing_end_tag_between_them():
    body = minimal(reported(name="one_0").replace("</result>", "") + reported(name="two_0"))
    assert [r.name for r in parse_scheduler_request(body).results] == ["one_0", "two_0"]


def test_stray_ampersands_and_brackets_are_kept_in_repaired_texts():
    body = NO_WORK.replace(b"<domain_name>volunteer-host<", b"<domain_name>a & b < c<")
    assert parse_scheduler_request(body).host_info.domain_name == "a & b < c"


def test_stderr_is_verbatim_in_an_unusual_layout_too():
    body = minimal("<!-- x -->\n" + reported("@")).replace(b"@", stderr_out(b"a ]]> <b> \x00 &#195;&#169;"))
    assert parse_scheduler_request(body).results[0].stderr == "a ]]> <b>  é"


@pytest.mark.parametrize("text", ["<!DOCTYPE x [<!ENTITY a 'b'>]>", "<!ENTITY a 'b'>"])
def test_document_types_are_refused(text: str):
    with pytest.raises(RemoteProtocolError, match="document types"):
        parse_scheduler_request(minimal(text))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no <scheduler_request>"),
        (b"hello", "no <scheduler_request>"),
        (b"<html><body>login</body></html>", "no <scheduler_request>"),
        (b"<data_server_request></data_server_request>", "no <scheduler_request>"),
        (b"</scheduler_request>", "scheduler_request"),
        (b"<scheduler_request>", "no </scheduler_request>"),
        (NO_WORK[:3000], "no </scheduler_request>"),
        (NO_WORK[:-25], "no </scheduler_request>"),
        (b"\x00\xff\xfe", "no <scheduler_request>"),
    ],
)
def test_what_is_no_request_or_half_of_one_is_refused(body: bytes, message: str):
    with pytest.raises(RemoteProtocolError, match=message) as caught:
        parse_scheduler_request(body)
    assert caught.value.reply_hint


def test_an_unusual_request_that_is_too_long_is_refused():
    inner = "<!-- x -->\n" + "".join(reported(name=f"r{n}_0") for n in range(20_000))
    with pytest.raises(RemoteProtocolError, match="not in the usual layout"):
        parse_scheduler_request(minimal(inner))


def test_a_job_list_entry_without_name_is_dropped():
    body = minimal(
        "<other_results>\n<other_result>\n<app_version>0</app_version>\n</other_result>\n</other_results>\n"
    )
    assert parse_scheduler_request(body).other_results == ()


def test_an_entry_refers_to_its_version_by_place():
    request = parse_scheduler_request(recorded("24", "request"))
    assert request.other_results[1] == OtherResult(name="timelim_0", app_version=9)
    assert len(request.app_versions) > 9
