"""Our writers against recorded replies: the same content gives the same elements, in the same order."""

from __future__ import annotations

import re

import pytest
from tests.helpers.wire_captures import Recorded, messages, recorded, scheduler_replies
from tests.helpers.wire_elements import Element, read_elements

from cobblestone.wire.project.account import WebRpcError, write_account_out, write_web_rpc_error
from cobblestone.wire.project.pages import (
    PlatformEntry,
    ProjectConfig,
    RssChannel,
    RssItem,
    scheduler_link_tags,
    write_project_config,
    write_rss,
)
from cobblestone.wire.project.upload import UploadStatus, write_upload_reply
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

#: Sent by the recorded server, not by us: no client needs them.
LEGACY = {"generated_locally", "upload_when_present", "max_ncpus", "trickle_up_urls"}
#: Has a message with raw HTML on purpose.
MALFORMED = "14-sched-messages"

ORDER = [
    "scheduler_version",
    "master_url",
    "request_delay",
    "message",
    "project_name",
    "project_is_down",
    "userid",
    "user_name",
    "user_total_credit",
    "user_expavg_credit",
    "user_create_time",
    "email_hash",
    "cross_project_id",
    "external_cpid",
    "cpid_time",
    "project_preferences",
    "hostid",
    "host_total_credit",
    "host_expavg_credit",
    "host_venue",
    "host_create_time",
    "teamid",
    "team_name",
    "result_ack",
    "result_abort",
    "result_abort_if_not_started",
    "app",
    "file_info",
    "app_version",
    "workunit",
    "file_info",
    "result",
    "code_sign_key",
    "code_sign_key_signature",
    "message_ack",
    "trickle_down",
    "no_cpu_apps",
    "rss_feeds",
    "gui_urls",
    "project_files",
]
"""Of the elements at the top that occur in the captures, in BOINC's scheduler."""

REPLIES = [reply for reply in scheduler_replies() if reply.capture != MALFORMED]


# -- from a recorded reply to values ---------------------------------------------------------------------


def as_reply(root: Element) -> SchedulerReply:
    files = root.all("file_info")
    return SchedulerReply(
        scheduler_version=int(root.get("scheduler_version")),
        master_url=root.get("master_url"),
        request_delay=float(root.get("request_delay")),
        messages=tuple(as_message(message) for message in root.all("message")),
        project_is_down=root.has("project_is_down"),
        project_name=root.get("project_name"),
        user=as_user(root) if root.has("userid") else None,
        host=as_host(root) if root.has("host_create_time") else None,
        project_preferences=raw(root, "project_preferences"),
        result_acks=names(root, "result_ack"),
        result_aborts=names(root, "result_abort"),
        result_aborts_if_not_started=names(root, "result_abort_if_not_started"),
        apps=tuple(as_app(app) for app in root.all("app")),
        files=tuple(as_file(file) for file in files if not file.has("max_nbytes")),
        output_files=tuple(as_output_file(file) for file in files if file.has("max_nbytes")),
        app_versions=tuple(as_app_version(version) for version in root.all("app_version")),
        workunits=tuple(as_workunit(workunit) for workunit in root.all("workunit")),
        results=tuple(as_result(result) for result in root.all("result")),
        code_sign_key=root.get("code_sign_key"),
        code_sign_key_signature=root.get("code_sign_key_signature"),
        message_ack=root.has("message_ack"),
        trickle_downs=tuple(as_trickle_down(trickle) for trickle in root.all("trickle_down")),
        no_cpu_apps=root.get("no_cpu_apps") == "1" if root.has("no_cpu_apps") else None,
        gui_urls=tuple(
            GuiUrl(name=url.get("name"), description=url.get("description"), url=url.get("url"))
            for block in root.all("gui_urls")
            for url in block.children
        ),
        rss_feeds=tuple(
            RssFeed(url=feed.get("url"), poll_interval=float(feed.get("poll_interval")))
            for block in root.all("rss_feeds")
            for feed in block.children
        ),
        project_files=tuple(as_ref(ref) for block in root.all("project_files") for ref in block.children),
    )


def raw(root: Element, tag: str) -> str:
    def written(element: Element) -> str:
        inner = "".join(written(child) for child in element.children) or element.text
        return f"<{element.tag}>{inner}</{element.tag}>"

    return "".join(written(element) for element in root.all(tag))


def names(root: Element, tag: str) -> tuple[str, ...]:
    return tuple(element.get("name") for element in root.all(tag))


def as_message(element: Element) -> Message:
    priority = element.attributes.removeprefix('priority="').removesuffix('"')
    return Message(text=element.text, priority=MessagePriority(priority))


