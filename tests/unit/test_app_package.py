"""What a scientist says about a program, and what is made of it before anything is sent."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from cobblestone.api_schema.apps import ComparisonBody, InputSlotBody, LimitsBody, OutputBody, RulesBody
from cobblestone.client.records.identity import platforms as own_platforms
from cobblestone.domain.apps import HEAD_NBYTES, PLATFORMS, POSIX, platforms_of_program
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.sdk.app_definition import ProjectFunctions, parse_seconds, parse_size
from cobblestone.sdk.packing.app_package import (
    Command,
    Templates,
    command_platforms,
    read_templates,
    split_command,
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scientist's folder."""
    (tmp_path / "period.py").write_text("print(1)\n")
    (tmp_path / "table").write_text("1,2,3\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(command: str, *files: str, stdout: str = "") -> None:
    Command(words=split_command(command), files=[Path(name) for name in files], stdout=stdout).check()


def test_a_good_command_passes():
    check("python3 period.py {input} {output}", "period.py")
    check("python3 -c 'print(1)' {input}", stdout="result.txt")
    Path("start.py").write_text("#!/usr/bin/env python3\nprint(1)\n")
    check("./start.py {output}", "start.py")


@pytest.mark.parametrize(
    ("command", "files", "mentions"),
    [
        ("python3 period.py {input} {output}", [], "--files period.py"),
        ("python3 period.py {input} {output}", ["other.py"], "other.py does not exist"),
        ("python3 period.py {input} {output}", ["."], "is a folder"),
        ("python3 period.py {input}", ["period.py"], "no {output}"),
        ("python3 period.py {input} > {output}", ["period.py"], "--stdout"),
        ("python3 /somewhere/period.py {input} {output}", [], "without its folder"),
        ("python3 ../period.py {input} {output}", [], "without its folder"),
        ("python3 'period.py {input} {output}", ["period.py"], "quotes"),
        ("python3 period.py {inptu} {output}", ["period.py"], "Did you mean {input}"),
        ("python3 period.py {input:period} {output}", ["period.py"], "period_data"),
        ("./period.py {input} {output}", ["period.py"], '--command "python3 period.py {input} {output}"'),
        ("period.py {input} {output}", ["period.py"], "it is unknown what starts it"),
        ("./table {input} {output}", ["table"], "no computer can start it"),
    ],
)
def test_mistakes_are_found_before_anything_is_sent(command: str, files: list[str], mentions: str):
    with pytest.raises(JobError) as raised:
        check(command, *files)
    assert mentions in str(raised.value)


def pe(machine: int) -> bytes:
    return b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0" + struct.pack("<H", machine) + bytes(20)


def elf(machine: int, *, abi: int = 0, big: bool = False) -> bytes:
    order = ">" if big else "<"
    return (
        b"\x7fELF"
        + bytes((2, 2 if big else 1, 1, abi))
        + bytes(8)
        + struct.pack(f"{order}HH", 2, machine)
        + bytes(40)
    )


FAT = struct.pack(">II", 0xCAFEBABE, 2) + b"".join(
    struct.pack(">5I", cpu, 0, 0, 0, 0) for cpu in (0x01000007, 0x0100000C)
)


@pytest.mark.parametrize(
    ("head", "platforms"),
    [
        (elf(62), ("x86_64-pc-linux-gnu",)),
        (elf(3), ("i686-pc-linux-gnu", "x86_64-pc-linux-gnu")),
        (elf(183), ("aarch64-unknown-linux-gnu",)),
        (elf(62, abi=9), ("x86_64-pc-freebsd",)),
        (elf(21, big=True), ()),
        (pe(0x8664), ("windows_x86_64",)),
        (pe(0x14C), ("windows_intelx86", "windows_x86_64")),
        (b"MZ" + bytes(100), ()),
        (struct.pack("<II", 0xFEEDFACF, 0x0100000C), ("arm64-apple-darwin",)),
        (FAT, ("x86_64-apple-darwin", "arm64-apple-darwin")),
        (struct.pack(">II", 0xCAFEBABE, 65), None),  # a Java class
        (b"#!/bin/bash\n", POSIX),
        (b"\x7fELF", None),
        (b"MZ", None),
        (b"", None),
        (b"1,2,3\n", None),
    ],
)
def test_the_first_bytes_tell_where_a_program_can_be_started(head: bytes, platforms: tuple[str, ...] | None):
    assert platforms_of_program(head) == platforms


def test_a_real_program_of_this_machine_is_known():
    with Path(sys.executable).open("rb") as program:
        assert own_platforms()[0] in (platforms_of_program(program.read(HEAD_NBYTES)) or ())


@given(
    start=st.sampled_from([b"", b"MZ", b"\x7fELF", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe"]),
    rest=st.binary(max_size=120),
)
def test_any_first_bytes_are_a_program_or_none(start: bytes, rest: bytes):
    found = platforms_of_program(start + rest)
    assert found is None or set(found) <= set(PLATFORMS)


@pytest.mark.parametrize(
    ("command", "files", "wanted", "platforms"),
    [
        ("python3 a.py", {"a.py": b""}, (), ("any",)),
        ("python3 a.py", {"a.py": b""}, ("windows_x86_64",), ("windows_x86_64",)),
        ("./run.sh {output}", {"run.sh": b"#!/bin/bash\n"}, (), POSIX),
        ("bash run.sh", {"run.sh": b""}, ("arm64-apple-darwin",), ("arm64-apple-darwin",)),
        ("cat {input}", {}, (), POSIX),
        ("sh run.sh", {"run.sh": b"", "hello": elf(62)}, (), ("x86_64-pc-linux-gnu",)),
        ("./run.sh", {"run.sh": b"#!/bin/sh\n", "hello": elf(183)}, (), ("aarch64-unknown-linux-gnu",)),
        ("sh run.sh", {"run.sh": b"", "data.exe": pe(0x8664)}, (), POSIX),
        ("hello {output}", {"hello": elf(62)}, (), ("x86_64-pc-linux-gnu",)),
        (
            "python3 a.py",
            {"a.py": b"", "l": elf(62), "w.exe": pe(0x8664)},
            (),
            ("x86_64-pc-linux-gnu", "windows_x86_64"),
        ),
    ],
)
def test_platforms_follow_from_what_a_command_starts(
    command: str, files: dict[str, bytes], wanted: tuple[str, ...], platforms: tuple[str, ...]
):
    assert command_platforms(command.split(), files, wanted) == platforms


@pytest.mark.parametrize(
    ("head", "wanted", "says"),
    [
        (elf(62), ("windows_x86_64",), "hello can be started on x86_64-pc-linux-gnu only"),
        (elf(21, big=True), (), "no BOINC client"),
    ],
)
def test_a_platform_that_cannot_start_the_program_is_refused(head: bytes, wanted: tuple[str, ...], says: str):
    with pytest.raises(JobError, match=says):
        command_platforms(["./hello"], {"hello": head}, wanted)


def test_a_script_whose_first_line_ends_as_windows_ends_lines_is_refused_where_it_is_started_by_name(
    here: Path,
):
    (here / "run.sh").write_bytes(b"#!/bin/sh\r\necho 1\r\n")
    with pytest.raises(JobError, match=r"Unix line ends"):
        check("./run.sh {output}", "run.sh")
    (here / "a.py").write_bytes(b"#!/usr/bin/env python3\r\nprint(1)\r\n")
    check("python3 a.py {output}", "a.py")


def test_two_files_of_one_name_are_refused(here: Path):
    (here / "sub").mkdir()
    (here / "sub" / "period.py").write_text("")
    with pytest.raises(JobError, match="Two files are called"):
        check("python3 period.py {output}", "period.py", "sub/period.py")


def test_a_file_with_the_launcher_s_name_is_refused(here: Path):
    (here / "cobblestone_app.json").write_text("{}")
    with pytest.raises(JobError, match="cobblestone_app"):
        check("cat {output}", "cobblestone_app.json")


def test_python_means_the_interpreter_of_the_launcher():
    assert split_command("python period.py 'a b'") == ["python3", "period.py", "a b"]


@pytest.mark.parametrize(
    ("text", "nbytes"), [("1000", 1000), ("500MB", 5e8), ("2 GiB", 2 * 2**30), ("1.5k", 1500), ("1e3", 1000)]
)
def test_sizes_are_read(text: str, nbytes: float):
    assert parse_size(text, "--disk") == nbytes


@pytest.mark.parametrize("text", ["", "MB", "-1", "1XB", "1e30", "nan", "0", "1.2.3", "ten"])
def test_what_is_no_size_is_refused(text: str):
    with pytest.raises(ConfigError, match=r"^--disk: .*500MB"):
        parse_size(text, "--disk")


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60), ("36h", 129600), ("7d", 604800), ("90min", 5400), ("1m", 60)]
)
def test_times_are_read(text: str, seconds: float):
    assert parse_seconds(text, "--delay-bound") == seconds


