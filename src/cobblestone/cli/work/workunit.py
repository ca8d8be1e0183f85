"""``cobblestone workunit`` and ``trickle``: single jobs, and messages of running jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import click

from cobblestone.cli.options import Common, PageOptions, given
from cobblestone.cli.output import size, when
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.domain.work import JobState

if TYPE_CHECKING:
    from cobblestone.api_schema.batches import Task, WorkunitDetails


workunit_commands = Commands(help="Single workunits.")
WorkunitArgument = Annotated[
    int,
    Argument(metavar="ID", min=1, help="Number of the workunit; see `workunit list` and `cobblestone find`."),
]
NameArgument = Annotated[str, Argument(metavar="ID|NAME", help="Number or name of the workunit.")]


@workunit_commands.verb("list")
def list_workunits(
    app: Annotated[str | None, Option(metavar="NAME", help="Only those of an app.")] = None,
    batch: Annotated[int | None, Option(metavar="ID", min=1, help="Only those of a batch.")] = None,
    status: Annotated[JobState | None, Option(help="Only those with this status.")] = None,
    page: PageOptions = PageOptions(),
    common: Common = Common(),
) -> None:
    """List workunits, newest first; a filter by app or status searches the newest 20,000."""
    found = common.ask(
        lambda connected: connected.operation.workunits(
            limit=page.limit, before=page.before, app=app, batch=batch, status=status
        )
    )
    common.out.listing(
        found,
        {
            "id": lambda each: each.id,
            "name": lambda each: each.name,
            "job": lambda each: each.label or "-",
            "app": lambda each: each.app,
            "batch": lambda each: each.batch,
            "status": lambda each: each.status,
            "priority": lambda each: each.priority,
            "made": lambda each: when(each.created),
        },
        empty="No workunits.",
        right=("id", "batch", "priority"),
    )


@workunit_commands.verb("show")
def show(workunit: NameArgument, common: Common) -> None:
    """Describe a workunit: limits, rules, and the state of its results."""
    found = common.ask(lambda connected: connected.operation.workunit(workunit))
    common.out.show(found, lines=_lines(found), essential=[found.id])


def _lines(found: WorkunitDetails) -> list[str]:
    return [
        f"Workunit {found.id} ({found.name}{f', job {found.label}' if found.label else ''}), app {found.app}: {found.status}",
        f"  batch        {found.batch or '-'}, created {when(found.created)}, priority {found.priority}",
        f"  inputs       {', '.join(found.inputs) or '-'}",
        f"  quorum       {found.min_quorum} of {found.target_nresults}",
        f"  at most      {found.max_total_results} ({found.max_error_results} failed, {found.max_success_results} successful)",
        f"  estimate     {found.rsc_fpops_est:.3g} FLOPs, aborted beyond {found.rsc_fpops_bound:.3g}",
        (
            f"  bounds       {size(found.rsc_memory_bound)} memory, {size(found.rsc_disk_bound)} disk,"
            f" {found.delay_bound / 3600:g} h to the deadline"
        ),
        *(_task_line(each, found.canonical_result) for each in found.tasks),
        f"What happens to it: cobblestone explain workunit {found.id}",
    ]


def _task_line(task: Task, canonical: int | None) -> str:
    where = f" on host {task.computer}" if task.computer else ""
    state = f"{task.state or 'not sent'}{', canonical' if task.id == canonical else ''}"
    ended = f", reported {when(task.reported)}" if task.reported else ""
    failed = f". {task.exit_meaning}" if task.exit_status else ""
    return f"  result       {task.id} {task.name}{where}: {state}{ended}{failed}"


@dataclass(frozen=True, kw_only=True)
class RuleOptions:
    """Editable rules of an unfinished workunit."""

    priority: int | None = None
    """Higher priorities are sent first."""
    max_error_results: Annotated[int | None, Option(min=0)] = None
    """Most failed results."""
    max_total_results: Annotated[int | None, Option(min=1)] = None
    """Most results in total."""
    max_success_results: Annotated[int | None, Option(min=1)] = None
    """Most successful results without agreement."""


@dataclass(frozen=True, kw_only=True)
class WorkunitLimits:
    """Editable limits of an unfinished workunit."""

    rsc_fpops_bound: Annotated[float | None, Option("--fpops-bound")] = None
    """Operations after which it is aborted."""
    rsc_memory_bound: Annotated[float | None, Option("--memory-bound")] = None
    """Memory bound in bytes."""
    rsc_disk_bound: Annotated[float | None, Option("--disk-bound")] = None
    """Disk bound in bytes."""
    delay_bound: float | None = None
    """Seconds until the deadline."""


@workunit_commands.verb("edit")
def edit(workunit: NameArgument, rules: RuleOptions, limits: WorkunitLimits, common: Common) -> None:
    """Change an unfinished workunit, for results sent from now on."""
    from cobblestone.api_schema.apps import LimitsBody
    from cobblestone.api_schema.batches import WorkunitChanges

    changes = WorkunitChanges(**given(rules), limits=LimitsBody(**given(limits)))
    if changes == WorkunitChanges():
        raise click.BadParameter("give what to change, such as --priority or --delay-bound")
    found = common.ask(lambda connected: connected.operation.change_workunit(workunit, changes))
    common.out.show(found, lines=_lines(found), essential=[found.id])


@workunit_commands.verb("cancel")
def cancel(workunit_id: WorkunitArgument, common: Common) -> None:
    """Cancel a workunit; hosts that compute it are told at their next contact."""
    done = common.ask(lambda connected: connected.operation.cancel_workunit(workunit_id))
    common.out.done(done, f"Workunit {workunit_id} is cancelled.", workunit_id)


@workunit_commands.verb("retry")
def retry(workunit_id: WorkunitArgument, common: Common) -> None:
    """Retry a workunit: an unfinished one may fail as many times again, a failed one becomes a new batch."""
    done = common.ask(lambda connected: connected.operation.retry_workunit(workunit_id))
    if done.new_batch is None:
        line = f"Workunit {workunit_id} continues: it may fail as many times again."
    else:
        line = f"Workunit {workunit_id} is retried as batch {done.new_batch}."
    common.out.done(done, line, done.new_batch or workunit_id)


trickle_commands = Commands(help="Messages of running jobs, in both directions.")


@trickle_commands.verb("list")
def list_trickles(
    after: Annotated[int, Option(min=0, help="Only messages after this number.")] = 0,
    common: Common = Common(),
) -> None:
    """List messages from running jobs, oldest first."""
    found = common.ask(lambda connected: connected.admin.trickles(after=after))
    common.out.table(
        found,
        ("number", "result", "variety", "received", "text"),
        [(each.id, each.result, each.variety, when(each.received), each.text) for each in found],
        empty="No job has sent any message.",
        right=("number",),
    )


@trickle_commands.verb("send")
def send(
    result: Annotated[str, Argument(metavar="RESULT", help="Name of the result.")],
    text: Annotated[str, Argument(metavar="TEXT")],
    common: Common,
) -> None:
    """Send a message to a running job: its program gets it from receive_trickles()."""
    made = common.ask(lambda connected: connected.admin.send_trickle(result, text))
    common.out.done(made, f"Message {made.id} is sent at the computer's next contact.", made.id)
