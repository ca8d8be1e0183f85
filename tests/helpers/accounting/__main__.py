"""Simulate an account manager's accounting for 30 days: ``python -m tests.helpers.accounting``."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from tests.helpers.accounting.report import AccountingReport, draw_report, report_on
from tests.helpers.accounting.simulation import SimulationPlan, simulate


def main() -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000, help="computers, cheats included")
    parser.add_argument("--cheats", type=int, default=5, help="of each kind, each with an honest twin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--vouch-for-liar", action="store_true", help="the operator trusts the project that lies"
    )
    parser.add_argument("--picture", type=Path, help="write a picture: .svg, .png or .pdf")
    chosen = parser.parse_args()
    plan = SimulationPlan(hosts=chosen.hosts, cheats=chosen.cheats, seed=chosen.seed)
    report = report_on(simulate(replace(plan, unvouched=frozenset()) if chosen.vouch_for_liar else plan))
    if chosen.picture is not None:
        draw_report(report, chosen.picture)
    show(report)


def show(report: AccountingReport) -> None:
    """Print the effect of each accounting method on honest people, and what cheats gain."""
    print(
        f"{report.hosts} honest people, {report.cheats} cheats with twins, {report.days:g} days, seed {report.seed}.\n"
        "Falls: share of people whose figure never fell by more than 2 %, and largest fall among 99 % of them.\n"
        "Shown / granted, once all is decided: 1st, 50th and 99th percentile.  Pause: days\n"
        "without growth while computing, 99 %.  Rows, bytes and requests are per computer and day."
    )
    print("way       small falls   99 %  shown              pause   rows  bytes  requests")
    for each in report.ways:
        shown = " ".join(f"{part:.3f}" for part in each.within)
        print(
            f"{each.way:<9} {each.small_falls:11.4f} {each.fall_99:6.4f}  {shown} {each.pause_days[1]:6g} "
            f"{each.rows:6.1f} {each.bytes:6.0f} {each.requests:9.3f}"
        )
    print("\nCheats: shown on the last day / shown to honest twins with the same computers:")
    ways = [each.way for each in report.ways]
    print(f"{'attack':<22}" + "".join(f"{way:>12}" for way in ways))
    for each in report.gains:
        print(f"{each.attack:<22}" + "".join(f"{each.at_end[way]:12.3f}" for way in ways))


if __name__ == "__main__":
    main()
