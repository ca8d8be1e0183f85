"""``cobblestone credit``: explanation of figures, audit of the ledger, corrections, other credit systems."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from cobblestone.cli.options import Commands, Common, OutputOptions
from cobblestone.cli.output import when

if TYPE_CHECKING:
    from cobblestone.api_schema.operation import CreditExplanation, LedgerAudit, LedgerEntry
    from cobblestone.cli.output import Output
    from cobblestone.credit_lab.accounting_report import AccountingReport

credit_commands = Commands(no_args_is_help=True, help="Explain, check, correct, replay and compare credit.")

ResultArgument = Annotated[str, typer.Argument(metavar="RESULT", help="ID or name of a result.")]


@credit_commands.command("explain")
def explain(result: ResultArgument, common: Common) -> None:
    """Show how the credit of a result was computed, with all numbers."""
    found = common.ask(lambda connected: connected.admin.explain_credit(result))
    common.out.show(found, lines=_explanation(found), essential=[repr(found.granted)])


def _explanation(found: CreditExplanation) -> list[str]:
    lines = [f"Result {found.result_id} {found.name or '(purged)'}: {found.state}"]
    if found.report:
        lines += ["Its report:", *(f"  {each['text']}" for each in found.report)]
    if not found.entries:
        lines.append("No credit yet: it is granted when the result is found valid.")
    for entry in found.entries:
        lines += _entry(entry)
    if found.entries:
        lines.append(f"Granted in total: {found.granted!r}")
    if found.account:
        lines += ["The computer's account:", *(f"  {each['text']}" for each in found.account)]
    return lines


def _entry(entry: LedgerEntry) -> list[str]:
    until = {"trickle": "part of the final grant", "escrow": "until the next check"}.get(entry.kind, "")
    provisional = f" (provisional: {until})" if entry.provisional else ""
    lines = [
        f"Entry {entry.id}, {when(entry.time)}: {entry.kind}{provisional} by {entry.system or 'no system'}",
        (
            f"  host {entry.host_id}, user {entry.user_id}, team {entry.team_id or '-'}, app version"
            f" {entry.app_version_id or '-'}, workunit {entry.workunit_id}"
        ),
        f"  claimed {entry.claimed!r}, granted {entry.granted!r}, at {entry.unit:g} per GFLOPS-day",
    ]
    for name, values in entry.facts.items():
        lines.append(f"  {name}: {_fact(values)}")
    return [*lines, *(f"  - {each['text']}" for each in entry.reasons)]


def _fact(values: Any) -> str:  # JSON: a figure, or figures by name
    if not isinstance(values, dict):
        return str(values)
    named = cast(dict[str, object], values)
    shown = ", ".join(f"{key} {value}" for key, value in named.items() if value not in (0, False, None))
    return shown or "-"


@credit_commands.command("recompute")
def recompute(common: Common) -> None:
    """Recompute every grant, total and average from the ledger; the exit status is 1 if anything differs."""
    audit = common.ask(lambda connected: connected.admin.audit_ledger())
    common.out.show(audit, lines=_audit(audit), essential=["agrees" if audit.agrees else "differs"])
    if not audit.agrees:
        raise typer.Exit(1)


def _audit(audit: LedgerAudit) -> list[str]:
    rows = ", ".join(f"{count} {table.replace('_', ' ')}" for table, count in audit.rows.items())
    lines = [
        f"{audit.entries} entries read, {audit.grants} grants recomputed, {audit.corrections} corrections.",
        f"Compared rows: {rows}.",
    ]
    if audit.agrees:
        return [*lines, "All totals and averages agree with the ledger."]
    lines.append(f"{len(audit.differences) + audit.more} figures differ:")
    lines += [
        f"  {each.table} {each.id} {each.figure}: stored {each.stored!r}, computed {each.computed!r} {each.note}".rstrip()
        for each in audit.differences
    ]
    return lines if not audit.more else [*lines, f"  … and {audit.more} more"]


@credit_commands.command("correct", context_settings={"ignore_unknown_options": True})
def correct(
    result: ResultArgument,
    amount: Annotated[float, typer.Argument(metavar="AMOUNT", help="Negative: credit is taken back.")],
    reason: Annotated[str, typer.Option(help="Reason; the volunteer can read it.")],
    common: Common,
) -> None:
    """Correct the credit of a result with a new entry in the ledger."""
    entry = common.ask(lambda connected: connected.admin.correct_credit(result, amount, reason))
    common.out.show(
        entry,
        lines=[f"Entry {entry.id}: {entry.granted:+g} credit for result {entry.result_id}."],
        essential=[entry.id],
    )


@credit_commands.command("systems")
def systems(common: Common) -> None:
    """List the credit systems that an app can choose."""
    found = common.ask(lambda connected: connected.admin.credit_systems())
    common.out.table(found, ["name", "what it is"], [(each.name, each.summary) for each in found])


@credit_commands.command("compare")
def compare(
    hosts: Annotated[int, typer.Option(min=40, max=100_000, help="Number of computers.")] = 100,
    jobs: Annotated[int, typer.Option(min=500, max=10_000_000, help="Number of jobs.")] = 6000,
    seed: Annotated[int, typer.Option(help="Seed; another one gives other computers and jobs.")] = 1,
    quorum: Annotated[int, typer.Option(min=1, max=2, help="Results that must agree.")] = 2,
    system: Annotated[
        list[str] | None, typer.Option(help="Credit system; can be repeated. Default: every generation.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw gains of attackers: .svg, .png or .pdf.")
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Compare credit systems with a small `creditbench`: honest computers, and a few attacks."""
    from cobblestone.credit_lab.bench.pictures import draw_gains
    from cobblestone.credit_lab.bench.report import tables
    from cobblestone.credit_lab.bench.tasks import small_comparison
    from cobblestone.simulator.report.picture import require_picture

    if picture is not None:
        require_picture(picture)
    found = small_comparison(system or (), hosts=hosts, jobs=jobs, seed=seed, quorum=quorum, progress=out.say)
    if picture is not None:
        draw_gains(found, picture)
    if out.for_programs:
        data = {"hosts": hosts, "jobs": jobs, "seed": seed, "quorum": quorum, "results": found}
        out.show(data, essential=list(dict.fromkeys(each["system"] for each in found)))
        return
    for table in tables(found)[1:]:
        out.say(f"\n{table.title}:")
        out.table([], list(table.columns), table.rows, right=list(table.columns[1:]))


