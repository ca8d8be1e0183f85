"""Output of the simulator of August 2007 for the paper's experiments, and the paper's statements.

The figures were made by compiling that simulator unchanged and running it once per cell with its own random
numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.simulator.paper.cells import (
    BASE,
    Cell,
    additional_buffer_cell,
    buffer_cell,
    mix_cell,
    slack_cell,
    variance_cell,
)

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


def _tight() -> list[Golden]:
    table = {
        2: (0.012, 0, 0.002, 0.004, 0.003, 0.636, 0.134, 0.181, 0.123),
        4: (0.101, 0, 0.133, 0.002, 0.004, 0.840, 0.213, 0.301, 0.604),
        5: (0.094, 0, 0.249, 0.006, 0.008, 0.792, 0.468, 0.362, 0.709),
        8: (0.111, 0, 0.677, 0.000, 0.010, 0.589, 0.753, 0.546, 0.791),
        15: (0.128, 0.015, 0.961, 0.053, 0.060, 0.340, 0.846, 0.824, 0.858),
        20: (0.138, 0.038, 0.940, 0.002, 0.000, 0.280, 0.893, 0.882, 0.891),
    }
    metrics = ("waste", "share_violation", "monotony")
    found: list[Golden] = []
    for m, row in table.items():
        for j, metric in enumerate(metrics):
            for k, policy in enumerate((CS1, BASE, WF1)):
                figure = 4 if policy == WF1 else 1
                cell = mix_cell(m, policy, "literal", tight=True)
                said = (
                    "CS2 below CS1 by more than 0.1 for M > 3"
                    if metric == "waste" and figure == 1 and m > 3
                    else ""
                )
                if figure == 4 and metric == "waste":
                    said = "rises dramatically with M"
                found.append(Golden(figure, f"tight mix {m}, {policy}", cell, metric, row[3 * j + k], said))
                if metric == "waste":
                    found.append(Golden(figure, f"tight mix {m}, {policy}", cell, "idleness", 0.0, "near 0"))
    for policy, waste, violation in ((WF1, 0.854, 0.485), (BASE, 0.0, 0.023)):
        cell = mix_cell(10, policy, "literal", tight=True)
        where = f"tight mix 10, {policy}"
        found.append(Golden(4, where, cell, "waste", waste, "WF2 better by almost 90 %"))
        found.append(Golden(4, where, cell, "share_violation", violation, "WF2 better by almost 50 %"))
    return found


def _printed() -> list[Golden]:
    table = {
        1: (0, 0, 0, 0),
        2: (0.0025, 0.143, 0, 0.143),
        4: (0.0017, 0.191, 0, 0.191),
        10: (0.0103, 0.249, 0, 0.249),
        20: (0.0773, 0.400, 0.0071, 0.727),
    }
    found: list[Golden] = []
    for m, (violation, monotony, cs1_waste, cs1_monotony) in table.items():
        cs2 = mix_cell(m, BASE, "literal", tight=False)
        cs1 = mix_cell(m, CS1, "literal", tight=False)
        wf1 = mix_cell(m, WF1, "literal", tight=False)
        where = f"printed mix {m}"
        found += [
            Golden(
                1,
                f"{where}, {BASE}",
                cs2,
                "waste",
                0.0,
                "CS2 below CS1 by more than 0.1 for M > 3" if m > 3 else "",
            ),
            Golden(1, f"{where}, {BASE}", cs2, "share_violation", violation, "below 0.10"),
            Golden(1, f"{where}, {BASE}", cs2, "monotony", monotony, "rises with M"),
            Golden(1, f"{where}, {CS1}", cs1, "waste", cs1_waste),
            Golden(1, f"{where}, {CS1}", cs1, "monotony", cs1_monotony),
            Golden(1, f"{where}, {BASE}", cs2, "idleness", 0.0, "near 0"),
            Golden(1, f"{where}, {CS1}", cs1, "idleness", 0.0, "near 0"),
            Golden(4, f"{where}, {WF1}", wf1, "waste", 0.0, "rises dramatically with M"),
        ]
    return found


def _slack() -> list[Golden]:
    said = {1.0: "1", 2.0: "0.75", 3.0: "0.24", 4.0: "0.02", 5.0: "0", 10.0: "0", 60.0: "0"}
    ws2 = {1.0: 1.0, 2.0: 0.7476, 3.0: 0.2490, 4.0: 0.0209, 5.0: 0.0, 10.0: 0.0, 60.0: 0.0}
    ws1 = {1.0: 1.0, 2.0: 0.7490, 3.0: 0.2490, 4.0: 0.0209, 5.0: 0.0}
    found = [
        Golden(2, f"slack {s:g}, {BASE}", slack_cell(s, BASE, "literal"), "waste", v, said[s])
        for s, v in ws2.items()
    ]
    found += [
        Golden(2, f"slack {s:g}, {BASE}", slack_cell(s, BASE, "literal"), metric, 0.0, "0")
        for s in ws2
        for metric in ("idleness", "share_violation", "monotony")
    ]
    found += [
        Golden(2, f"slack {s:g}, {WS1}", slack_cell(s, WS1, "literal"), "waste", v) for s, v in ws1.items()
    ]
    return found


def _buffer() -> list[Golden]:
    table = {
        1.0: (1, 1, 1, 1, 1, 1, 1, 1),
        2.0: (0, 0.036, 0.359, 0.484, 0.498, 0.500, 0.500, 0.748),
        3.0: (0, 0, 0, 0, 0, 0.002, 0, 0.249),
        4.0: (0, 0, 0, 0, 0, 0, 0, 0.021),
        5.0: (0, 0, 0, 0, 0, 0, 0, 0),
    }
    said = {1.0: "1 for every buffer", 2.0: "constant from 5 to 7 h"}
    hours = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.4)
    no_minimum = (0.0, 0.034, 0.361, 0.500, 0.500, 0.500, 0.500, 0.748)
    return [
        Golden(
            3,
            f"slack 2, buffer {h:g} h, minimum 0",
            additional_buffer_cell(2.0, h, BASE, "literal"),
            "waste",
            v,
        )
        for h, v in zip(hours, no_minimum, strict=True)
    ] + [
        Golden(
            3,
            f"slack {s:g}, buffer {h:g} h",
            buffer_cell(s, h, BASE, "literal"),
            "waste",
            float(v),
            said.get(s, ""),
        )
        for s, row in table.items()
        for h, v in zip(hours, row, strict=True)
    ]


def _variance() -> list[Golden]:
    table = {
        1.0: (0, 0, 0.278, 0.278, 0.007, 0.007),
        3.0: (0.132, 0.132, 0.462, 0.462, 0.060, 0.060),
        10.0: (0.399, 0.317, 0.318, 0.310, 0.080, 0.024),
        100.0: (0.992, 0.360, 0.000, 0.452, 1.000, 0.448),
        1000.0: (1.000, 0.226, 0.000, 0.774, 1.000, 1.000),
    }
    metrics = ("waste", "idleness", "share_violation")
    found: list[Golden] = []
    for s, row in table.items():
        for j, metric in enumerate(metrics):
            for k, policy in enumerate((WS1, BASE)):
                said = (
                    "WS2 at least 0.2 less waste, 0.2 more idleness, for s > 10"
                    if s > 10 and metric != "share_violation"
                    else ""
                )
                found.append(
                    Golden(
                        5,
                        f"stdev {s:g} x mean, {policy}",
                        variance_cell(s, policy, "literal"),
                        metric,
                        row[2 * j + k],
                        said,
                        chaotic=True,
                    )
                )
    return found


def _errors() -> list[Golden]:
    rows = {JC1: (0.021, 0.421, 0.776, 0.981, 0.996), BASE: (0.021, 0.026, 0.034, 0.035, 0.041)}
    more = {JC1: (0.000, 0.321, 0.628, 0.864, 0.943), BASE: (0.000, 0.006, 0.009, 0.013, 0.017)}
    found: list[Golden] = []
    for slack, table in ((4.0, rows), (5.0, more)):
        for policy, values in table.items():
            for f, value in zip((1.0, 2.0, 3.0, 4.0, 5.0), values, strict=True):
                said = "almost 1" if policy == JC1 and f == 4.0 else ("constant" if policy == BASE else "")
                found.append(
                    Golden(
                        6,
                        f"slack {slack:g}, error {f:g}, {policy}",
                        slack_cell(slack, policy, "literal", error=f),
                        "waste",
                        value,
                        said,
                    )
                )
    return found


def golden() -> tuple[Golden, ...]:
    """Return all known figures."""
    return (*_tight(), *_printed(), *_slack(), *_buffer(), *_variance(), *_errors(), *_relative())


def _relative() -> list[Golden]:
    """Figures of the 2007 code with one change: the server's check compares deadlines with times from now on."""
    what = "deadlines from now"
    found = [
        Golden(2, f"slack {s:g}, {what}", slack_cell(s, BASE, "relative"), "waste", value)
        for s, value in {1.0: 1.0, 2.0: 0.4990, 3.0: 0.2490, 4.0: 0.0209, 5.0: 0.0}.items()
    ]
    table = {
        1.0: (0, 0.278),
        3.0: (0.048, 0.461),
        10.0: (0.132, 0.381),
        100.0: (0.156, 0.603),
        1000.0: (0, 0.970),
    }
    for s, row in table.items():
        cell = variance_cell(s, BASE, "relative")
        for metric, value in zip(("waste", "idleness"), row, strict=True):
            found.append(Golden(5, f"stdev {s:g} x mean, {what}", cell, metric, value, chaotic=True))
    for m, value in {4: 0.101, 8: 0.111, 20: 0.138}.items():
        for policy, expected in ((CS1, value), (BASE, 0.038 if m == 20 else 0.0)):
            cell = mix_cell(m, policy, "relative", tight=True)
            found.append(Golden(1, f"tight mix {m}, {policy}, {what}", cell, "waste", expected))
    return found
