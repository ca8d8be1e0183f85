from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.errors import JobError
from cobblestone.sdk.api.jobs import Content, Job, as_job, content_of, read_jobs


def read(folder: Path, name: str, text: str, *input_names: str) -> list[Job]:
    (folder / name).write_text(text)
    return list(read_jobs(folder / name, input_names=input_names or ("input",)))


def test_columns_are_inputs_arguments_and_properties(tmp_path: Path):
    jobs = read(
        tmp_path,
        "jobs.csv",
        "\ufeffname,table,input:grid,k,priority\nnorth,t1.csv,g.nc,3,2\n\nsouth,sub/t2.csv,,4,\n",
        "table",
        "grid",
    )
    assert jobs == [
        Job(
            inputs={"table": tmp_path / "t1.csv", "grid": tmp_path / "g.nc"},
            args={"k": "3"},
            name="north",
            priority=2,
        ),
        Job(inputs={"table": tmp_path / "sub/t2.csv"}, args={"k": "4"}, name="south"),
    ]


def test_a_job_with_one_input_is_called_after_it(tmp_path: Path):
    assert read(tmp_path, "jobs.csv", "input\ndata/low.json\n")[0].name == "low"
    assert read(tmp_path, "jobs.csv", f"input\ndata/{'x' * 240}1.json\n")[0].name == "x" * 199 + "1"


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("", "line 1"),
        ("a,,b\n", "line 1"),
        ("a,a\n", "'a' occurs twice"),
        ("a,b\n1,2\n1\n", "line 3: The row has values: 1, but the header has columns: 2"),
        ("priority\nhigh\n", "line 2, column 'priority': 'high'"),
        ('a;b\n1;2\n3;"4\n5;6\n7;8\n', "line 3, column 'b': A quote"),
        ('a,b\n1,"2\n3,"4"\n', "line 2, column 'b': A quote"),
        ('a,b\n"1"2,3\n', "line 2, column 'a': A quote"),
        ("PK\x03\x04", "line 1: This is a packed archive"),
    ],
)
def test_a_wrong_table_is_named_with_its_line(tmp_path: Path, text: str, mentions: str):
    with pytest.raises(JobError, match=r"jobs\.csv") as raised:
        read(tmp_path, "jobs.csv", text)
    assert mentions in str(raised.value)


def test_json_lines_have_a_job_each(tmp_path: Path):
    jobs = read(
        tmp_path,
        "jobs.jsonl",
        '{"inputs": "a.json"}\n\n{"inputs": ["a", "b"], "args": {"k": 3}}\n'
        '{"inputs": {"t": "x"}, "name": "n", "priority": -1, "command_line": "-v"}\n',
    )
    assert jobs == [
        Job(inputs=[tmp_path / "a.json"], name="a"),
        Job(inputs=[tmp_path / "a", tmp_path / "b"], args={"k": 3}),
        Job(inputs={"t": tmp_path / "x"}, name="n", priority=-1, command_line="-v"),
    ]


@pytest.mark.parametrize("line", ["{", '{"input": "a"}', '{"inputs": 3}', '{"args": {"k": [1]}}', "\x00"])
def test_a_wrong_line_is_named(tmp_path: Path, line: str):
    with pytest.raises(JobError, match=r"jobs\.jsonl, line 2"):
        read(tmp_path, "jobs.jsonl", "{}\n" + line + "\n")


def test_other_files_are_refused(tmp_path: Path):
    with pytest.raises(JobError, match=r"\.csv or \.jsonl"):
        read(tmp_path, "jobs.txt", "")
    with pytest.raises(FileNotFoundError):
        list(read_jobs(tmp_path / "gone.csv", input_names=()))
    (tmp_path / "latin.csv").write_bytes(b"name\n\xe9\n")
    with pytest.raises(JobError, match="line 2, column 'name': The text is not UTF-8"):
        list(read_jobs(tmp_path / "latin.csv", input_names=()))


def test_whatever_is_given_becomes_a_job():
    assert as_job("data/low.json", {"k": 1}) == Job(inputs=[Path("data/low.json")], args={"k": 1}, name="low")
    assert as_job(f"{'x' * 240}1.json", {}).name == "x" * 199 + "1"
    assert as_job(b"x", {}) == Job(inputs=[Content(b"x")])
    assert as_job({"a": [1]}, {}) == Job(inputs=[Content(b'{"a":[1]}', "input.json")])
    assert as_job(Job(args={"k": 2}), {"k": 1, "m": 3}).args == {"k": 2, "m": 3}


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(JobError, match="type object"):
        content_of(object())


@given(st.binary(max_size=300), st.sampled_from(["jobs.csv", "jobs.jsonl"]))
def test_any_file_is_a_list_of_jobs_or_a_clear_mistake(tmp_path_factory, content: bytes, name: str):
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    with contextlib.suppress(JobError):
        list(read_jobs(path, input_names=("input",)))
