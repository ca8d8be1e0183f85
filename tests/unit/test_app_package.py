"""What a scientist says about a program, and what is made of it before anything is sent."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cobblestone.api_schema.apps import ComparisonBody, InputSlotBody, LimitsBody, OutputBody, RulesBody
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.sdk.app_definition import ProjectFunctions, parse_seconds, parse_size
from cobblestone.sdk.app_package import Command, Templates, read_templates, split_command


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
        ("period.py {input} {output}", ["period.py"], "nothing says what starts it"),
        ("./table {input} {output}", ["table"], "no computer can start it"),
    ],
)
def test_mistakes_are_found_before_anything_is_sent(command: str, files: list[str], mentions: str):
    with pytest.raises(JobError) as raised:
        check(command, *files)
    assert mentions in str(raised.value)


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
    assert parse_size(text) == nbytes


@pytest.mark.parametrize("text", ["", "MB", "-1", "1XB", "1e30", "nan", "0", "1.2.3", "ten"])
def test_what_is_no_size_is_refused(text: str):
    with pytest.raises(ConfigError, match="500MB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60), ("36h", 129600), ("7d", 604800), ("90min", 5400), ("1m", 60)]
)
def test_times_are_read(text: str, seconds: float):
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "7 days", "-1h", "1y", "0s", "inf"])
def test_what_is_no_time_is_refused(text: str):
    with pytest.raises(ConfigError, match="36h"):
        parse_seconds(text)


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
