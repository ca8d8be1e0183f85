from __future__ import annotations

import contextlib
import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.errors import JobError
from cobblestone.domain.job_form import (
    InputSlot,
    JobForm,
    check_open_names,
    find_placeholders,
    legal_name,
    open_name_for,
    output_names,
)
from cobblestone.launcher import app_description, job_command_line


def found(command: str):
    return find_placeholders(shlex.split(command))


def test_placeholders_are_found_in_order_and_once():
    placeholders = found(
        "p {input} --grid={input:grid} {output} {output:r.csv} {arg:k} {arg:k} {input} {ncpus} {{x}}"
    )
    assert placeholders.inputs == ("input", "grid")
    assert placeholders.outputs == ("r.csv",)
    assert placeholders.nameless_output
    assert placeholders.arguments == ("k",)
    assert not placeholders.all_inputs


def test_all_inputs_may_be_asked_for():
    assert found("p {inputs} {output}").all_inputs


@pytest.mark.parametrize(
    ("command", "mentions"),
    [
        ("p {inptu}", "{input}"),
        ("p {outputt}", "{output}"),
        ("p {args:k}", "{arg:NAME}"),
        ("p {arg}", "Known"),
        ("p {}", "Known"),
        ("p {checkpoint}", "{checkpoint_period}"),
        ("p {ncpus:3}", "Known"),
        ("p {input", "single '{'"),
        ("p input}", "single '}'"),
        ("p x{inputs}", "stand alone"),
        ("p {input:a/b}", "'a/b'"),
        ("p {input:..}", "'..'"),
        ("p {output:}", "''"),
    ],
)
def test_a_mistake_is_named_with_its_word(command: str, mentions: str):
    with pytest.raises(JobError) as raised:
        found(command)
    assert mentions in str(raised.value)
    assert shlex.split(command)[-1] in str(raised.value)


@pytest.mark.parametrize("words", [[], [""], ["  "], ["x"] * 1001, ["x" * 20_001]])
def test_a_command_has_a_sensible_length(words: list[str]):
    with pytest.raises(JobError, match="command is"):
        find_placeholders(words)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_any_words_are_a_command_or_a_clear_mistake(words: list[str]):
    with contextlib.suppress(JobError):
        find_placeholders(words)


@given(
    st.lists(
        st.sampled_from(
            ["{input}", "{input:a}", "{output}", "{output:b}", "{arg:k}", "{ncpus}", "{{", "}}", "x", "="]
        ),
        min_size=1,
        max_size=6,
    ).map("".join)
)
def test_the_launcher_understands_every_command_that_is_accepted(word: str):
    words = ["python3", word]
    find_placeholders(words)
    app_description(words)


# -- outputs -------------------------------------------------------------------------------------------------


def test_a_nameless_output_is_the_first_declared_one():
    assert output_names(found("p {output}"), []) == ("output",)
    assert output_names(found("p {output}"), ["r.csv"]) == ("r.csv",)
    assert output_names(found("p {output:b}"), ["a"]) == ("a", "b")
    assert output_names(found("p"), [], stdout="log.txt") == ("log.txt",)


def test_a_command_without_outputs_is_refused_with_the_ways_out():
    with pytest.raises(JobError) as raised:
        output_names(found("p {input}"), [])
    for way in ("{output}", "--output", "--stdout"):
        assert way in str(raised.value)


@pytest.mark.parametrize("name", ["con", "NUL", "lpt1", "com9.txt", "results."])
def test_names_that_windows_does_not_allow_are_refused_where_they_are_entered(name: str):
    for word in (f"{{input:{name}}}", f"{{output:{name}}}"):
        with pytest.raises(JobError, match=re.escape(repr(name))):
            find_placeholders(["p", word])
    assert find_placeholders(["p", f"{{arg:{name}}}"]).arguments == (name,), "an argument is no file"


@pytest.mark.parametrize("name", ["a/b", "..", ".hidden", "-x", "a b", "x" * 61, "ü"])
def test_an_output_is_a_plain_file_name(name: str):
    with pytest.raises(JobError, match="output name"):
        output_names(found("p"), [name])
    assert not legal_name(name)


# -- names in the program's folder -------------------------------------------------------------------------------


def form(*slots: str) -> JobForm:
    return JobForm(command=("p",), inputs=tuple(InputSlot(name=name) for name in slots))


@pytest.mark.parametrize(
    ("files", "slots", "outputs", "mentions"),
    [
        (["stderr.txt"], [], [], "launcher or the client"),
        (["a.py"], [], ["a.py"], "app's files"),
        (["input.py"], ["input"], [], "{input:input_data}"),
        ([], ["table"], ["table.csv"], "'table.csv'"),
        ([], ["stderr"], [], "'stderr.txt'"),
        (["data.csv"], ["data.csv"], [], "'data.csv'"),
        (["Stderr.TXT"], [], [], "launcher or the client"),
        (["a.py"], [], ["A.py"], "app's files"),
        (["Input.py"], ["input"], [], "{input:input_data}"),
        (["data.py", "Data.py"], [], [], "Rename the file"),
        ([".."], [], [], "ends with a dot"),
        (["aux.dat"], [], [], "device name on Windows"),
        ([], [], ["out."], "ends with a dot"),
    ],
)
def test_files_that_would_collide_are_refused(files, slots, outputs, mentions):
    with pytest.raises(JobError) as raised:
        check_open_names(files, form(*slots), outputs, ["stderr.txt"])
    assert mentions in str(raised.value)


def test_files_that_do_not_collide_are_accepted():
    check_open_names(["data.py"], form("input", "data.csv"), ["output", "data.txt"], ["stderr.txt"])


@pytest.mark.parametrize(
    ("slot", "file_name", "expected"),
    [
        ("input", "low.json", "input.json"),
        ("input", "a.b.json", "input.json"),
        ("input", "archive.tar.gz", "input.tar.gz"),
        ("input", "x.gz", "input.gz"),
        ("input", "noext", "input"),
        ("input", ".hidden", "input"),
        ("input", "trailing.", "input"),
        ("input", "odd.sfx with space", "input"),
        ("input", "", "input"),
        ("data.csv", "low.json", "data.csv"),
    ],
)
def test_an_input_keeps_the_suffix_of_the_given_file(slot: str, file_name: str, expected: str):
    assert open_name_for(InputSlot(name=slot), file_name) == expected


def test_a_fixed_open_name_stays():
    assert open_name_for(InputSlot(name="a", open_name="in.dat"), "x.json") == "in.dat"


@given(st.text(max_size=60), st.sampled_from(["input", "a.b"]))
def test_names_of_inputs_are_always_plain(file_name: str, slot: str):
    name = open_name_for(InputSlot(name=slot), file_name)
    assert legal_name(name)
    assert job_command_line(inputs={"x": name}) == f"--input x={name}"


def test_only_forms_without_fixed_inputs_take_any():
    assert JobForm().takes_any_inputs
    assert JobForm(command=("p", "{inputs}")).takes_any_inputs
    assert not form("input").takes_any_inputs
    assert not JobForm(command=("p",)).takes_any_inputs