@pytest.mark.parametrize("text", ["", "7 days", "-1h", "1y", "0s", "inf"])
def test_what_is_no_time_is_refused(text: str):
    with pytest.raises(ConfigError, match=r"^--delay-bound: .*36h"):
        parse_seconds(text, "--delay-bound")


def test_only_given_limits_are_sent():
    assert msgspec.json.encode(LimitsBody(rsc_memory_bound=5e8)) == b'{"rsc_memory_bound":500000000.0}'


# -- functions of the project ----------------------------------------------------------------------------------


def functions(folder: Path | None, *beside: str) -> ProjectFunctions:
    return ProjectFunctions(folder, "period", beside=[Path(name) for name in beside])


def test_a_function_is_copied_into_the_project(here: Path):
    (here / "merge.py").write_text("import spectrum\ndef take(workunit): ...\n")
    (here / "spectrum.py").write_text("x = 1\n")
    project = here / "project"
    project.mkdir()
    assert functions(project, "spectrum.py").assimilator("merge.py:take") == "functions/period/merge.py:take"
    copied = {path.name for path in (project / "functions" / "period").iterdir()}
    assert copied == {"merge.py", "spectrum.py"}


def test_a_function_in_the_project_s_folder_stays_there(here: Path, monkeypatch):
    project = here / "project"
    project.mkdir()
    (project / "merge.py").write_text("take = print\n")
    assert functions(project).assimilator("merge.py:take") == "merge.py:take"
    monkeypatch.chdir(project)
    assert functions(project).assimilator("merge.py:take") == "merge.py:take"
    assert not (project / "functions").exists()


