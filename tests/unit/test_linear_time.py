"""Whatever a stranger writes is read in linear time: every reader of foreign bytes, fed with growing hostile text.

`READERS` names them all, and `test_every_reader_is_on_the_list` finds one that is not.  The texts: openings without ends,
nested ones, white space, entities, digits, and the elements that the reader knows.  They are short here, and long in
`make nightly`.  Regular expressions are tried one by one in `test_regular_expressions.py`.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import re
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import settings
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import cookie_parser
from starlette.responses import FileResponse, MalformedRangeHeader, RangeNotSatisfiable
from tests.helpers.effort import MANY

from cobblestone.domain import job_table
from cobblestone.domain.errors import CobblestoneError, RemoteProtocolError
from cobblestone.domain.exports import ExportedTable
from cobblestone.domain.job_form import find_placeholders, legal_name
from cobblestone.domain.texts import folder_name, markup_in, without_markup
from cobblestone.domain.work import OutputSpec
from cobblestone.launcher import cobblestone_runtime
from cobblestone.ops.aside import FEW, LITTLE, SHORT, is_short, read_aside
from cobblestone.policy.validation import archives, comparison, documents, numeric
from cobblestone.service import languages
from cobblestone.service.pages import fields, site, wording
from cobblestone.statistics.ingest import ColumnReader
from cobblestone.store.work.rows import last_words
from cobblestone.wire.client import account_manager, config, gui_rpc, state_excerpt, state_file, task_messages
from cobblestone.wire.client.records import ProjectRecord
from cobblestone.wire.project import (
    account,
    pages,
    preferences,
    remote_submission,
    scales,
    signatures,
    statistics_import,
    templates,
    upload,
)
from cobblestone.wire.scheduler import job, reply, report, request
from cobblestone.wire.text import reader, tree

PACKAGE = Path(__file__).parents[2] / "src" / "cobblestone"
IS_NIGHTLY = settings().max_examples >= MANY
LARGEST = 1_000_000 if IS_NIGHTLY else 16_000
"""Bytes of a text here; what is quadratic shows with fewer than a reader takes at most."""
FLOOR_SECONDS = 0.001
"""What takes less than this at the largest size is quick enough, whatever the clock says about parts of it."""
STEEPEST = 1.3
"""Four times as much may take so many times four times as long."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A function that reads foreign bytes."""

    read: Callable[[bytes], object]
    most: int  #: bytes that it takes
    root: str = ""  #: element in which the text stands
    names: str = ""  #: elements and other pieces that it looks for, between spaces; ~ stands for a space


