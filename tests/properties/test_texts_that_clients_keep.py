"""No text that anybody can enter takes the state of a client from it.

Client 7.20.5 writes most texts of a reply into its state without escapes and reads that file at its next start: with a
``<`` in one it said "Can't parse project in state file" and had forgotten the project and all its jobs.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.wire_elements import Element, read_elements

from cobblestone.domain.errors import JobError, LocalProtocolError
from cobblestone.ops.settings import ProjectSection
from cobblestone.server.api.submission.app_rules import check_command_line, check_title
from cobblestone.wire.project.pages import RssChannel, RssItem, write_rss
from cobblestone.wire.scheduler.reply import (
    AppBlock,
    AppVersionBlock,
    FileInfo,
    FileRef,
    GuiUrl,
    HostBlock,
    Message,
    OutputFileInfo,
    ResultBlock,
    RssFeed,
    SchedulerReply,
    TrickleDown,
    UserBlock,
    WorkunitBlock,
    write_scheduler_reply,
)

HEX = ("ab" * 32 + "\n") * 4 + ".\n"
REF = FileRef(file_name="file", open_name="open")
REPLY = SchedulerReply(
    master_url="http://example.org/",
    messages=(Message(text="m"),),
    project_name="p",
    symstore="s",
    user=UserBlock(
        id=1, name="u", email_hash="e", cross_project_id="c", external_cpid="x", team_id=2, team_name="t"
    ),
    host=HostBlock(id=1, venue="home"),
    global_preferences="<global_preferences>\n</global_preferences>",
    project_preferences="<project_preferences>\n</project_preferences>",
    result_acks=("r",),
    result_aborts=("r",),
    result_aborts_if_not_started=("r",),
    files=(
        FileInfo(
            name="file", urls=("http://example.org/file",), nbytes=1, md5_cksum="5" * 32, gzipped_url="g"
        ),
    ),
    output_files=(
        OutputFileInfo(
            name="out", max_nbytes=1, upload_url="http://example.org/file_upload_handler", xml_signature=HEX
        ),
    ),
    apps=(AppBlock(name="app", user_friendly_name="title"),),
    app_versions=(
        AppVersionBlock(
            app_name="app",
            version_num=1,
            platform="x86_64-pc-linux-gnu",
            plan_class="mt",
            cmdline="--fast",
            coproc_type="CUDA",
            file_refs=(REF,),
        ),
    ),
    workunits=(
        WorkunitBlock(
            name="w",
            app_name="app",
            rsc_fpops_est=1.0,
            rsc_fpops_bound=1.0,
            rsc_memory_bound=1.0,
            rsc_disk_bound=1.0,
            command_line="--x 1",
            job_keyword_ids="1 2",
            file_refs=(REF,),
        ),
    ),
    results=(
        ResultBlock(
            name="r",
            wu_name="w",
            platform="x86_64-pc-linux-gnu",
            version_num=1,
            report_deadline=1.0,
            plan_class="mt",
            file_refs=(REF,),
        ),
    ),
    code_sign_key=HEX,
    code_sign_key_signature=HEX,
    trickle_downs=(TrickleDown(result_name="r", time=1, text="t"),),
    delete_files=("file",),
    no_rsc_apps=("CUDA",),
    rss_feeds=(RssFeed(url="http://example.org/rss"),),
    gui_urls=(GuiUrl(name="n", description="d", url="http://example.org/home"),),
    project_files=(REF,),
)
ESCAPED_BY_CLIENTS = {"user_name", "team_name", "message"}
TEXTS = st.text(
    st.one_of(st.characters(), st.sampled_from("<>&;\"'\n\r\t\x00\x1b\x85\u2028#xlt/]")), min_size=1, max_size=40
) | st.sampled_from(
    [
        "a<b", "&lt;", "&#60;", "&amp;lt;b", "]]>", "</app>", "<![CDATA[", "x" * 300, "\u0416" * 200, "&" * 300, "A & B", "AT&T",
        "\ud800",
    ]
)  # fmt: skip


def leaves(value: Any, put: Callable[[Any], SchedulerReply], place: str) -> Iterator[tuple[str, Any]]:
    """All texts of a reply, each with a function that makes the same reply with another one."""
    if type(value) is str:
        yield place, put
    elif isinstance(value, tuple) and value:
        yield from leaves(value[0], lambda new: put((new,)), place)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from leaves(
                getattr(value, field.name),
                lambda new, name=field.name: put(dataclasses.replace(value, **{name: new})),  # type: ignore[type-var]  # a dataclass
                f"{place}.{field.name}",
            )


LEAVES = dict(leaves(REPLY, lambda new: new, "reply"))
# What a running program gets is no element's text: clients copy it up to its end mark, and it goes into a file.
del LEAVES["reply.trickle_downs.text"]
SHOWN = (
    "reply.project_name", "reply.user.name", "reply.user.team_name", "reply.host.venue", "reply.messages.text",
    "reply.apps.user_friendly_name", "reply.gui_urls.name", "reply.gui_urls.description",
)  # fmt: skip


def skeleton(element: Element) -> Any:
    return element.tag, [skeleton(child) for child in element.children]


def check_kept_by_clients(element: Element) -> None:
    for child in element.children:
        if child.tag.startswith(("result_ack", "result_abort")):
            continue  # names that the client itself sent: it looks them up
        check_kept_by_clients(child)
        if not child.children and child.tag not in ESCAPED_BY_CLIENTS:
            assert not re.search(r"(?a)<|&(\w+|#\w+);", child.text), (child.tag, child.text)


@given(st.sampled_from(sorted(LEAVES)), TEXTS)
def test_a_reply_with_any_text_is_refused_or_survives_the_clients_state(place: str, text: str) -> None:
    reply = LEAVES[place](text)
    try:
        written = write_scheduler_reply(reply)
    except LocalProtocolError:
        assert place not in SHOWN, "a name or title must not stop all replies"
        return
    root = read_elements(written)
    assert skeleton(root) == skeleton(read_elements(write_scheduler_reply(REPLY)))
    check_kept_by_clients(root)


@given(st.sampled_from(SHOWN), TEXTS)
def test_what_is_shown_fits_into_the_buffers_of_clients(place: str, text: str) -> None:
    written = write_scheduler_reply(LEAVES[place](text))
    tags = rb"project_name|user_name|team_name|host_venue|user_friendly_name|name|description"
    for tag, content in re.findall(rb"<(" + tags + rb")>([^\n]*)</", written):
        assert len(content) <= 255, tag
        content.decode()


@given(TEXTS)
def test_a_title_of_a_notice_survives_the_clients_archive(text: str) -> None:
    item = RssItem(title=text, guid="g", published=1.0, description=text)
    feed = write_rss(
        RssChannel(title=text, link="http://example.org/", description=text, items=(item,)), built=1.0
    )
    channel = read_elements(feed).children[0]
    (found,) = channel.all("item")
    assert not re.search(r"(?a)<|&(\w+|#\w+);", found.get("title"))


@pytest.mark.parametrize("text", ["a<b", "&lt;", "x &#60; y"])
def test_what_clients_would_lose_is_refused_with_the_reason_where_it_is_entered(text: str) -> None:
    with pytest.raises(JobError, match="lose all their jobs"):
        check_title(text)
    with pytest.raises(JobError, match="Put such values into an input file"):
        check_command_line(text)
    with pytest.raises(ValueError, match="clients would lose their jobs"):
        ProjectSection.model_validate({"name": text})
    for kept in ("A & B", "AT&T", '"quoted"', "1 > 0"):
        check_title(kept)
        check_command_line(kept)
        assert ProjectSection.model_validate({"name": kept}).name == kept


def test_a_title_longer_than_clients_keep_is_refused() -> None:
    check_title("\u0416" * 127)
    with pytest.raises(JobError, match="has 256 bytes; BOINC clients keep 255"):
        check_title("\u0416" * 128)
