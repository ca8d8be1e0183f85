"""``cobblestone client replay``: logs of events that are written by hand, and what a client has recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cobblestone.cli import run_command

EXAMPLE = Path(__file__).parents[2] / "examples" / "client" / "two_projects.jsonl"
DOCS = Path(__file__).parents[2] / "docs" / "client-core.md"
ATTACHED = '{"event": "ProjectAttached", "now": 0, "project": {"id": "p"}}'


def replay(*arguments: str | Path) -> int:
    return run_command(["client", "replay", *map(str, arguments)])


@pytest.mark.parametrize("policy", ["recent", "own", "published CS2_WF2_WS2_JC2"])
def test_the_example_says_what_the_client_does_and_why(
    policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(EXAMPLE, "--policy", policy, "--alarms") == 0
    text = capsys.readouterr().out
    assert "SuspendTask rain2 (computing is suspended (the computer is in use))" in text
    assert "  rain2 reportable: it is done and waits to be reported" in text
    assert text.index("ContactProject rain") < text.index("StartTask rain1") < text.index("in the end")


def test_the_page_shows_what_the_example_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert replay(EXAMPLE) == 0
    told = capsys.readouterr().out.splitlines()
    shown = DOCS.read_text(encoding="utf-8").split("```text\n")[1].split("```")[0].splitlines()
    rest = iter(told)
    assert all(line == "..." or line in rest for line in shown)


def test_what_was_decided_is_a_log_that_is_compared_when_it_is_played_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(EXAMPLE, "--alarms", "--json") == 0
    text = capsys.readouterr().out
    kept = tmp_path / "log.jsonl"
    kept.write_text(text)
    assert replay(kept, "--json") == 0
    assert capsys.readouterr().out == text
    assert replay(kept, "--policy", "own") == 1
    found = capsys.readouterr()
    assert "(the log has other instructions)" in found.out
    assert "with other instructions than the log" in found.err
    first, *others = text.splitlines()
    entry = json.loads(first)
    kept.write_text("\n".join([json.dumps({**entry, "instructions": []}), *others]))
    assert replay(kept) == 1
    assert "rounds with other instructions than the log: 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 2: not valid JSON"),
        ("\udcff", "line 2: not valid JSON"),
        ("7", "line 2: an event must be an object"),
        ('{"now": 3}', "line 2: a line must be an event"),
        ('{"events": []  , "instructions": 3}', 'line 2: "instructions" must be a list'),
        ('{"event": "Christmas", "now": 3}', "line 2: 'Christmas' is not an event; there are TimePassed"),
        ('{"event": "TimePassed"}', "line 2: this is not a stored TimePassed"),
        ('{"event": "TimePassed", "now": "nan"}', "line 2: nan is not a valid time"),
        ('{"event": "HostOn", "now": "inf"}', "line 2: inf is not a valid time"),
        ('{"event": "JobFinished", "now": 3, "job": "j", "elapsed": 1}', "line 2: job 'j' is not known"),
        ('{"event": "ReplyReceived", "now": 3, "project": "q"}', "line 2: no contact with 'q' is under way"),
        ('{"event": "ContactAsked", "now": 3, "project": "q"}', "line 2: project 'q' is not attached"),
    ],
)
def test_a_slip_of_the_pen_is_named_with_its_line(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(f"{ATTACHED}\n{line}\n".encode(errors="surrogateescape"))
    assert replay(log, "--alarms") == 1
    assert said in " ".join(capsys.readouterr().err.split())


def test_alarms_do_not_ring_for_ever(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = '{"id": "j", "project": "p", "estimate": 1e9, "received": 0, "deadline": 1e10}'
    reply = f'{{"event": "ReplyReceived", "now": 1, "project": "p", "jobs": [{job}]}}'
    log = tmp_path / "log.jsonl"
    log.write_text(f'{ATTACHED}\n{reply}\n{{"event": "TimePassed", "now": 1e15}}\n')
    assert replay(log, "--alarms", "--policy", "own") == 1
    assert "line 3: the alarm has rung 10000 times" in " ".join(capsys.readouterr().err.split())


def test_a_log_that_is_not_there_and_a_policy_that_does_not_exist_are_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert replay(tmp_path / "none") == 1
    assert "none: No such file or directory." in capsys.readouterr().err
    assert replay(EXAMPLE, "--policy", "tarot") == 1
    assert "tarot" in capsys.readouterr().err