def of_text(read: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda body: read(body.decode("latin-1"))


def of_notes(read: Callable[[str, list[reader.Lenience]], object]) -> Callable[[bytes], object]:
    return lambda body: read(body.decode("latin-1"), [])


def text(read: Callable[[str], object], most: int, names: str = "", root: str = "") -> Reader:
    return Reader(of_text(read), most, root, names)


def export(begin: Callable[[ExportedTable], statistics_import.ExportReader]) -> Callable[[bytes], object]:
    def read(body: bytes) -> None:
        found = begin(ExportedTable.HOST)
        for place in range(0, len(body), 1 << 21):
            found.receive(body[place : place + (1 << 21)])
        found.close()

    return read


def compared(name: str, kind: str) -> Callable[[bytes], object]:
    def read(body: bytes) -> None:
        rule, specs = comparison.parse_comparison(kind), (OutputSpec(open_name=name, max_nbytes=10**9),)
        comparison.usable(rule, {name: body}, specs)
        comparison.compare(rule, {name: body}, {name: body + b"1"})

    return read


def upload_header(body: bytes) -> None:
    parser = upload.UploadHeaderParser()
    for place in range(0, len(body), 1000):
        if parser.receive_data(body[place : place + 1000]):
            return
    parser.end_of_body()


def gui_rpc_calls(body: bytes) -> None:
    gui_rpc.GuiRpcConnection(password="", local=True, nonce="1").receive_data(body + gui_rpc.END)


def multipart(body: bytes) -> None:
    async def once() -> AsyncGenerator[bytes, None]:
        yield body

    headers = Headers({"content-type": "multipart/form-data; boundary=a"})
    asyncio.run(MultiPartParser(headers, once(), max_files=1, max_fields=site.MAX_FORM_FIELDS).parse())


def launcher_file(body: bytes) -> None:
    path = Path("init_data.xml")
    path.write_bytes(body)
    cobblestone_runtime.read_init_data(str(path))


REFUSALS = (MultiPartException, HTTPException, MalformedRangeHeader, RangeNotSatisfiable)
"""How libraries refuse."""
MB = 1 << 20
QUERY = "email_addr=a@b.c passwd_hash=1 user_name= account_key= team_ids=1, & % + ;"
READERS: dict[str, Reader] = {
    # requests to a project
    "wire.scheduler.request:parse_scheduler_request": Reader(
        request.parse_scheduler_request,
        reader.MAX_REQUEST_BYTES,
        "scheduler_request",
        "result stderr_out file_info error_msg msg_from_host global_preferences coprocs coproc_cuda coproc_opencl other_results"
        " other_result app_versions app_version coproc in_progress_results host_info hostid",
    ),
    "wire.scheduler.report:without_long_stderr": Reader(report.without_long_stderr, 80_000_000, names="stderr_out result"),
    "wire.project.remote_submission:parse_call": Reader(
        remote_submission.parse_call, remote_submission.MAX_BYTES, "submit_batch",
        "batch job input_file input_template source command_line name job_name batch_name md5 job_params",
    ),
    "wire.project.remote_submission:action_of": Reader(remote_submission.action_of, remote_submission.MAX_BYTES, names="?xml"),
    "wire.project.remote_submission:authenticator_of": Reader(remote_submission.authenticator_of, 65_536, names="authenticator"),
    "wire.project.upload:UploadHeaderParser.receive_data": Reader(
        upload_header, upload.MAX_HEADER_BYTES, "data_server_request", "name nbytes get_file_size data"
    ),
    "wire.project.upload:legal_file_name": text(upload.legal_file_name, 300, "a. .."),
    "wire.project.account:parse_web_query": text(account.parse_web_query, account.MAX_QUERY, QUERY),
    "wire.project.account:parse_lookup_account": text(account.parse_lookup_account, account.MAX_QUERY, QUERY),
    "wire.project.account:parse_create_account": text(account.parse_create_account, account.MAX_QUERY, QUERY),
    "wire.project.account:parse_am_get_info": text(account.parse_am_get_info, account.MAX_QUERY, QUERY),
    "wire.project.account:parse_am_set_info": text(account.parse_am_set_info, account.MAX_QUERY, QUERY),
    "wire.project.account:parse_login_token_lookup": text(account.parse_login_token_lookup, account.MAX_QUERY, QUERY),
    "wire.project.account:parse_team_lookup": text(account.parse_team_lookup, account.MAX_QUERY, QUERY),
    "wire.project.account:parse_member_query": text(account.parse_member_query, account.MAX_QUERY, QUERY),
    "wire.project.account:legal_email_addr": text(account.legal_email_addr, account.MAX_EMAIL, "a@ a. a@a."),
    "wire.project.preferences:read_global_preferences": Reader(
        of_notes(preferences.read_global_preferences), preferences.MAX_TEXT,
        "global_preferences", 'venue mod_time venue~name="home"',
    ),
    "wire.project.preferences:parse_global_preferences": text(
        preferences.parse_global_preferences, preferences.MAX_TEXT, "venue max_ncpus_pct", "global_preferences"
    ),
    "wire.project.preferences:read_computing": text(
        preferences.read_computing, preferences.MAX_TEXT, 'venue venue~name="home" max_ncpus_pct start_hour', "global_preferences"
    ),
    "wire.project.preferences:read_project": text(
        preferences.read_project, preferences.MAX_TEXT, 'venue~name="home" app_id project_specific', "project_preferences"
    ),
    "wire.project.preferences:read_project_preferences": text(
        preferences.read_project_preferences, preferences.MAX_TEXT,
        "venue app_id max_jobs project_specific", "project_preferences",
    ),
    "wire.project.signatures:verify_upload_signature": text(
        lambda body: signatures.verify_upload_signature(b"s", "a", 1, body), upload.MAX_HEADER_BYTES
    ),
    "domain.job_table:decode_table": Reader(job_table.decode_table, 8_000_000),
    "domain.job_table:read_table": text(lambda body: list(job_table.read_table(body, ["a"])), 8_000_000, 'a,b\n "a\n ;'),
    # outputs of jobs, and what jobs say
    "policy.validation.comparison:compare": Reader(compared("x.txt", "numeric"), 200_000_000, names="1e 1.1 nan -3e+"),
    "policy.validation.comparison:usable": Reader(compared("x.csv", "numeric"), 200_000_000, names="1e 1, 1; 'a',"),
    "policy.validation.documents:read_document": Reader(
        lambda body: documents.read_document("x.json", body, archives.ReadLimits()), 200_000_000, names='{"a": [1, 1e'
    ),
    "policy.validation.documents:read_npy": Reader(
        lambda body: documents.read_npy(b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body, archives.ReadLimits()),
        60_000,
        names="{'descr': '<f8', (1, (",
    ),
    "policy.validation.archives:gunzip": Reader(
        lambda body: archives.gunzip(archives.GZIP_MAGIC + body, archives.ReadLimits()), 200_000_000
    ),
    "policy.validation.archives:unzip": Reader(
        lambda body: archives.unzip(archives.ZIP_MAGIC + body, archives.ReadLimits()), 200_000_000, names="PK\x05\x06 PK\x01\x02"
    ),
    "policy.validation.numeric:as_number": text(numeric.as_number, MB, "1e 1. +1"),
    "store.work.rows:last_words": text(last_words, reader.MAX_STDERR, "called~boinc_finish(\n called~"),
    # pages
    "service.languages:best_of": text(languages.best_of, 64_000, "en; en;q=0."),
    "service.pages.fields:number_problem": text(lambda body: fields.number_problem(body, 0, 1), 8000),
    "service.pages.fields:parse_number": text(fields.parse_number, 8000, "1, 1e"),
    "service.pages.wording:tidy_numbers": text(wording.tidy_numbers, 8000, "1.1 1.1e 1e+1"),
    "service.pages.site:Site.own_address": text(site.Site.own_addresses.fullmatch, 8000, "a_.php?A=%2"),
    "service.pages.site:Visit.form_with_file": Reader(
        multipart, 5 * MB, names="--a\r\n \r\n--a \r\n- content-disposition:~form-data;~name=a\r\n"
    ),
    "starlette.requests:cookie_parser": text(cookie_parser, 64_000, "a=b; \\1"),
    "starlette.responses:FileResponse": text(
        lambda body: FileResponse._parse_range_header(f"bytes={body}", 1 << 40), 64_000, "1-2, 0-, -1,"
    ),
    "domain.texts:folder_name": text(lambda body: folder_name(body, "a"), 64_000, "con. .."),
    "domain.texts:markup_in": text(markup_in, 64_000),
    "domain.texts:without_markup": text(without_markup, 64_000),
    "domain.job_form:legal_name": text(legal_name, 64_000, "a. .."),
    "domain.job_form:find_placeholders": text(lambda body: find_placeholders([body]), 64_000, "{input: {arg:a} {{"),
    # exports of other projects, and what projects tell each other
    "wire.project.statistics_import:split_files": Reader(
        statistics_import.split_files, 10_000_000, "db_dump", "enumeration table filename recs_per_file"
    ),
    "wire.project.statistics_import:parse_tables": text(
        statistics_import.parse_tables, 10_000_000, "badges badge title update_time", "tables"
    ),
    "wire.project.statistics_import:gpu_models": text(statistics_import.gpu_models, 200_000, '[ {"coprocs": ['),
    "wire.project.statistics_import:resolved": text(statistics_import.resolved, 200_000, "&#195;"),
    "wire.project.statistics_import:ExportReader.receive": Reader(
        export(lambda table: statistics_import.ExportReader(table, statistics_import.row_maker(table))),
        20_000_000, "hosts", "host misc id p_model",
    ),
    "statistics.ingest:ColumnReader.records": Reader(export(ColumnReader), 20_000_000, "hosts", "host misc id p_model"),
    "wire.project.scales:parse_project_scales": Reader(
        scales.parse_project_scales, scales.MAX_BYTES, "version_scales", "app_version app_name"
    ),
    "wire.project.scales:parse_published_scales": Reader(
        scales.parse_published_scales, scales.MAX_BYTES, "published_scales", "plan_class_scale scale"
    ),
    # replies that a client or an account manager reads
    "wire.scheduler.reply:parse_scheduler_reply": Reader(
        reply.parse_scheduler_reply, tree.MAX_BYTES, "scheduler_reply",
        "file_info url result workunit file_ref app_version message text project_preferences code_sign_key rss_feeds rss_feed",
    ),
    "wire.scheduler.job:read_app_info": Reader(
        lambda body: job.read_app_info(body, platform="a", cpu_flops=1.0), MB, "app_info", "app file_info app_version file_ref"
    ),
    "wire.project.pages:parse_project_config": Reader(
        pages.parse_project_config, pages.MAX_PAGE, "project_config", "terms_of_use platforms platform"
    ),
    "wire.project.pages:parse_account_out": Reader(pages.parse_account_out, pages.MAX_PAGE, "account_out", "authenticator"),
    "wire.project.pages:parse_account_set": Reader(pages.parse_account_set, pages.MAX_PAGE, "am_set_info_reply", "success"),
    "wire.project.pages:parse_weak_key": Reader(
        pages.parse_weak_key, pages.MAX_PAGE, "am_get_info_reply", "weak_auth global_prefs"
    ),
    "wire.project.pages:scheduler_urls": Reader(
        pages.scheduler_urls, pages.MAX_PAGE, names="scheduler link link~rel='boinc_scheduler'~href='"
    ),
    "wire.project.pages:is_cobblestone": Reader(pages.is_cobblestone, pages.MAX_PAGE, names="meta"),
    "wire.project.pages:read_rss": Reader(pages.read_rss, pages.MAX_FEED_BYTES, "channel", "item title description pubDate"),
    "wire.project.pages:canonical_master_url": text(pages.canonical_master_url, 64_000, "http:// a/ [ @"),
    "wire.project.pages:folder_of": text(pages.folder_of, 64_000, "http:// /"),
    "wire.project.upload:parse_upload_reply": Reader(
        upload.parse_upload_reply, upload.MAX_HEADER_BYTES, "data_server_reply", "status message"
    ),
    "wire.project.signatures:decode_public_key": text(signatures.decode_public_key, 100_000, "1024\n 0a"),
    "wire.project.signatures:decode_private_key": text(signatures.decode_private_key, 100_000, "1024\n 0a"),
    "wire.client.account_manager:parse_manager_reply": Reader(
        account_manager.parse_manager_reply, tree.MAX_BYTES, "acct_mgr_reply", "account message opaque no_rsc url_signature"
    ),
    "wire.client.account_manager:parse_manager_request": Reader(
        account_manager.parse_manager_request, account_manager.MAX_REQUEST, "acct_mgr_request",
        "project url results result name project_url opaque host_info coprocs alt_platform",
    ),
    "wire.client.account_manager:key_of_address": text(account_manager.key_of_address.__wrapped__, 64_000, "http:// :80 a/ ?"),
    # files and programs on a volunteer's computer
    "wire.client.config:parse_file": Reader(lambda body: config.parse_file(body, "a"), config.MAX_FILE_BYTES, "a"),
    "wire.client.config:read_preferences": Reader(
        config.read_preferences, config.MAX_FILE_BYTES, "global_preferences", "venue mod_time day_prefs start_hour max_cpus"
    ),
    "wire.client.config:override_preferences": Reader(
        lambda body: config.override_preferences(config.ComputingPreferences(), body),
        config.MAX_FILE_BYTES, "global_preferences", "mod_time idle_time_to_run day_prefs",
    ),
    "wire.client.config:read_client_config": Reader(
        config.read_client_config, config.MAX_FILE_BYTES, "cc_config", "options log_flags exclude_gpu proxy_info"
    ),
    "wire.client.config:read_app_config": Reader(
        config.read_app_config, config.MAX_FILE_BYTES, "app_config", "app name app_version no_rsc gpu_versions"
    ),
    "wire.client.gui_rpc:GuiRpcConnection.receive_data": Reader(
        gui_rpc_calls, gui_rpc.MAX_REQUEST, "boinc_gui_rpc_request", "get_state auth2 nonce_hash cc_config \x03"
    ),
    "wire.client.state_file:state_tree": Reader(state_file.state_tree, tree.MAX_BYTES, "client_state", "host_info project"),
    "wire.client.state_file:read_whole_state": Reader(
        state_file.read_whole_state, tree.MAX_BYTES, "client_state",
        "host_info project workunit result file app app_version active_task_set active_task stderr_out coprocs",
    ),
    "wire.client.state_file:read_account": Reader(
        lambda body: state_file.read_account(body, ProjectRecord(master_url="http://a.example/", authenticator="")),
        tree.MAX_BYTES, "account", "authenticator project_preferences",
    ),
    "wire.client.state_file:read_statistics": Reader(
        state_file.read_statistics, tree.MAX_BYTES, "project_statistics", "daily_statistics day"
    ),
    "wire.client.state_excerpt:anonymise_state": Reader(
        state_excerpt.anonymise_state, tree.MAX_BYTES, "client_state", "host_info project workunit result coprocs coproc"
    ),
    "wire.client.task_messages:read_result_name": text(task_messages.read_result_name, MB, "result_name"),
    "wire.client.task_messages:read_status": text(task_messages.read_status, 1024, "fraction_done"),
    "wire.client.task_messages:read_graphics": text(task_messages.read_graphics, 1024, "web_graphics_url"),
    "wire.client.task_messages:read_soft_link": text(task_messages.read_soft_link, MB, "soft_link"),
    "wire.client.task_messages:read_task_state": text(task_messages.read_task_state, 5000, "fraction_done", "active_task"),
    "wire.client.task_messages:read_variety": text(task_messages.read_variety, MB, "variety"),
    "wire.client.task_messages:read_run_time": text(task_messages.read_run_time, MB, "runtime"),
    "launcher.cobblestone_runtime:read_init_data": Reader(launcher_file, MB, "app_init_data", "result_name wu_name"),
    # templates that people bring
    "wire.project.templates:parse_input_template": text(
        templates.parse_input_template, templates.MAX_TEMPLATE_CHARS,
        "file_info workunit file_ref url number open_name", "input_template",
    ),
    "wire.project.templates:parse_output_template": text(
        templates.parse_output_template, templates.MAX_TEMPLATE_CHARS,
        "file_info result file_ref name OUTFILE_0", "output_template",
    ),
    # what several of these consist of
    "wire.text.reader:unescape": text(reader.unescape, MB),
    "wire.text.reader:unescape_html": text(reader.unescape_html, MB, "&not &#9"),
    "wire.text.reader:read_stderr": Reader(of_notes(reader.read_stderr), 8 * MB, names="stderr_txt message core_client_version"),
    "wire.text.reader:read_trickle": Reader(of_notes(reader.read_trickle), 8 * MB, names="variety time result_name"),
    "wire.text.tree:read_tree": Reader(lambda body: tree.read_tree(body, "root", ("b",)), tree.MAX_BYTES, "root", "b c"),
}  # fmt: skip

COMMON = (
    *(
        "<",
        "<a",
        "<a>",
        "<a><b>",
        "</a>",
        "</",
        "</ ",
        "<a/>",
        "<a>1</a>",
        "<a ",
        "<a b='",
        "<a b='1'/>",
        "<a>1</b>",
        "< a >",
    ),
    *(
        "<?",
        "<?xml",
        "<!--",
        "<!-- -->",
        "<!",
        "<![CDATA[",
        "<![CDATA[]]>",
        "<a><![CDATA[",
        "]]>",
        "<!DOCTYPE a",
        "<!ENTITY ",
    ),
    *("&", "&#", "&#9", "&#195;", "&amp;", "&amp", "&#x", "&a;", "%41", "%"),
    *(
        " ",
        "\n",
        "\r\n",
        "\t",
        "\0",
        "\x80",
        "9",
        "a",
        ".",
        "-",
        "+",
        "e",
        "1e",
        ",",
        ";",
        ":",
        "=",
        "&a=b",
        "/",
        "\\",
        "@",
        "_",
    ),
    *("'", '"', "'a',", '"a":', "[", "{", "(", "[]", "]", "}", "x" * 100 + "\n", "1 ", "1.5,"),
)
Make = Callable[[int], str]


def repeated(pump: str, head: str = "") -> Make:
    return lambda size: head + pump * ((size - len(head)) // len(pump))


def halves(first: str, second: str) -> Make:
    return lambda size: repeated(first)(size // 2) + repeated(second)(size // 2)


def numbered(form: str, head: str = "", tail: str = "") -> Make:
    return lambda size: head + "".join(form % number for number in range(size // (len(form) + 3))) + tail


def of_element(name: str, following: str) -> Iterator[Make]:
    tag, opening, closing = f"<{name}", f"<{name}>", f"</{name.partition(' ')[0]}>"
    yield from map(
        repeated,
        (
            tag,
            opening,
            closing,
            f"{opening} ",
            f"{opening}1",
            f"{opening}<b>",
            f"{opening}<![CDATA[",
            f"{tag}/>",
        ),
    )
    yield from map(
        repeated,
        (
            f"{opening}1{closing}",
            f"{opening}{closing}",
            f"{opening}<b>1</b>{closing}",
            f"{opening}<![CDATA[]]>{closing}",
        ),
    )
    yield from (
        repeated(pump, opening) for pump in (" ", "9", "a", "&", "]]>", "<b>", "<b/>", "<b>1</b>", "0a\n")
    )
    yield from (repeated(pump, tag) for pump in (" ", " b='1'"))
    yield from (
        halves(opening, closing),
        halves("<b/>", f"{opening}1{closing}"),
        halves(f"{opening}1{closing}", "<b/>"),
    )
    yield numbered(f"{opening}%d{closing}")
    if following:
        other, end = f"<{following}>", f"</{following.partition(' ')[0]}>"
        yield from map(
            repeated,
            (
                opening + other,
                opening + end,
                opening + other + end,
                other + closing,
                opening + other + "1" + end + closing,
            ),
        )
        yield from (
            halves(opening, end),
            repeated(f"{other}1{end}", opening),
            halves(opening + closing, other + end),
        )


def attacks(names: str) -> Iterator[Make]:
    """Return what makes texts of any size."""
    yield from map(repeated, COMMON)
    yield from (
        numbered(" a%d='1'", "<a", "/>"),
        numbered(" xmlns:a%d='1'", "<a", "/>"),
        numbered("<a%d>"),
        numbered("<a%d/>"),
    )
    yield from (
        numbered("a%d=1&"),
        numbered("%d,"),
        numbered('"a%d":1,', "{", "}"),
        halves("<a>", "</a>"),
        halves("[", "]"),
    )
    known = [name.replace("~", " ") for name in names.split(" ")]
    for name, following in zip(known, [*known[1:], known[0]], strict=True):
        if re.match(r"[A-Za-z]\w*( |$)", name):
            yield from of_element(name, following)
        elif name:
            yield from (
                repeated(name),
                repeated(" ", name),
                repeated("9", name),
                repeated(name, "9"),
                halves(" ", name),
                halves(name, "9"),
            )


def seconds(name: str, body: bytes, tries: int) -> float:
    """The least processor time of several tries."""
    found: list[float] = []
    for _ in range(tries):
        began = time.process_time()
        with contextlib.suppress(CobblestoneError, *REFUSALS):
            READERS[name].read(body)
        found.append(time.process_time() - began)
    return min(found)


def too_steep(name: str, make: Make) -> str:
    """Say how a reader's time grows, if that is faster than the text."""
    known = READERS[name]
    frame = f"<{known.root}>{{}}</{known.root}>" if known.root else "{}"
    largest = min(known.most, LARGEST) - len(frame)

    def taken(share: int, tries: int) -> float:
        text = frame.replace("{}", make(largest // share))
        return seconds(name, text.encode("latin-1", "replace"), tries)

    longest = taken(1, 1)
    if longest < FLOOR_SECONDS or longest <= STEEPEST * 4 * taken(4, 1):
        return ""
    for rounds in (5, 15, 45):  # in turns, for a neighbour may slow this machine for longer than a try takes
        times = [tuple(taken(share, 1) for share in (4, 2, 1)) for _ in range(rounds)]
        growth = median(longest / max(4 * quarter, 2 * half) for quarter, half, longest in times)
        if growth <= STEEPEST or min(longest for *_, longest in times) < FLOOR_SECONDS:
            return ""
    least = ", ".join(f"{1000 * min(each):.1f}" for each in zip(*times, strict=True))
    return f"{make(60)[:60]!r}: {least} ms for a quarter, a half, all of {largest} bytes"


@pytest.mark.parametrize("name", READERS)
def test_the_time_of_a_reader_grows_with_the_text_alone(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert [found for make in attacks(READERS[name].names) if (found := too_steep(name, make))] == []


# -- the list is complete ---------------------------------------------------------------------------------

ROOMS = (
    *(
        "wire",
        "policy/validation",
        "service/http",
        "service/pages",
        "service/languages.py",
        "statistics/ingest.py",
    ),
    *("domain/texts.py", "domain/job_form.py", "domain/job_table.py", "launcher/cobblestone_runtime.py"),
)
"""Where bytes and texts of strangers are read."""
READING = re.compile(
    r"(parse|read|receive|split|unescape|gunzip|unzip|data_received|decode|legal|canonical|verify)(_|$)"
)
"""Names of functions that read."""
FOREIGN = {"body", "data", "content", "chunk", "query", "page", "misc", "raw", "block", "accepted"}
"""Names of what they read."""
TEXTS = re.compile(r"\b(str|bytes|bytearray|memoryview)\b")
WITHIN = {
    "wire.text.table:FieldTable.read_named": "wire.scheduler.request:parse_scheduler_request",
    "wire.project.preferences:read_user_keywords": "wire.scheduler.request:parse_scheduler_request",
    "wire.text.reader:scan_fields": "wire.scheduler.request:parse_scheduler_request",
    "wire.scheduler.request_layout:take_apart": "wire.scheduler.request:parse_scheduler_request",
    "wire.scheduler.report:read_trickles": "wire.scheduler.request:parse_scheduler_request",
    "wire.scheduler.host:read_coproc": "wire.scheduler.request:parse_scheduler_request",
    "wire.text.reader:strip_control_bytes": "wire.scheduler.request:parse_scheduler_request",
    "wire.text.reader:read_verbatim": "wire.project.preferences:read_global_preferences",
    "wire.project.statistics_import:ExportReader.records": "wire.project.statistics_import:ExportReader.receive",
    "wire.scheduler.job:read_file_name": "wire.scheduler.reply:parse_scheduler_reply",
    "wire.scheduler.job:read_hex_text": "wire.scheduler.reply:parse_scheduler_reply",
    "wire.text.reader:decode": "wire.project.preferences:read_global_preferences",
    "service.languages:chosen": "service.languages:best_of",
    "wire.client.config:read_switch": "wire.client.config:read_client_config",
    "wire.client.config:read_number": "wire.client.config:read_preferences",
}
"""Functions that only work inside of a reader of the list."""
NO_READERS = {
    "wire.project.signatures:sign_bytes": "hashes",
    "wire.project.signatures:verify_bytes": "hashes",
    "wire.project.signatures:verify_md5": "as verify_upload_signature",
    "policy.validation.comparison:parse_comparison": "the project's own rule",
    **dict.fromkeys(
        (
            f"policy.validation.comparison:{kind}.parse"
            for kind in ("ComparisonKind", "Numeric", "PythonFunction")
        ),
        "the project's own rule",
    ),
    "service.http.api:read_json": "msgspec",
    "service.http.connections:GuardedConnection.data_received": "httptools",
    "service.http.connections:GuardedConnection.on_body": "httptools",
    "service.http.lean:LeanConnection.data_received": "httptools",
    "service.http.requests:answer": "our own answer",
    "service.http.requests:read_all": "what shortens is on the list",
    "service.pages.pictures:small_picture": "Pillow",
    "service.pages.site:Site.in_language": "a page's name",
    "service.pages.site:Site.let_in": "a page's name",
    "service.pages.texts:news_feed": "writes",
    "service.pages.site:Visit.go": "a page's name",
    "service.pages.site:Visit.go_on": "a page's name",
    "launcher.cobblestone_runtime:read_app": "the project's own description",
    "launcher.cobblestone_runtime:parse_job": "the project's own command",
}
"""Functions with such names that take no text of strangers apart."""


def readers_in(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[str]:
    """Yield the public functions that read texts, by their names or by those of their arguments."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from readers_in(node, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith(
            ("_", "write_")
        ):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            texts = {
                each.arg
                for each in arguments
                if each.annotation and TEXTS.search(ast.unparse(each.annotation))
            }
            if (texts and READING.match(node.name)) or texts & FOREIGN:
                yield prefix + node.name


def all_readers() -> set[str]:
    found: set[str] = set()
    for room in ROOMS:
        for path in [PACKAGE / room] if room.endswith(".py") else sorted((PACKAGE / room).rglob("*.py")):
            module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
            found |= {f"{module}:{name}" for name in readers_in(ast.parse(path.read_text(encoding="utf-8")))}
    return found


def test_every_reader_is_on_the_list() -> None:
    listed = READERS.keys() | WITHIN.keys() | NO_READERS.keys()
    assert sorted(all_readers() - listed) == []
    assert set(WITHIN.values()) <= READERS.keys()


def test_a_new_reader_is_found() -> None:
    for source in (
        "def read_news(text: str): ...",
        "def parse(sent: bytes | None = None): ...",
        "class New:\n    def take(self, body: bytes): ...",
        "async def whole(*, data: memoryview): ...",
    ):
        assert list(readers_in(ast.parse(source)))
    for source in (
        "def write_news(text: str): ...",
        "def _read(text: str): ...",
        "def escape(text: str): ...",
    ):
        assert not list(readers_in(ast.parse(source)))


PARSERS = re.compile(r"(csv|lxml|html\.parser|xml|email\.parser|http\.cookies|starlette\.formparsers)(\.|$)")
"""Modules and libraries that take texts apart."""
ELSEWHERE = {
    "server.web.presentation.standing": "writes",
    "statistics.web.site": "writes",
    "sdk.api.batch": "writes",
    "server.api.submission.files": "writes",
    "credit_lab.bench.report": "writes",
    "simulator.world.host_tables": "the researcher's own files",
    "simulator.paper.figures": "writes",
    "simulator.paper.golden": "its own table",
    "simulator.frontier.fresh": "writes",
    "simulator.frontier.compare": "writes",
}
"""Modules outside of the rooms that use one of them, and for what."""


def test_nothing_is_taken_apart_elsewhere() -> None:
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        source = path.read_text(encoding="utf-8")
        if not place.as_posix().startswith(ROOMS) and re.search(
            r"import.*(csv|lxml|html|xml|email|http|starlette)", source
        ):
            for node in ast.walk(ast.parse(source)):
                names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                if any(map(PARSERS.match, names)):
                    found.add(".".join(place.with_suffix("").parts))
    assert sorted(found - ELSEWHERE.keys()) == []


def test_a_text_of_signs_that_begin_nothing_is_given_up_soon() -> None:
    for body in (b"<" * MB, b"<![CDATA[]]>" * MB, b"</ " * MB):
        with pytest.raises(RemoteProtocolError, match="more than"):
            tree.read_tree(b"<root>" + body + b"</root>", "root")


# -- beside the event loop --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("long", "short"),
    [
        (bytes(SHORT + 1), bytes(SHORT)),
        (b"<" * (LITTLE + 1), b"<" * LITTLE),
        (b"<" * (FEW + 1) + bytes(LITTLE), b"<" * FEW + bytes(LITTLE)),
        ("<" * (FEW + 1) + " " * LITTLE, "<" * FEW + " " * LITTLE),
    ],
    ids=["bytes", "little", "elements", "elements of a text"],
)
def test_a_long_message_is_read_beside_the_event_loop_and_a_short_one_at_once(long: Any, short: Any) -> None:
    async def read() -> tuple[object, object]:
        others_go_on = threading.Event()
        task = asyncio.create_task(read_aside(lambda _: others_go_on.wait(10), long))
        await asyncio.sleep(0)  # it begins
        others_go_on.set()
        return await task, await read_aside(lambda _: threading.get_ident(), short)

    assert asyncio.run(read()) == (True, threading.get_ident())


ON_THE_LOOP = {
    *(f"wire.project.remote_submission:{name}" for name in ("action_of", "authenticator_of")),
    "wire.project.upload:UploadHeaderParser.receive_data",
    "wire.project.upload:legal_file_name",
    "wire.project.upload:parse_upload_reply",
    *(f"wire.project.account:{name}" for name in ("parse_web_query", "parse_lookup_account", "parse_create_account")),
    *(f"wire.project.account:parse_{name}" for name in ("am_get_info", "am_set_info", "login_token_lookup")),
    *(f"wire.project.account:{name}" for name in ("parse_team_lookup", "parse_member_query", "legal_email_addr")),
    *(f"wire.project.pages:{name}" for name in ("canonical_master_url", "folder_of")),
    *(f"wire.project.signatures:{name}" for name in ("verify_upload_signature", "decode_public_key")),
    "wire.project.preferences:read_project_preferences",
    "wire.client.account_manager:key_of_address",
    *(f"wire.client.task_messages:{name}" for name in ("read_result_name", "read_status", "read_graphics")),
    *(f"wire.client.task_messages:{name}" for name in ("read_soft_link", "read_variety", "read_task_state")),
    *(f"service.pages.fields:{name}" for name in ("number_problem", "parse_number")),
    *("service.languages:best_of", "service.pages.wording:tidy_numbers"),
    *(f"service.pages.site:{name}" for name in ("Site.own_address", "Visit.form_with_file")),
    *("starlette.requests:cookie_parser", "starlette.responses:FileResponse"),
    *("domain.texts:markup_in", "domain.job_form:legal_name", "domain.job_form:find_placeholders"),
}  # fmt: skip
"""Readers that an event loop calls itself, because their longest text is read soon enough."""
ASIDE = {
    "wire.scheduler.request:parse_scheduler_request",
    "wire.scheduler.reply:parse_scheduler_reply",
    *(f"wire.project.pages:parse_{name}" for name in ("project_config", "account_out", "account_set", "weak_key")),
    *(f"wire.project.pages:{name}" for name in ("scheduler_urls", "is_cobblestone", "read_rss")),
    *(f"wire.project.preferences:{name}" for name in ("parse_global_preferences", "read_computing", "read_project")),
    *(f"wire.client.account_manager:parse_manager_{name}" for name in ("reply", "request")),
    "wire.client.gui_rpc:GuiRpcConnection.receive_data",
    "wire.project.statistics_import:split_files",
}  # fmt: skip
"""Readers whose long texts are read in a thread, see `read_aside`.

All others are called within these, in threads and processes of their own (databases, statistics, comparisons), in commands, or
for the volunteer's own files.
"""
AT_ONCE_SECONDS = 0.005
SLOW_MACHINE = 4.0
"""So many times longer may it take here, with two busy neighbours: what is not mended takes ten times as long and more."""


@pytest.mark.parametrize("name", sorted(ON_THE_LOOP | ASIDE))
def test_what_an_event_loop_reads_itself_is_read_at_once(name: str) -> None:
    known = READERS[name]
    frame = f"<{known.root}>{{}}</{known.root}>" if known.root else "{}"
    longest = (known.most if name in ON_THE_LOOP else SHORT) - len(frame)
    for make in attacks(known.names):
        body, size = frame.replace("{}", make(longest)).encode("latin-1", "replace"), longest
        while name in ASIDE and not is_short(body):
            size = size * 7 // 8
            body = frame.replace("{}", make(size)).encode("latin-1", "replace")
        if seconds(name, body, 1) > SLOW_MACHINE * AT_ONCE_SECONDS:
            assert seconds(name, body, 10) < SLOW_MACHINE * AT_ONCE_SECONDS, make(60)


def own_calls(node: ast.AST) -> Iterator[str]:
    """Yield the names of the functions that a coroutine calls itself: functions within it go to threads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield ast.unparse(child.func).rpartition(".")[2]
        if not isinstance(child, ast.FunctionDef | ast.Lambda):
            yield from own_calls(child)


def test_no_coroutine_reads_a_long_message_itself() -> None:
    assert READERS.keys() >= ON_THE_LOOP | ASIDE
    found: list[str] = []
    for path in PACKAGE.rglob("*.py"):
        place, source = path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")
        mentioned = {
            name
            for owner, name in (re.findall(r"\w+", each)[-2:] for each in READERS.keys() - ON_THE_LOOP)
            if owner in source and f"{name}(" in source
        }
        if mentioned and "async def" in source:
            for function in ast.walk(ast.parse(source)):
                if isinstance(function, ast.AsyncFunctionDef):
                    found += (f"{place}: {name}" for name in mentioned & set(own_calls(function)))
    assert sorted(found) == []
