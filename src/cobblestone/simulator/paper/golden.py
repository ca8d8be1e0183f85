"""Output of the simulator of August 2007 for the paper's experiments, and the paper's statements.

The figures were made by compiling that simulator unchanged and running it once per cell with its own random
numbers; those whose mode is ``relative`` with one change: the server's check compares deadlines with times from now on.
They stand in ``golden.csv``.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

from cobblestone.simulator.paper.cells import Cell, Mode

CS1 = "CS1_WF2_WS2_JC2"
WF1 = "CS2_WF1_WS2_JC2"
WS1 = "CS2_WF2_WS1_JC2"
JC1 = "CS2_WF2_WS2_JC1"


@dataclass(frozen=True, slots=True)
class Golden:
    """One figure of the code of 2007."""

    figure: int
    where: str
    cell: Cell
    metric: str
    value: float
    paper: str = ""  #: what the paper's text says of it
    chaotic: bool = False  #: job sizes are random: one run is one draw from a wide distribution


@cache
def golden() -> tuple[Golden, ...]:
    """Return all known figures."""
    with Path(__file__).with_name("golden.csv").open(newline="", encoding="utf-8") as file:
        return tuple(map(_read, csv.DictReader(file)))


def _read(row: dict[str, str]) -> Golden:
    arguments = (pair.partition("=") for pair in row["values"].split())
    values = tuple((name, float(value)) for name, _, value in arguments)
    return Golden(
        figure=int(row["figure"]),
        where=row["where"],
        cell=Cell(row["preset"], values, row["policy"], cast("Mode", row["mode"])),
        metric=row["metric"],
        value=float(row["value"]),
        paper=row["paper"],
        chaotic=row["chaotic"] == "1",
    )
