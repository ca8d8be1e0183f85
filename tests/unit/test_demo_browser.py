"""The demonstration with a browser, as far as it needs no browser; all of it together runs for minutes, with ``make demo``."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cobblestone.cli import run_command
from cobblestone.demo.chromium import Tab, parse_rows
from cobblestone.demo.in_browser import BrowserAnswer, DemoComputer, disagreements, native_platform
from cobblestone.domain.errors import ConfigError

COMPUTERS = {
    1: DemoComputer(title="gabbro", is_browser=False, credit=1.0),
    2: DemoComputer(title="Chrome/140", is_browser=True, credit=1.0),
    3: DemoComputer(title="basalt", is_browser=False, credit=1.0),
}
NATIVE = BrowserAnswer(computer=1, seconds=8.0, credit=1.0, valid=True, nbytes=18_700, md5="a" * 32)
TAB = replace(NATIVE, computer=2)


def test_an_answer_of_a_client_and_the_same_of_a_browser_agree():
    assert disagreements({"one": [NATIVE, TAB], "two": [TAB, NATIVE]}, COMPUTERS) == []


def test_a_byte_that_differs_is_named_with_its_job():
    answers = {"one": [NATIVE, TAB], "two": [NATIVE, replace(TAB, md5="b" * 32)]}
    assert disagreements(answers, COMPUTERS) == ["two: the bytes differ"]


@pytest.mark.parametrize(
    "answers", [[], [TAB], [NATIVE, replace(NATIVE, computer=3)], [NATIVE, replace(TAB, valid=False)]]
)
def test_a_job_that_no_browser_or_no_client_confirmed_is_named(answers: list[BrowserAnswer]):
    assert disagreements({"one": answers}, COMPUTERS) == ["one: not confirmed by a browser and a client"]


def test_a_job_that_a_third_computer_had_to_confirm_is_judged_by_its_valid_answers():
    wrong = replace(NATIVE, computer=3, valid=False, md5="c" * 32)
    assert disagreements({"one": [NATIVE, TAB, wrong]}, COMPUTERS) == []


def test_rows_of_the_page_are_tasks_and_one_that_is_loaded_does_not_compute_yet():
    rows = (
        '[{"name": "Orbit", "state": "computes", "done": 0.25}, {"name": "Orbit", "state": "…", "done": 0}]'
    )
    first, second = parse_rows(rows)
    assert (first.name, first.fraction_done, first.active_task_state) == ("Orbit", 0.25, "EXECUTING")
    assert second.active_task_state == ""
    assert parse_rows("[]") == []


def test_without_chromium_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match="apt-get install chromium"):
        Tab(tmp_path / "tab")


def test_a_processor_without_a_launcher_is_refused_by_name():
    assert native_platform("aarch64") == "aarch64-unknown-linux-gnu"
    with pytest.raises(ConfigError, match="this is riscv64"):
        native_platform("riscv64")


def test_two_demonstrations_at_once_are_refused(tmp_path: Path):
    words = ["demo", "--browser", "--whole-family", "--folder", str(tmp_path / "demo")]
    assert run_command(words) == 2
    assert not (tmp_path / "demo").exists()
