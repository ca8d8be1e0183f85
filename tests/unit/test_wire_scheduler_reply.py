"""Writing scheduler replies: what clients need, and what must not get out."""

from __future__ import annotations

import math

import pytest
from tests.helpers.wire_elements import Element, read_elements

from cobblestone.domain.errors import LocalProtocolError
from cobblestone.wire.project.preferences import ProjectSet, write_project
from cobblestone.wire.scheduler.reply import (
    AppBlock,
    AppVersionBlock,
    FileInfo,
    FileRef,
    GuiUrl,
    HostBlock,
    Message,
    MessagePriority,
    OutputFileInfo,
    ResultBlock,
    RssFeed,
    SchedulerReply,
    TrickleDown,
    UserBlock,
    WorkunitBlock,
    write_scheduler_reply,
)

URL = "http://example.org/p/"
SIGNATURE = ("ab" * 32 + "\n") * 4 + ".\n"
UPLOAD = "http://example.org/p/file_upload_handler"
USER = UserBlock(id=1, name="A & B")


def written(**fields: object) -> Element:
    return read_elements(write_scheduler_reply(SchedulerReply(master_url=URL, **fields)))  # type: ignore[arg-type]  # fields that exist


def test_the_smallest_reply_is_short():
    assert write_scheduler_reply(SchedulerReply(master_url=URL)) == (
        b"<scheduler_reply>\n<scheduler_version>820</scheduler_version>\n"
        b"<master_url>http://example.org/p/</master_url>\n<request_delay>0.000000</request_delay>\n</scheduler_reply>\n"
    )


def test_the_host_id_is_sent_only_when_it_is_new():
    """A client that is told an id takes it as new, restarts its sequence number and makes a new computer id."""
    assert not written(host=HostBlock(id=7)).has("hostid")
    assert written(host=HostBlock(id=7, announce_id=True)).get("hostid") == "7"


def test_a_project_that_is_down_says_nothing_else():
    root = written(project_is_down=True, project_name="P", user=USER, result_acks=("r",), request_delay=600.0)
    assert root.tags == [
        "scheduler_version",
        "master_url",
        "request_delay",
        "project_name",
        "project_is_down",
    ]


def test_credit_has_six_decimals_and_names_are_escaped():
    root = written(user=UserBlock(id=1, name='<b>"x" & y', total_credit=1 / 3, create_time=5.0))
    assert root.get("user_total_credit") == "0.333333"
    assert root.get("user_name") == '<b>"x" & y'
    assert (root.get("user_create_time"), root.get("cpid_time")) == ("5", "5")
    assert not root.has("teamid")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_never_sent(value: float):
    with pytest.raises(LocalProtocolError, match="only finite numbers"):
        written(user=UserBlock(id=1, name="a", total_credit=value))
    with pytest.raises(LocalProtocolError, match="only finite numbers"):
        written(host=HostBlock(id=1, create_time=value))


def test_wishes_are_written_when_there_are_some():
    root = written(
        dont_use_dcf=True, ended=True, send_full_workload=True, send_time_stats_log=5.0, symstore="http://s",
        next_rpc_delay=60.0, non_cpu_intensive=True, strict_memory_bound=True, message_ack=True,
        delete_files=("old_1",), no_cpu_apps=True, no_rsc_apps=("NVIDIA", "ATI"), desired_disk_usage=2.0,
    )  # fmt: skip
    assert root.tags == [
        "scheduler_version", "dont_use_dcf", "master_url", "ended", "request_delay", "send_time_stats_log",
        "send_full_workload", "symstore", "next_rpc_delay", "message_ack", "non_cpu_intensive", "strict_memory_bound",
        "delete_file_info", "no_cpu_apps", "no_rsc_apps", "no_rsc_apps", "desired_disk_usage",
    ]  # fmt: skip
    assert root.get("delete_file_info") == "old_1"
    assert root.get("no_cpu_apps") == "1"


# -- messages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "fish & chips",
        "<b>HTML</b>",
        "a < b > c & d",
        "an end mark ]]> without HTML",
        "<a>]]><b>",
        "Grüße, 数据",
        'say "hello"',
    ],
)
def test_a_message_arrives_as_it_was_given(text: str):
    (message,) = written(messages=(Message(text=text, priority=MessagePriority.NOTICE),)).all("message")
    assert (message.text, message.attributes) == (text, 'priority="notice"')