def as_user(root: Element) -> UserBlock:
    return UserBlock(
        id=int(root.get("userid")),
        name=root.get("user_name"),
        total_credit=float(root.get("user_total_credit")),
        expavg_credit=float(root.get("user_expavg_credit")),
        create_time=float(root.get("user_create_time")),
        email_hash=root.get("email_hash"),
        cross_project_id=root.get("cross_project_id"),
        external_cpid=root.get("external_cpid"),
        cpid_time=float(root.get("cpid_time")),
        team_id=int(root.get("teamid")),
        team_name=root.get("team_name"),
    )


def as_host(root: Element) -> HostBlock:
    return HostBlock(
        id=int(root.get("hostid", "0")),
        announce_id=root.has("hostid"),
        total_credit=float(root.get("host_total_credit")),
        expavg_credit=float(root.get("host_expavg_credit")),
        venue=root.get("host_venue"),
        create_time=float(root.get("host_create_time")),
    )


def as_app(app: Element) -> AppBlock:
    return AppBlock(name=app.get("name"), user_friendly_name=app.get("user_friendly_name"))


def as_ref(ref: Element) -> FileRef:
    return FileRef(
        file_name=ref.get("file_name"),
        open_name=ref.get("open_name"),
        main_program=ref.has("main_program"),
        copy_file=ref.has("copy_file"),
    )


def refs(block: Element) -> tuple[FileRef, ...]:
    return tuple(as_ref(ref) for ref in block.all("file_ref"))


def as_file(file: Element) -> FileInfo:
    return FileInfo(
        name=file.get("name"),
        urls=tuple(url.text for url in file.all("url")),
        nbytes=int(file.get("nbytes")),
        md5_cksum=file.get("md5_cksum"),
        executable=file.has("executable"),
        file_signature=file.get("file_signature"),
        sticky=file.has("sticky"),
        gzipped_url=file.get("gzipped_url"),
        gzipped_nbytes=int(file.get("gzipped_nbytes", "0")),
    )


def as_output_file(file: Element) -> OutputFileInfo:
    return OutputFileInfo(
        name=file.get("name"),
        max_nbytes=int(file.get("max_nbytes")),
        upload_url=file.get("url"),
        xml_signature=file.get("xml_signature"),
        gzip_when_done=file.has("gzip_when_done"),
    )


def as_app_version(version: Element) -> AppVersionBlock:
    return AppVersionBlock(
        app_name=version.get("app_name"),
        version_num=int(version.get("version_num")),
        platform=version.get("platform"),
        api_version=version.get("api_version"),
        avg_ncpus=float(version.get("avg_ncpus")),
        flops=float(version.get("flops")),
        file_refs=refs(version),
    )


def as_workunit(workunit: Element) -> WorkunitBlock:
    return WorkunitBlock(
        name=workunit.get("name"),
        app_name=workunit.get("app_name"),
        rsc_fpops_est=float(workunit.get("rsc_fpops_est")),
        rsc_fpops_bound=float(workunit.get("rsc_fpops_bound")),
        rsc_memory_bound=float(workunit.get("rsc_memory_bound")),
        rsc_disk_bound=float(workunit.get("rsc_disk_bound")),
        command_line=workunit.get("command_line"),
        file_refs=refs(workunit),
    )


def as_result(result: Element) -> ResultBlock:
    return ResultBlock(
        name=result.get("name"),
        wu_name=result.get("wu_name"),
        platform=result.get("platform"),
        version_num=int(result.get("version_num")),
        plan_class=result.get("plan_class"),
        report_deadline=float(result.get("report_deadline")),
        file_refs=refs(result),
    )


def as_trickle_down(trickle: Element) -> TrickleDown:
    return TrickleDown(
        result_name=trickle.get("result_name"),
        time=int(trickle.get("time")),
        text=trickle.get("text").strip(),
    )


# -- comparison -------------------------------------------------------------------------------------------


def comparable(element: Element) -> tuple[object, ...]:
    """An element as nested tuples, legacy ones left out, numbers as numbers, white space at the ends removed.

    Of a signed file the recorded server wrote the size before the checksum, of others after it; we always do the
    latter.
    """
    text = element.text.strip()
    value = float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else text
    children = [comparable(child) for child in element.children if child.tag not in LEGACY]
    if element.tag == "file_info":
        children.sort(key=lambda child: child[0] in ("nbytes", "sticky"))
    return (element.tag, element.attributes, value, *children)


@pytest.mark.parametrize("reply", REPLIES, ids=[reply.id for reply in REPLIES])
def test_a_recorded_reply_is_written_with_the_same_elements(reply: Recorded) -> None:
    theirs = read_elements(reply.body)
    ours = read_elements(write_scheduler_reply(as_reply(theirs)))
    assert by_kind(ours) == by_kind(theirs)


def by_kind(root: Element) -> list[tuple[object, ...]]:
    """Elements sorted by name, and outputs behind inputs: at the top the recorded server had an order of its own."""
    children = [child for child in root.children if child.tag not in LEGACY]
    return [comparable(child) for child in sorted(children, key=lambda e: (e.tag, e.has("max_nbytes")))]