def test_a_remote_project_checks_functions_itself():
    assert functions(None).assimilator("functions/merge.py:take") == "functions/merge.py:take"
    assert functions(None).comparison("python:check.py:same") == ComparisonBody(
        kind="python", options={"function": "check.py:same"}
    )


@pytest.mark.parametrize(
    ("reference", "mentions"),
    [
        ("merge.py", "FILE.py:function"),
        ("merge:take", "FILE.py:function"),
        ("gone.py:take", "no file gone.py"),
        ("merge.py:tkae", "It has: take"),
        ("broken.py:take", "never closed"),
    ],
)
def test_a_wrong_reference_is_refused(here: Path, reference: str, mentions: str):
    (here / "merge.py").write_text("def take(workunit): ...\n")
    (here / "broken.py").write_text("def take(\n")
    with pytest.raises(ConfigError) as raised:
        functions(here / "project").assimilator(reference)
    assert mentions in str(raised.value)


def test_an_assimilator_may_be_a_folder_or_nothing():
    assert functions(None).assimilator("folder:results/x") == "folder:results/x"
    assert functions(None).assimilator("") == ""


def test_comparisons_are_read():
    assert functions(None).comparison("bitwise") == ComparisonBody()
    assert functions(None).comparison("numeric:rtol=1e-3,nan_equal=true").options == {
        "rtol": 1e-3,
        "atol": 0.0,
        "nan_equal": "true",
    }
    with pytest.raises(ConfigError, match="numeric"):
        functions(None).comparison("nummeric")


def test_a_comparison_of_a_package_is_for_the_server_to_know():
    assert functions(None).comparison("words") == ComparisonBody(kind="words")
    assert functions(None).comparison("words:case=keep,by=line").options == {"case": "keep", "by": "line"}


# -- templates of the family -------------------------------------------------------------------------------------

INPUT = """<input_template>
<file_info><number>0</number><sticky/></file_info>
<workunit>
  <file_ref><file_number>0</file_number><open_name>in</open_name><copy_file/></file_ref>
  <command_line>--fast</command_line><rsc_fpops_est>1e12</rsc_fpops_est><min_quorum>2</min_quorum>
</workunit>
</input_template>"""
OUTPUT = """<output_template>
<file_info><name><OUTFILE_0/></name><generated_locally/><upload_when_present/><max_nbytes>1000</max_nbytes>
<url><UPLOAD_URL/></url><gzip_when_done/></file_info>
<result><file_ref><file_name><OUTFILE_0/></file_name><open_name>out</open_name><optional/></file_ref></result>
</output_template>"""


def test_templates_become_members_of_an_app(here: Path):
    (here / "in.xml").write_text(INPUT)
    (here / "out.xml").write_text(OUTPUT)
    app = read_templates(here / "in.xml", here / "out.xml")
    assert app == Templates(
        inputs=[InputSlotBody(name="in", open_name="in", copy_file=True, sticky=True)],
        outputs=[OutputBody(name="out", max_nbytes=1000, gzip=True, optional=True, copy_file=False)],
        command_line="--fast",
        limits=LimitsBody(rsc_fpops_est=1e12),
        rules=RulesBody(min_quorum=2),
    )


def test_ignored_elements_of_a_template_are_told(here: Path):
    (here / "in.xml").write_text(
        INPUT.replace("</workunit>", "<credit>8.5</credit><keywords>1</keywords></workunit>")
    )
    with pytest.warns(UserWarning, match=r"in\.xml, line 6: <keywords> has no effect here"):
        assert read_templates(here / "in.xml", None).credit == 8.5


def test_a_wrong_template_is_named_with_its_line(here: Path):
    (here / "out.xml").write_text(OUTPUT.replace("max_nbytes", "max_bytes"))
    with pytest.raises(JobError, match=r"out\.xml, line 2"):
        read_templates(None, here / "out.xml")
    with pytest.raises(ConfigError, match=r"gone\.xml cannot be read"):
        read_templates(here / "gone.xml", None)


def test_files_that_are_the_same_for_every_job_belong_to_the_version(here: Path):
    (here / "in.xml").write_text(INPUT.replace("<sticky/>", "<physical_name>table.dat</physical_name>"))
    with pytest.raises(JobError, match="--files"):
        read_templates(here / "in.xml", None)