@pytest.mark.parametrize("character", ["x", "&", "<", "é", "数", "😀", '"'])
@pytest.mark.parametrize("length", [900, 1000, 1001, 5000])
def test_a_long_message_is_cut_between_characters_to_what_the_client_can_hold(character: str, length: int):
    text = character * length
    reply = write_scheduler_reply(SchedulerReply(master_url=URL, messages=(Message(text=text),)))
    inner = reply.split(b'<message priority="low">')[1].split(b"</message>")[0]
    assert len(inner) <= 1000
    (message,) = read_elements(reply).all("message")
    assert message.text == character * len(message.text)
    assert len(message.text) == length or len(inner) > 970


def test_line_ends_and_control_characters_do_not_get_into_a_message():
    (message,) = written(messages=(Message(text="one\r\ntwo\x00\x1b three\n"),)).all("message")
    assert message.text == "one two three"


# -- jobs -------------------------------------------------------------------------------------------------


def test_a_job_is_written_with_all_it_needs():
    version = AppVersionBlock(
        app_name="a", version_num=101, platform="p", plan_class="cuda", avg_ncpus=0.5, flops=2e9, cmdline="--n 1",
        coproc_type="NVIDIA", coproc_count=1.0, gpu_ram=1e9, dont_throttle=True, is_wrapper=True, needs_network=True,
        file_refs=(FileRef(file_name="main_1", main_program=True), FileRef(file_name="lib", open_name="l.so", copy_file=True)),
    )  # fmt: skip
    root = written(apps=(AppBlock(name="a", report_results_immediately=True),), app_versions=(version,))
    assert root.path("app").tags[-1] == "report_results_immediately"
    assert root.path("app").get("user_friendly_name") == "a"
    block = root.path("app_version")
    assert block.tags == [
        "app_name", "version_num", "platform", "plan_class", "api_version", "avg_ncpus", "flops", "cmdline", "coproc",
        "gpu_ram", "dont_throttle", "is_wrapper", "needs_network", "file_ref", "file_ref",
    ]  # fmt: skip
    assert block.path("coproc").get("type") == "NVIDIA"
    main, library = block.all("file_ref")
    assert main.tags == ["file_name", "main_program"]
    assert library.tags == ["file_name", "open_name", "copy_file"]


def test_a_file_is_described_with_its_mirrors_and_its_gzipped_twin():
    file = FileInfo(
        name="f_1", urls=("http://a/f", "http://b/f"), nbytes=10, md5_cksum="0" * 32, sticky=True, executable=True,
        file_signature=SIGNATURE, gzipped_url="http://a/f.gz", gzipped_nbytes=5,
    )  # fmt: skip
    block = written(files=(file,)).path("file_info")
    assert block.tags == [
        "name", "url", "url", "gzipped_url", "gzipped_nbytes", "executable", "signature_required", "file_signature",
        "md5_cksum", "nbytes", "sticky",
    ]  # fmt: skip
    assert block.get("file_signature").split() == SIGNATURE.split()


def test_a_signature_stands_alone_on_its_lines():
    file = FileInfo(name="f", urls=(), nbytes=1, md5_cksum="", file_signature=f"\n  {SIGNATURE}  ")
    text = write_scheduler_reply(SchedulerReply(master_url=URL, files=(file,))).decode()
    assert f"    <file_signature>\n{SIGNATURE}</file_signature>\n" in text