@pytest.mark.parametrize("reply", REPLIES, ids=[reply.id for reply in REPLIES])
def test_elements_at_the_top_stand_in_the_order_of_boincs_scheduler(reply: Recorded) -> None:
    place = 0
    for tag in read_elements(write_scheduler_reply(as_reply(read_elements(reply.body)))).tags:
        place = ORDER.index(tag, place)


def test_a_file_comes_before_what_refers_to_it() -> None:
    written = write_scheduler_reply(as_reply(read_elements(recorded("04", "reply"))))
    first = written.index(b"<name>shapp_wu1_0_0</name>")
    assert written.index(b"<name>shapp_100_x86_64-pc-linux-gnu</name>") < written.index(b"<app_version>")
    assert written.index(b"<name>shapp_wu1_in</name>") < written.index(b"<workunit>")
    assert first < written.index(b"<file_name>shapp_wu1_0_0</file_name>")


def test_the_first_reply_has_exactly_the_recorded_lines_but_for_the_known_differences() -> None:
    ours = write_scheduler_reply(as_reply(read_elements(recorded("04", "reply")))).decode().splitlines()
    theirs = [line for line in recorded("04", "reply").decode().splitlines() if line]
    known = {
        "    <generated_locally/>",
        "    <upload_when_present/>",
        "    <max_ncpus>1</max_ncpus>",
        "    <avg_ncpus>1</avg_ncpus>",
        "    <flops>1000000000.0</flops>",
        "    </xml_signature>",
        "    .",
    }
    missing = [line for line in theirs if line not in set(ours) | known]
    # The preferences are handed on as one text.
    assert [line for line in missing if "preferences" not in line and "specific" not in line] == [
        "<resource_share>100</resource_share>",
        "<max_cpus>2</max_cpus>",
    ]
    assert set(ours) - set(theirs) == {
        "    <avg_ncpus>1.000000</avg_ncpus>",
        "    <flops>1000000000.000000</flops>",
        "</xml_signature>",
        next(line for line in ours if line.startswith("<project_preferences>")),
    }


def test_html_that_vanished_from_the_recorded_messages_survives_in_ours() -> None:
    assert b'<a href="http://x/">link</a></message>' in recorded("14")
    text = 'notice text & <a href="http://x/">link</a>'
    reply = SchedulerReply(master_url="", messages=(Message(text=text, priority=MessagePriority.NOTICE),))
    (message,) = read_elements(write_scheduler_reply(reply)).all("message")
    assert (message.attributes, message.text, message.children) == ('priority="notice"', text, [])


# -- other replies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("capture", ["07", "08"])
def test_upload_replies_are_the_recorded_bytes(capture: str) -> None:
    replies = [m.body for m in messages(capture) if b"<data_server_reply>" in m.body]
    assert replies
    for body in replies:
        root = read_elements(body)
        size = int(root.get("file_size")) if root.has("file_size") else None
        written = write_upload_reply(UploadStatus(int(root.get("status"))), file_size=size)
        assert written.strip() == body.strip()


def test_account_replies_have_the_recorded_elements() -> None:
    expected = read_elements(recorded("01", "reply"))
    assert read_elements(write_account_out(expected.get("authenticator"))) == expected
    assert read_elements(write_account_out("a" * 32)).tags == ["authenticator"]


@pytest.mark.parametrize(
    ("title", "error"),
    [
        ("wrong password", WebRpcError.BAD_PASSWD),
        ("unknown address", WebRpcError.NOT_FOUND),
        ("address taken", WebRpcError.NOT_UNIQUE),
    ],
)
def test_errors_of_web_rpcs_have_the_recorded_numbers(title: str, error: WebRpcError) -> None:
    theirs = read_elements(recorded("01", title))
    assert read_elements(write_web_rpc_error(error, theirs.get("error_msg"))) == theirs


def test_the_project_configuration_has_the_recorded_elements() -> None:
    url = "http://127.0.0.1:18080/mock/"
    platform = PlatformEntry(platform_name="x86_64-pc-linux-gnu", user_friendly_name="Linux on x86-64")
    config = ProjectConfig(name="Mock Project", master_url=url, platforms=(platform,))
    assert read_elements(write_project_config(config)) == read_elements(recorded("02", "reply"))


def test_the_scheduler_tags_are_the_recorded_lines() -> None:
    page = recorded("03", "reply").decode()
    for line in scheduler_link_tags("http://127.0.0.1:18080/mock_cgi/cgi").splitlines():
        assert line in page.splitlines()


def test_a_feed_has_the_recorded_elements() -> None:
    theirs = read_elements(recorded("19", "feed reply"))
    day = 1795132800.0  # 20 November 2026
    item = RssItem(title="Mock news", guid="n1", published=day, description="Hello volunteers")
    link = "http://127.0.0.1:18080/mock/"
    channel = RssChannel(title="Mock notices", link=link, description="d", items=(item,))
    assert read_elements(write_rss(channel, built=day)) == theirs
