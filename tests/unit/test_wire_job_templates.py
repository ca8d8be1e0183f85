"""Templates that people bring from BOINC, and the errors that tell them what is wrong."""

from __future__ import annotations

import pytest

from cobblestone.domain.errors import JobError
from cobblestone.wire.project.templates import (
    BadTemplate,
    TemplateInputFile,
    TemplateOutputFile,
    parse_input_template,
    parse_output_template,
)

INPUT = """<?xml version="1.0"?>
<input_template>
    <!-- two files -->
    <file_info>
        <number>1</number>
        <sticky/>
        <gzip/>
    </file_info>
    <file_info>
        <number>0</number>
        <no_delete>1</no_delete>
    </file_info>
    <workunit>
        <file_ref>
            <file_number>0</file_number>
            <open_name>in</open_name>
            <copy_file/>
        </file_ref>
        <file_ref>
            <file_number>1</file_number>
            <open_name>data/table.csv</open_name>
        </file_ref>
        <command_line>--cpu_time 60</command_line>
        <rsc_fpops_est>1e12</rsc_fpops_est>
        <rsc_memory_bound>128e6</rsc_memory_bound>
        <delay_bound>86400</delay_bound>
        <min_quorum>2</min_quorum>
        <target_nresults>3</target_nresults>
    </workunit>
</input_template>
"""
OUTPUT = """<output_template>
    <file_info>
        <name><OUTFILE_0/></name>
        <generated_locally/>
        <upload_when_present/>
        <max_nbytes>5000000</max_nbytes>
        <url><UPLOAD_URL/></url>
        <gzip_when_done/>
    </file_info>
    <file_info>
        <name><OUTFILE_1/></name>
        <max_nbytes>1e3</max_nbytes>
    </file_info>
    <result>
        <file_ref>
            <file_name><OUTFILE_0/></file_name>
            <open_name>out</open_name>
            <copy_file>1</copy_file>
        </file_ref>
        <file_ref>
            <file_name><OUTFILE_1/></file_name>
            <open_name>log</open_name>
            <optional/>
            <copy_file>0</copy_file>
        </file_ref>
        <report_immediately/>
    </result>
</output_template>
"""


def test_an_input_template_is_read():
    template = parse_input_template(INPUT)
    assert template.files == (
        TemplateInputFile(number=0, open_name="in", no_delete=True, copy_file=True),
        TemplateInputFile(number=1, open_name="data/table.csv", sticky=True, gzip=True),
    )
    assert template.command_line == "--cpu_time 60"
    assert (template.rsc_fpops_est, template.rsc_memory_bound, template.delay_bound) == (1e12, 128e6, 86400)
    assert (template.min_quorum, template.target_nresults) == (2, 3)
    assert (template.rsc_fpops_bound, template.max_error_results) == (None, None)


def test_an_output_template_is_read():
    template = parse_output_template(OUTPUT)
    assert template.files == (
        TemplateOutputFile(
            number=0, open_name="out", max_nbytes=5_000_000, copy_file=True, gzip_when_done=True
        ),
        TemplateOutputFile(number=1, open_name="log", max_nbytes=1000, optional=True),
    )
    assert template.report_immediately


def test_elements_of_old_templates_are_read_and_what_is_ignored_is_told_with_its_line():
    more = (
        "<credit>8.5</credit><rsc_bandwidth_bound>0</rsc_bandwidth_bound>\n<keywords>1 2</keywords>"
        "<app_version_num>603</app_version_num>\n<rsc_flops_est>1</rsc_flops_est></workunit><junk/>"
    )
    template = parse_input_template(INPUT.replace("</workunit>", more), source="in.xml")
    assert (template.credit, template.rsc_bandwidth_bound) == (8.5, 0)
    assert [each[:50] for each in template.warnings] == [
        "in.xml, line 31: <junk> is ignored: expected <file",
        "in.xml, line 30: <keywords> has no effect here",
        "in.xml, line 30: <app_version_num> has no effect h",
        "in.xml, line 31: <rsc_flops_est> is not known in <",
    ]
    output = parse_output_template(OUTPUT.replace("<report_immediately/>", "<priority>1</priority>"))
    (warning,) = output.warnings
    assert "line 26: <priority> is not known in <result>" in warning
    assert not parse_output_template(OUTPUT).warnings


def test_old_templates_without_a_root_are_read():
    old = INPUT.replace("<input_template>", "").replace("</input_template>", "")
    assert parse_input_template(old) == parse_input_template(INPUT)
    old = OUTPUT.replace("<output_template>", "").replace("</output_template>", "")
    assert parse_output_template(old) == parse_output_template(OUTPUT)


def test_without_numbers_files_are_matched_by_order():
    for number in (
        "<number>0</number>",
        "<number>1</number>",
        "<file_number>0</file_number>",
        "<file_number>1</file_number>",
    ):
        assert number in INPUT
    text = INPUT
    for number in (0, 1):
        text = text.replace(f"<number>{number}</number>", "").replace(
            f"<file_number>{number}</file_number>", ""
        )
    files = parse_input_template(text).files
    assert [(f.number, f.open_name, f.sticky) for f in files] == [
        (0, "in", True),
        (1, "data/table.csv", False),
    ]