def test_results_and_outputs_are_written():
    output = OutputFileInfo(
        name="r_0_0", max_nbytes=5, upload_url=UPLOAD, xml_signature=SIGNATURE, gzip_when_done=True
    )
    ref = FileRef(file_name="r_0_0", open_name="out", copy_file=True, optional=True)
    result = ResultBlock(
        name="r_0", wu_name="r", platform="p", version_num=1, report_deadline=1e9 + 0.4, report_immediately=True,
        file_refs=(ref,),
    )  # fmt: skip
    workunit = WorkunitBlock(
        name="r", app_name="a", rsc_fpops_est=1, rsc_fpops_bound=2, rsc_memory_bound=3, rsc_disk_bound=4,
        command_line="--x '&>'",
    )  # fmt: skip
    root = written(output_files=(output,), results=(result,), workunits=(workunit,))
    assert root.path("file_info").tags == ["name", "max_nbytes", "url", "xml_signature", "gzip_when_done"]
    assert root.path("result").get("report_deadline") == "1000000000"
    assert root.path("result").tags == [
        "name", "wu_name", "platform", "version_num", "plan_class", "report_deadline", "report_immediately", "file_ref",
    ]  # fmt: skip
    assert root.path("result", "file_ref").tags == ["file_name", "open_name", "copy_file", "optional"]
    assert root.path("workunit").get("command_line") == "--x '&>'"


def test_an_upload_url_that_clients_would_take_for_a_download_is_refused():
    output = OutputFileInfo(
        name="o", max_nbytes=5, upload_url="http://example.org/up", xml_signature=SIGNATURE
    )
    with pytest.raises(LocalProtocolError, match="file_upload_handler"):
        written(output_files=(output,))


@pytest.mark.parametrize("name", ["", "../x", "a b", "a/b", "x" * 256, "a%20", ".hidden", "a\n"])
def test_a_file_name_that_clients_refuse_is_not_sent(name: str):
    with pytest.raises(LocalProtocolError, match="not a file name"):
        written(files=(FileInfo(name=name, urls=(), nbytes=1, md5_cksum=""),))
    with pytest.raises(LocalProtocolError, match="not a file name"):
        written(delete_files=(name,))


@pytest.mark.parametrize("text", ["not hex", "ab\n.</code_sign_key><hostid>1</hostid>", "ab", "."])
def test_only_a_key_can_stand_where_a_key_is_meant(text: str):
    with pytest.raises(LocalProtocolError, match="not a key or signature"):
        written(code_sign_key=text)


# -- raw parts --------------------------------------------------------------------------------------------


def test_preferences_are_handed_on_as_they_are():
    preferences = write_project({"": ProjectSet(max_cpus=2)})
    root = written(
        project_preferences=preferences, global_preferences="<global_preferences>\n<x/></global_preferences>"
    )
    assert root.path("project_preferences", "project_specific").get("max_cpus") == "2"
    assert root.path("global_preferences").has("x")


@pytest.mark.parametrize(
    "text",
    [
        "no element",
        "<project_preferences>",
        "<project_preferences></project_preferences><hostid>1</hostid>",
        "<project_preferences></project_preferences>" * 2,
    ],
)
def test_preferences_that_could_say_something_else_are_refused(text: str):
    with pytest.raises(LocalProtocolError, match="exactly one <project_preferences>"):
        written(project_preferences=text)


def test_a_trickle_down_has_each_tag_on_its_own_line():
    trickle = TrickleDown(result_name="r_0", time=7, text="go <on> & on")
    reply = write_scheduler_reply(SchedulerReply(master_url=URL, trickle_downs=(trickle,)))
    assert (
        b"<trickle_down>\n<result_name>r_0</result_name>\n<time>7</time>\n<text>\ngo <on> & on\n</text>\n</trickle_down>\n"
    ) in reply


@pytest.mark.parametrize("text", ["a</text>b", "a</trickle_down>b"])
def test_a_trickle_down_that_would_end_early_is_refused(text: str):
    with pytest.raises(LocalProtocolError, match="would stop reading"):
        written(trickle_downs=(TrickleDown(result_name="r", time=1, text=text),))


def test_links_feeds_and_project_files_are_written():
    root = written(
        gui_urls=(GuiUrl(name="n", description="d", url="http://x/?a=1&b=2"),),
        rss_feeds=(RssFeed(url="http://x/rss", poll_interval=3600),),
        project_files=(FileRef(file_name="logo.png", open_name="stat_icon"),),
    )
    assert root.path("gui_urls", "gui_url").get("url") == "http://x/?a=1&b=2"
    assert root.path("rss_feeds", "rss_feed").get("poll_interval") == "3600"
    assert root.path("project_files", "file_ref").get("open_name") == "stat_icon"
