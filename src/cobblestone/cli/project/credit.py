"""``cobblestone credit``: explanation of figures, audit of the ledger, corrections, other credit systems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, cast

import click

from cobblestone.cli.options import Common
from cobblestone.cli.output import when
from cobblestone.cli.parameters import Argument, Commands, Option

if TYPE_CHECKING:
    from cobblestone.api_schema.operation import CreditExplanation, LedgerAudit, LedgerEntry

credit_commands = Commands(help="Explain, check and correct credit.")

ResultArgument = Annotated[str, Argument(metavar="RESULT", help="ID or name of a result.")]


@credit_commands.verb("explain")
def explain(result: ResultArgument, common: Common) -> None:
    """Show how the credit of a result was computed, with all numbers."""
    found = common.ask(lambda connected: connected.admin.explain_credit(result))
    common.out.show(found, lines=_explanation(found), essential=[repr(found.granted)])


def _explanation(found: CreditExplanation) -> list[str]:
    lines = [f"Result {found.result_id} {found.name or '(purged)'}: {found.state}"]
    if found.report:
        lines += ["Its report:", *(f"  {each['text']}" for each in found.report)]
    if not found.entries:
        lines.append("No credit: it is granted when the result is found valid.")
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


@credit_commands.verb("recompute")
def recompute(common: Common) -> None:
    """Recompute every grant, total and average from the ledger; the exit status is 1 if anything differs."""
    audit = common.ask(lambda connected: connected.admin.audit_ledger())
    common.out.show(audit, lines=_audit(audit), essential=["agrees" if audit.agrees else "differs"])
    if not audit.agrees:
        raise click.exceptions.Exit(1)


def _audit(audit: LedgerAudit) -> list[str]:
    rows = ", ".join(f"{count} {table.replace('_', ' ')}" for table, count in audit.rows.items())
    lines = [
        f"Entries read: {audit.entries}; grants recomputed: {audit.grants}; corrections: {audit.corrections}.",
        f"Compared rows: {rows}.",
    ]
    if audit.agrees:
        return [*lines, "All totals and averages agree with the ledger."]
    lines.append(f"Figures that differ ({len(audit.differences) + audit.more}):")
    lines += [
        f"  {each.table} {each.id} {each.figure}: stored {each.stored!r}, computed {each.computed!r} {each.note}".rstrip()
        for each in audit.differences
    ]
    return lines if not audit.more else [*lines, f"  … and {audit.more} more"]


@credit_commands.verb("correct", context_settings={"ignore_unknown_options": True})
def correct(
    result: ResultArgument,
    amount: Annotated[float, Argument(metavar="AMOUNT", help="Negative: credit is taken back.")],
    reason: Annotated[str, Option(help="Reason; the volunteer can read it.")],
    common: Common,
) -> None:
    """Correct the credit of a result with a new entry in the ledger."""
    entry = common.ask(lambda connected: connected.admin.correct_credit(result, amount, reason))
    common.out.done(
        entry, f"Entry {entry.id}: {entry.granted:+g} credit for result {entry.result_id}.", entry.id
    )


@credit_commands.verb("systems")
def systems(common: Common) -> None:
    """List the credit systems that an app can choose."""
    found = common.ask(lambda connected: connected.admin.credit_systems())
    common.out.table(found, ["name", "what it is"], [(each.name, each.summary) for each in found])
