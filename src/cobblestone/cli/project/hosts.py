"""``cobblestone host`` and ``explain``: volunteers' computers, and the reasons for what happened to their tasks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import click

from cobblestone.cli.options import Common, PageOptions, given
from cobblestone.cli.output import counted, size, when
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.cli.project.people import BlockedOption, ReasonOption, set_blocked

if TYPE_CHECKING:
    from cobblestone.api_schema.operation import HostDetails, HostExplanation
    from cobblestone.domain.hosts import VersionStatus


explain_commands = Commands(help="Explain why something happens or does not happen.")

ExplainedHostArgument = Annotated[int, Argument(metavar="ID", min=1, help="Number of a computer.")]


@explain_commands.verb("host")
def host(host_id: ExplainedHostArgument, common: Common) -> None:
    """Show what a computer would get if it asked for work now, and why not more."""
    found = common.ask(lambda connected: connected.admin.explain_host(host_id))
    common.out.show(found, lines=host_lines(found), essential=[found.would_get])


def host_lines(found: HostExplanation) -> list[str]:
    """Return the lines about what a computer would get, and why not more."""
    from cobblestone.policy.dispatch.status import DECIDED_BY

    held = f"holds tasks: {found.in_progress}."
    lines = [
        f"Host {found.id} {found.name} of user {found.user}; last contact {when(found.last_contact)}; {held}"
    ]
    lines += [f"  ! {each.text}" for each in found.problems]
    if found.would_get:
        lines.append(f"If it asked for work now, it would get tasks, first {found.would_get}.")
    else:
        lines.append("If it asked for work now, it would get no tasks:")
        lines += [
            f"  - {each.text}"
            + (f" (Decided by: {DECIDED_BY[each.code]}.)" if each.code in DECIDED_BY else "")
            for each in found.reasons
        ]
    return [*lines, *map(_version_line, found.versions)]


def _version_line(each: VersionStatus) -> str:
    name = f"{each.app} {each.version_num / 100:.2f} {each.plan_class}".rstrip()
    parts = [
        f"tasks a day per processor: {each.jobs_per_day} of {each.full_quota}, {each.sent_today} sent today",
        f"{each.valid_in_a_row} valid in a row",
    ]
    if each.bad_results:
        parts.append(f"bad ones recorded: {each.bad_results}")
    if each.check_probability < 1:
        parts.append(f"checked in {100 * each.check_probability:.0f} % of its tasks")
    if each.reliable:
        parts.append("reliable")
    if each.throttled:
        parts.append(f"throttled, next in {each.next_quota_seconds / 3600:.1f} h")
    return f"  {name}: {'; '.join(parts)}"


@explain_commands.verb("workunit")
def workunit(
    workunit_id: Annotated[str, Argument(metavar="ID", help="Number or name of a workunit.")], common: Common
) -> None:
    """Show the state of a workunit, and which hosts could take its waiting results."""
    found = common.ask(lambda connected: connected.admin.explain_workunit(workunit_id))
    lines = [f"Workunit {found.id} {found.name}", *(f"  - {each.text}" for each in found.reasons)]
    common.out.show(found, lines=lines, essential=[each.code for each in found.reasons])


@explain_commands.verb("result")
def result(
    result_id: Annotated[str, Argument(metavar="ID", help="Number or name of a result.")], common: Common
) -> None:
    """Show what happened to a result, and why."""
    found = common.ask(lambda connected: connected.admin.explain_result(result_id))
    lines = [
        f"Result {found.id} {found.name} of workunit {found.workunit}",
        *(f"  - {each.text}" for each in found.reasons),
        *(f"  - {text}" for text in found.told),
        *(f"    | {line}" for line in found.error_output),
        f"Its credit: cobblestone credit explain {found.name}",
    ]
    common.out.show(found, lines=lines, essential=[each.code for each in found.reasons])


@explain_commands.verb("reasons")
def reasons(common: Common) -> None:
    """Show every reason for few or no tasks: what the volunteer reads, what the scientist reads, and what decides it."""
    from cobblestone.domain.reasons import with_forms
    from cobblestone.policy.dispatch.explain import EXPLANATIONS
    from cobblestone.policy.dispatch.status import SENTENCES, for_operator

    found = [
        {
            "code": code.value,
            "volunteer": with_forms(each.sentence, defaultdict(lambda: 2)),
            "scientist": SENTENCES[code],
            "operator": for_operator(code),
        }
        for code, each in EXPLANATIONS.items()
    ]
    lines = ["\n  ".join(each.values()) for each in found]
    common.out.show(found, lines=lines, essential=[each["code"] for each in found])


host_commands = Commands(help="Computers of volunteers.")
HostArgument = Annotated[
    int, Argument(metavar="ID", min=1, help="Number of the host; see `host list` and `cobblestone find`.")
]


@host_commands.verb("list")
def list_hosts(
    user: Annotated[int | None, Option(metavar="ID", min=1, help="Only those of a user.")] = None,
    blocked: BlockedOption = None,
    page: PageOptions = PageOptions(),
    common: Common = Common(),
) -> None:
    """List computers, newest first."""
    found = common.ask(
        lambda connected: connected.operation.hosts(
            limit=page.limit, before=page.before, user=user, blocked=blocked
        )
    )
    common.out.listing(
        found,
        {
            "id": lambda each: each.id,
            "name": lambda each: each.label or each.name,
            "user": lambda each: each.user,
            "recent credit": lambda each: f"{each.recent_average_credit:.2f}",
            "last contact": lambda each: when(each.last_contact),
            "blocked": lambda each: each.blocked or "-",
        },
        empty="No computers.",
        right=("id", "user", "recent credit"),
    )


@host_commands.verb("show")
def show(host_id: HostArgument, common: Common) -> None:
    """Describe a computer."""
    found = common.ask(lambda connected: connected.operation.host(host_id))
    common.out.show(found, lines=_lines(found), essential=[found.id])


def _lines(found: HostDetails) -> list[str]:
    version = found.client_version
    return [
        f"Host {found.id}: {found.label or found.name} ({found.name}), of user {found.user}",
        f"  computer     {found.processor or '-'}, {found.cpus} CPUs of {found.fpops / 1e9:.2f} GFLOPS; {found.system}",
        f"  memory       {size(found.memory)}; free disk {size(found.disk_free)}; GPUs: {', '.join(found.gpus) or '-'}",
        f"  client       {version // 10000}.{version // 100 % 100}.{version % 100}, {', '.join(found.platforms) or '-'}",
        f"  contact      first {when(found.created)}, last {when(found.last_contact)}",
        f"  venue        {found.venue or '-'}{', hidden from others' if found.hidden else ''}",
        f"  credit       {found.total_credit:.2f}, recent average {found.recent_average_credit:.2f}",
        f"  tasks        {counted(found.tasks)}",
        *(
            f"  {kind:<12} {size(given)}{' × days' if kind == 'storage' else ''}"
            for kind, given in found.contributions.items()
        ),
        *([f"  lacks        {found.lacks}"] if found.lacks else []),
        *([f"  blocked      {found.blocked}"] if found.blocked else []),
        f"Why it gets work or not: cobblestone explain host {found.id}",
    ]


@dataclass(frozen=True, kw_only=True)
class HostOptions:
    """Editable settings of a computer."""

    label: str | None = None
    """The owner's name for the computer; empty: none."""
    venue: Literal["none", "home", "work", "school"] | None = None
    """Which of the owner's preferences it follows."""
    hidden: Annotated[bool | None, Option("--hidden/--shown")] = None
    """Whether others can see it."""