@credit_commands.command("accounting")
def accounting(
    hosts: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Number of computers, cheats included.")
    ] = 1000,
    cheats: Annotated[
        int, typer.Option(min=0, max=1000, help="Number of cheats of each kind, each with an honest twin.")
    ] = 5,
    seed: Annotated[int, typer.Option(help="Seed; another one gives other people.")] = 1,
    vouch: Annotated[
        bool, typer.Option("--vouch-for-liar", help="Let the operator trust the project that lies.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw a picture: .svg, .png or .pdf.")
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Simulate an account manager's accounting for 30 days, with honest people and every kind of cheat."""
    from cobblestone.credit_lab.accounting_report import draw_report, report_on
    from cobblestone.credit_lab.accounting_simulation import SimulationPlan, simulate
    from cobblestone.simulator.report.picture import require_picture

    if picture is not None:
        require_picture(picture)
    plan = SimulationPlan(hosts=hosts, cheats=cheats, seed=seed)
    report = report_on(simulate(replace(plan, unvouched=frozenset()) if vouch else plan))
    if picture is not None:
        draw_report(report, picture)
    if out.for_programs:
        figures = {
            "ways": [asdict(each) for each in report.ways],
            "gains": [asdict(each) for each in report.gains],
        }
        data = {
            "hosts": report.hosts,
            "cheats": report.cheats,
            "days": report.days,
            "seed": report.seed,
            **figures,
        }
        out.show(data, essential=[f"{report.largest_gain('sums'):.3f}"])
        return
    _show_accounting(out, report)


def _show_accounting(shown: Output, report: AccountingReport) -> None:
    """Print the effect of each accounting method on honest people, and what cheats gain."""
    shown.say(
        f"{report.hosts} honest people, {report.cheats} cheats with twins, {report.days:g} days, seed {report.seed}.\n"
        "Falls: share of people whose figure never fell by more than 2 %, and largest fall among 99 % of them.\n"
        "Shown / granted, once all is decided: 1st, 50th and 99th percentile.  Pause: days\n"
        "without growth while computing, 99 %.  Rows, bytes and requests are per computer and day."
    )
    columns = ["way", "small falls", "99 %", "shown", "pause", "rows", "bytes", "requests"]
    rows = [
        (
            each.way,
            f"{each.small_falls:.4f}",
            f"{each.fall_99:.4f}",
            " ".join(f"{part:.3f}" for part in each.within),
            f"{each.pause_days[1]:g}",
            f"{each.rows:.1f}",
            f"{each.bytes:.0f}",
            f"{each.requests:.3f}",
        )
        for each in report.ways
    ]
    shown.table([], columns, rows, right=columns[1:])
    shown.say("\nCheats: shown on the last day / shown to honest twins with the same computers:")
    ways = [each.way for each in report.ways]
    rows = [(each.attack, *(f"{each.at_end[way]:.3f}" for way in ways)) for each in report.gains]
    shown.table([], ["attack", *ways], rows, right=ways)