def test_a_file_on_another_server_and_a_constant_file_are_read():
    remote = (
        "<file_info><url>http://a/f</url><url>http://b/f</url><md5_cksum>" + "AB" * 16 + "</md5_cksum>"
        "<nbytes>5</nbytes><physical_name>f_1</physical_name></file_info>"
        "<workunit><file_ref><open_name>in</open_name></file_ref></workunit>"
    )
    (file,) = parse_input_template(remote).files
    assert (file.urls, file.md5_cksum, file.nbytes) == (("http://a/f", "http://b/f"), "ab" * 16, 5)
    assert file.physical_name == "f_1"


def test_a_job_without_files_has_a_template_too():
    assert parse_input_template("<input_template><workunit/></input_template>").files == ()
    assert parse_output_template("<output_template><result/></output_template>").files == ()


@pytest.mark.parametrize(
    ("change", "line", "problem"),
    [
        (("<rsc_fpops_est>", "<rsc_flops_est>"), 24, "not well-formed"),
        (
            ("<min_quorum>", "<credit>-1</credit><min_quorum>"),
            27,
            "<credit> is '-1': give a number from 0 on",
        ),
        (("1e12", "many"), 24, "<rsc_fpops_est> is 'many': give a number above 0"),
        (("1e12", "nan"), 24, "give a number above 0"),
        (("1e12", ""), 24, "<rsc_fpops_est> is empty"),
        (("<min_quorum>2", "<min_quorum>2.5"), 27, "give a whole number"),
        (("<number>1</number>", "<number>2</number>"), 13, "numbered [0, 2]"),
        (("<number>1</number>", "<number>0</number>"), 9, "input file 0 is described twice"),
        (("<file_number>1<", "<file_number>7<"), 19, "input file 7, which no <file_info> describes"),
        (("<file_number>1<", "<file_number>0<"), 19, "two <file_ref>s use the same input file"),
        (("<open_name>in</open_name>", ""), 14, "no <open_name>"),
        (("<open_name>in<", "<open_name>../in<"), 16, "working directory"),
        (("<open_name>in<", "<open_name>/etc/passwd<"), 16, "working directory"),
        (("<sticky/>", "<sticky>maybe</sticky>"), 6, "write <sticky/>, or 0 or 1"),
        (("<sticky/>", "<url>http://x</url>"), 4, "all three"),
        (("<sticky/>", "<physical_name>a b</physical_name>"), 6, "is not a file name"),
        (("<sticky/>", "<sticky/><sticky/>"), 6, "<sticky> stands twice"),
        (("<command_line>", "<command_line><b/>"), 23, "must hold a text"),
        (("<workunit>", "<job>"), 13, "not well-formed"),
        (
            ("<input_template>\n", "<input_template>\n<workunit/>"),
            13,
            "expected <file_info>s and one <workunit>",
        ),
    ],
)
def test_a_wrong_input_template_is_refused_with_line_and_reason(
    change: tuple[str, str], line: int, problem: str
):
    assert change[0] in INPUT
    with pytest.raises(BadTemplate) as caught:
        parse_input_template(INPUT.replace(*change), source="job_in.xml")
    assert problem in str(caught.value)
    if problem != "not well-formed":
        assert caught.value.line == line
        assert str(caught.value).startswith(f"job_in.xml, line {line}: ")
    assert isinstance(caught.value, JobError)


@pytest.mark.parametrize(
    ("change", "line", "problem"),
    [
        (("<max_nbytes>1e3</max_nbytes>", ""), 10, "<OUTFILE_1/> has no <max_nbytes>"),
        (("<max_nbytes>1e3<", "<max_nbytes>-1<"), 12, "give a whole number"),
        (("<name><OUTFILE_1/></name>", "<name>out</name>"), 11, "<name> must be <OUTFILE_0/>"),
        (("<name><OUTFILE_1/></name>", "<name><OUTFILE_0/></name>"), 10, "<OUTFILE_0/> is described twice"),
        (("<name><OUTFILE_1/></name>", ""), 10, "<name> must be <OUTFILE_0/>"),
        (
            ("<file_name><OUTFILE_1/></file_name>", "<file_name><OUTFILE_5/></file_name>"),
            20,
            "no <file_info> describes",
        ),
        (
            ("<file_name><OUTFILE_1/></file_name>", "<file_name>x<OUTFILE_1/></file_name>"),
            21,
            "<file_name> must be",
        ),
        (
            ("<file_name><OUTFILE_1/></file_name>", "<file_name><OUTFILE_0/></file_name>"),
            14,
            "uses <OUTFILE_1/>",
        ),
        (("<open_name>log</open_name>", ""), 20, "no <open_name>"),
    ],
)
def test_a_wrong_output_template_is_refused_with_line_and_reason(
    change: tuple[str, str], line: int, problem: str
):
    assert change[0] in OUTPUT
    with pytest.raises(BadTemplate) as caught:
        parse_output_template(OUTPUT.replace(*change), source="job_out.xml")
    assert problem in str(caught.value)
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no <workunit>"),
        ("<input_template></input_template>", "no <workunit>"),
        ("<a><input_template/></a>", "outermost element is <a>"),
        ("<!DOCTYPE x><input_template/>", "document types"),
        ("<input_template>", "not well-formed"),
        (" " * 70_000, "more than 65536 characters"),
    ],
)
def test_what_is_no_template_is_refused(text: str, problem: str):
    with pytest.raises(BadTemplate, match=problem):
        parse_input_template(text)


def test_two_references_to_one_file_are_refused():
    ref = "<file_ref><file_number>0</file_number><open_name>in</open_name></file_ref>"
    with pytest.raises(BadTemplate, match="two <file_ref>s use the same input file"):
        parse_input_template(f"<file_info/><workunit>{ref}{ref}</workunit>")