@host_commands.verb("edit")
def edit(host_id: HostArgument, wanted: HostOptions, common: Common) -> None:
    """Change the settings that the owner of a computer made for it."""
    from cobblestone.api_schema.operation import HostChanges

    changes = given(wanted)
    if changes.get("venue") == "none":
        changes["venue"] = ""
    if not changes:
        raise click.BadParameter("give what to change: --label, --venue, --hidden or --shown")
    found = common.ask(lambda connected: connected.operation.change_host(host_id, HostChanges(**changes)))
    common.out.show(found, lines=_lines(found), essential=[found.id])


@host_commands.verb("reset-errors")
def reset_errors(host_id: HostArgument, common: Common) -> None:
    """Forget a computer's bad results and missing features after a repair; it gets tasks at its next contact."""
    found = common.ask(lambda connected: connected.operation.reset_host_errors(host_id))
    common.out.show(found, lines=host_lines(found), essential=[found.id])


@host_commands.verb("block")
def block(host_id: HostArgument, reason: ReasonOption, common: Common) -> None:
    """Send no more work to a computer. It may finish what it has."""
    set_blocked(common, "host", host_id, reason)


@host_commands.verb("unblock")
def unblock(host_id: HostArgument, common: Common) -> None:
    """Send work to a computer again."""
    set_blocked(common, "host", host_id, None)
