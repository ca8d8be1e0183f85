"""Recorded scheduler requests are read to the last field."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest
from tests.helpers.wire_captures import Recorded, scheduler_requests

from cobblestone.wire.scheduler.request import SchedulerRequest, parse_scheduler_request
from cobblestone.wire.text.reader import LenienceKind

EXPECTED = Path(__file__).parent / "requests"
REQUESTS = scheduler_requests()
each_request = pytest.mark.parametrize("recorded", REQUESTS, ids=[r.id for r in REQUESTS])


def as_json(request: SchedulerRequest) -> str:
    values = dataclasses.asdict(request) | {"unsaid": sorted(request.unsaid)}
    return json.dumps(values, indent=1, ensure_ascii=False) + "\n"


@each_request
def test_a_recorded_request_gives_the_blessed_values(recorded: Recorded, bless: bool) -> None:
    expected = EXPECTED / f"{recorded.id}.json"
    found = as_json(parse_scheduler_request(recorded.body))
    if bless:
        expected.write_text(found, encoding="utf-8")
    assert json.loads(found) == json.loads(
        expected.read_text(encoding="utf-8")
    )  # whatever the order of the fields


def test_there_is_one_blessed_file_for_each_recorded_request() -> None:
    assert {path.stem for path in EXPECTED.glob("*.json")} == {recorded.id for recorded in REQUESTS}
    assert len(REQUESTS) >= 15


@each_request
def test_nothing_in_a_recorded_request_needs_lenience(recorded: Recorded) -> None:
    assert parse_scheduler_request(recorded.body).leniences == ()


@each_request
def test_the_general_parser_reads_the_same_from_a_recorded_request(recorded: Recorded) -> None:
    quick = parse_scheduler_request(recorded.body)
    unusual = recorded.body.replace(b"<hostid>", b"<!-- a comment forces the general parser -->\n<hostid>", 1)
    general = parse_scheduler_request(unusual)
    assert [lenience.kind for lenience in general.leniences] == [LenienceKind.UNUSUAL_LAYOUT]
    assert dataclasses.replace(general, leniences=()) == quick


@each_request
def test_line_ends_between_elements_do_not_matter(recorded: Recorded) -> None:
    quick = parse_scheduler_request(recorded.body)
    dense = parse_scheduler_request(re.sub(rb">[ \n]+<", b"><", recorded.body))
    for field in ("host_info", "time_stats", "app_versions", "other_results", "sticky_files", "platforms"):
        assert getattr(dense, field) == getattr(quick, field)
    assert [r.files for r in dense.results] == [r.files for r in quick.results]
    assert dense.leniences == ()
