"""What a terminal shows while the doctor looks."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.console import Console

from cobblestone.api_schema.operation import Check
from cobblestone.cli.project.upkeep import _Doing
from cobblestone.sdk.api.connection import Unreachable


def _checks(*rows: int, of_about: int = 0) -> list[Check]:
    alike = Check(name="x", promise="", advice="", repair="", only_warns=False, of_about=of_about)
    return [msgspec.structs.replace(alike, rows=n) for n in rows]


def _shown(doing: _Doing) -> str:
    console = Console(width=80)
    with console.capture() as shown:
        console.print(doing)
    return shown.get().rstrip()


def test_rows_are_shown_as_soon_as_some_were_looked_at():
    answers: Iterator[list[Check]] = iter([_checks(0, 0), _checks(0, 1234567)])
    doing = _Doing("2 of 9: totals …", lambda: next(answers))
    assert _shown(doing) == "2 of 9: totals …"
    assert _shown(doing) == "2 of 9: totals … 1,234,567 rows"


def test_how_many_there_will_be_is_shown_until_there_were_more():
    answers: Iterator[list[Check]] = iter([_checks(5000, of_about=20_000), _checks(20_001, of_about=20_000)])
    doing = _Doing("3 of 9: orphans …", lambda: next(answers))
    assert _shown(doing) == "3 of 9: orphans … 5,000 of about 20,000 rows"
    assert _shown(doing) == "3 of 9: orphans … 20,001 rows"


def test_a_server_that_is_gone_is_the_matter_of_the_check_itself():
    def gone() -> list[Check]:
        raise Unreachable("it does not answer")

    assert _shown(_Doing("1 of 9: one_host …", gone)) == "1 of 9: one_host …"
