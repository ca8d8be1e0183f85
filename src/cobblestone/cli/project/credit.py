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
    from cobblestone.credit_lab.comparison import SystemFigures

credit_commands = Commands(help="Explain, check, correct, replay and compare credit.")

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
    return lines


def _entry(entry: LedgerEntry) -> list[str]:
    provisional = " (provisional: part of the final grant)" if entry.provisional else ""
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


@credit_commands.command("replay")
def replay(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="Job log, .csv or .parquet.")],
    system: Annotated[str, typer.Option(help="Credit system; see `credit systems`.")] = "steady",
    unit: Annotated[float, typer.Option(help="Credit per GFLOPS-day.")] = 200.0,
    host_scale_check: Annotated[
        bool, typer.Option("--host-scale-check", help="Use only credit scales of proven hosts.")
    ] = False,
    per_cpu_second: Annotated[
        float, typer.Option(min=0, help="Second system: published average for programs that cannot count.")
    ] = 0.0,
    median_speed: Annotated[
        float, typer.Option(min=0, help="For trickle messages: speed if there is no benchmark.")
    ] = 3.3e9,
    top_speed: Annotated[float, typer.Option(min=0, help="For trickle messages: highest speed.")] = 3.3e9,
    grants: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Write the credit of each line to this file.")
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Show what credit hosts would have got under another system."""
    from cobblestone.credit_lab.figures import ReplayOptions
    from cobblestone.credit_lab.joblog import read_job_log
    from cobblestone.credit_lab.replay import replayed, summary, write_grants
    from cobblestone.policy.credit.book import TrickleRules
    from cobblestone.policy.credit.claims import CreditUnit
    from cobblestone.server.credit.systems import find_system

    known = find_system(system)
    options = ReplayOptions(
        unit=CreditUnit(unit),
        host_scale_check=host_scale_check,
        credit_per_cpu_second=per_cpu_second,
        trickles=TrickleRules(median_speed=median_speed, percentile_95_speed=top_speed),
    )
    jobs = read_job_log(log, system=known.name)
    done, slow = replayed(jobs, known, options)
    if slow:
        out.warn(f"replayed result by result, which takes longer: {slow}")
    if grants is not None:
        write_grants(grants, jobs, done)
    data = summary(jobs, done)
    lines = [
        f"{jobs.length} lines under {system}: {data['granted']!r} credit at {unit:g} per GFLOPS-day.",
        "host: total, recent average per day",
        *(f"  {id_}: {whole!r}, {average!r}" for id_, whole, average, _ in done.hosts.rows()),
    ]
    out.show(data, lines=lines, essential=[repr(data["granted"])])


@credit_commands.command("compare")
def compare(
    hosts: Annotated[int, typer.Option(help="Number of computers.")] = 40,
    jobs: Annotated[int, typer.Option(help="Number of jobs; each is computed by two computers.")] = 1500,
    cheaters: Annotated[int, typer.Option(help="Number of computers that cheat.")] = 2,
    estimate_error: Annotated[
        float, typer.Option(help="Error of the jobs' estimates: standard deviation of the logarithm.")
    ] = 0.3,
    seed: Annotated[int, typer.Option(help="Seed; another one gives another population.")] = 1,
    system: Annotated[
        list[str] | None, typer.Option(help="Credit system; can be repeated. Default: every generation.")
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw a picture: .svg, .png or .pdf.")
    ] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Compare credit systems on a synthetic population whose true work is known, with and without cheaters."""
    from cobblestone.credit_lab.comparison import COMPARED, check_picture, compare, draw_comparison
    from cobblestone.credit_lab.population import PopulationOptions
    from cobblestone.server.credit.systems import find_system

    options = PopulationOptions(
        hosts=hosts, jobs=jobs, cheaters=cheaters, estimate_error=estimate_error, seed=seed
    )
    known = [find_system(name) for name in dict.fromkeys(system or COMPARED)]
    if picture is not None:
        check_picture(picture)
    found = compare(known, options, progress=out.say)
    if picture is not None:
        draw_comparison(found, picture)
    if out.for_programs:
        data = {"population": asdict(options), "systems": [asdict(each) for each in found]}
        out.show(data, essential=[each.system for each in found])
        return
    _show_comparison(out, found)


def _show_comparison(shown: Output, found: list[SystemFigures]) -> None:
    """Print what each system pays, and what cheating gains."""
    shown.say(
        "Level: credit / what the unit pays for the true operations.  Spreads (standard "
        "deviation / mean): of results,\nof results if estimates were exact, of hosts.  Own "
        "builds and newcomers / all.  Number of results until it has settled."
    )
    columns = ["system", "level", "spread", "exact", "hosts", "own", "new", "settled"]
    rows = [
        (
            each.system,
            *(f"{figure:.3f}" for figure in (each.level, each.spread, each.spread_exact, each.spread_hosts)),
            *(f"{figure:.3f}" for figure in (each.own_build, each.newcomers)),
            "never" if each.settled_after is None else str(each.settled_after),
        )
        for each in found
    ]
    shown.table([], columns, rows, right=columns[1:])
    cheats = list(found[0].gains)
    for title, figures in (
        (
            "Cheaters: credit per operation / that of the same computers when honest:",
            [each.gains for each in found],
        ),
        (
            "Other computers: credit per operation beside cheaters / beside honest computers:",
            [each.harm for each in found],
        ),
    ):
        shown.say(f"\n{title}")
        rows = [
            (each.system, *(f"{of_system[cheat]:.3f}" for cheat in cheats))
            for each, of_system in zip(found, figures, strict=True)
        ]
        shown.table([], ["system", *cheats], rows, right=cheats)


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
    from cobblestone.credit_lab.comparison import check_picture

    if picture is not None:
        check_picture(picture)
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
