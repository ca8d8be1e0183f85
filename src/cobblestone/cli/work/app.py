"""``cobblestone app``: apps and their versions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated

import click

from cobblestone.cli.options import Common, given
from cobblestone.cli.output import Output, duration, size, when
from cobblestone.cli.parameters import Commands, Option
from cobblestone.cli.work import app_options as o
from cobblestone.cli.work import version
from cobblestone.cli.work.app_try import try_app
from cobblestone.cli.work.program_options import ProgramOptions, complete, hint
from cobblestone.domain.texts import several

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cobblestone.api_schema.apps import App, DeadlineProposal, OutputSpec, Version

app_commands = Commands(help="Apps: what your jobs run.")
app_commands.verb("try")(try_app)


#: Options of which one is enough for a new version of an app.
NEW_VERSION = {"files", "command", "wasm", "container", "outputs", "stdout"}
OF_A_VERSION = NEW_VERSION - {"files"} | {
    "bundle",
    "bundle_python",
    "installed",
    "plan_class",
    "platforms",
    "requirements",
}


@app_commands.verb("create")
def create(
    name: o.NewNameArgument,
    program: ProgramOptions,
    form: o.FormOptions,
    checks: o.CheckOptions,
    *,
    limits: o.AppLimitOptions,
    credit: o.CreditOptions,
    common: Common,
) -> None:
    """Create an app from a program, with its first version.

    The usual calls:

      cobblestone app create period --program period.c
      cobblestone app create period --python period.py
      cobblestone app create period --files period.py table.csv \\
          --command "python3 period.py {input}" --stdout period.txt
    """
    asked, program = program, complete(program, is_new=True, say=common.out.say)
    wanted = o.spec(name, program, form, checks, limits, credit)
    with warnings.catch_warnings(record=True, category=UserWarning) as found:
        warnings.simplefilter("always", UserWarning)
        created = common.ask(lambda connected: connected.create_app(wanted))
    for each in found:
        common.out.say(str(each.message))
    hint(asked, common.out.say)
    show_created(common.out, created, bool(wanted.command))


def show_created(out: Output, app: App, has_command: bool) -> None:
    """Print a new app and the next steps."""
    lines = [f"Created the app {app.name}."]
    if has_command:
        lines += _version_lines(app.versions[-1], app.versions)
        first, every = (" inputs/FIRST", " inputs/*") if app.inputs or "{inputs}" in app.command else ("", "")
        lines += ["", "Next:", f"  cobblestone app try {app.name}{first}    # one job here"]
        lines += [f"  cobblestone submit {app.name}{every}"]
    else:
        lines += [
            "",
            "Next, for each platform:",
            f"  cobblestone app version add {app.name} --platform x86_64-pc-linux-gnu --main FILE",
        ]
    out.show(app, lines=lines, essential=[app.name])


def _version_lines(added: Version, all_of_it: Sequence[Version]) -> list[str]:
    names = ", ".join(f"{file.open_name} ({size(file.nbytes)})" for file in added.files)
    places = ", ".join(f"{each.platform} {each.plan_class}".rstrip() for each in all_of_it)
    lines = [f"Version {added.number} for {places}: {names}."]
    return lines + version.unsigned_lines(added)


@app_commands.verb("update")
def update(
    name: o.NameArgument,
    program: ProgramOptions,
    checks: o.CheckOptions,
    deprecated: Annotated[
        bool | None, Option("--deprecated/--no-deprecated", help="Stop or resume sending its jobs.")
    ] = None,
    *,
    limits: o.AppLimitOptions,
    credit: o.CreditOptions,
    rollout: o.RolloutOption = None,
    common: Common,
) -> None:
    """Change an app. With --files, --wasm or --command it gets a new version; list all files of the new version."""
    from cobblestone.api_schema.apps import AppChanges

    out = common.out
    program = complete(program, is_new=False, say=out.say)
    with common.connect() as connected:
        changes = o.changes(
            program,
            checks,
            limits,
            credit,
            deprecated=deprecated,
            functions=connected.functions(name, checks.function_files or []),
        )
        lines: list[str] = []
        wanted = {key: value for key, value in given(program).items() if value or key == "stdout"}
        if wanted.keys() & NEW_VERSION:
            added = connected.update_app(
                name,
                program.files or [],
                browsers=program.in_browsers,
                rollout=o.parts(rollout),
                **{key: value for key, value in wanted.items() if key in OF_A_VERSION},
            )
            in_use = connected.app(name).versions
            lines += _version_lines(added, [each for each in in_use if each.number == added.number])
        elif changes == AppChanges():
            raise click.BadParameter("nothing to change: give --files, or an option to change")
        changed = connected.change_app(name, changes)
    out.show(changed, lines=[f"Changed the app {name}.", *lines], essential=[name])


@app_commands.verb("list")
def list_apps(common: Common) -> None:
    """List apps."""
    found = common.ask(lambda connected: connected.apps())
    common.out.listing(
        found,
        {
            "name": lambda app: app.name,
            "title": lambda app: app.title,
            "state": lambda app: "deprecated" if app.deprecated else _sendable(app),
            "versions": lambda app: ", ".join(
                f"{v.platform} {v.number}{f' ({v.plan_class})' if v.plan_class else ''}" for v in app.versions
            ),
            "quorum": lambda app: app.rules.min_quorum,
            "compared": lambda app: app.comparison.kind,
            "created": lambda app: when(app.created),
        },
        empty="No apps yet. Create one with: cobblestone app create NAME --command …",
    )


def _sendable(app: App) -> str:
    if not app.versions:
        return "no version"
    return "ready" if any(each.signed for each in app.versions) else "unsigned"


@app_commands.verb("show")
def show(name: o.NameArgument, common: Common) -> None:
    """Describe an app."""
    app = common.ask(lambda connected: connected.app(name))
    common.out.show(app, lines=app_lines(app), essential=[app.name])


def app_lines(app: App) -> list[str]:
    """Return the description of an app for people."""
    from msgspec.structs import asdict

    from cobblestone.sdk.packing.app_package import brings_container
    from cobblestone.sdk.packing.wasm_package import runs_modules

    limits, rules = app.limits, app.rules
    lines = [
        f"{app.name}: {app.title} ({'deprecated' if app.deprecated else _sendable(app)})",
        f"  command      {' '.join(app.command) or f'(native program) {app.command_line}'}".rstrip(),
        f"  inputs       {', '.join(slot.open_name or slot.name for slot in app.inputs) or '-'}",
        f"  outputs      {', '.join(_output(spec, app.stdout) for spec in app.outputs)}",
        f"  quorum       {rules.min_quorum} of {rules.target_nresults}",
        f"  results      at most {rules.max_total_results} ({rules.max_error_results} failed, {rules.max_success_results} good)",
        f"  compared     {app.comparison.kind} {_set(app.comparison.options)}".rstrip(),
        f"  assimilator  {app.assimilator or '- (fetch answers with: cobblestone batch results)'}",
        f"  credit       {_set(asdict(app.credit))}",
        f"  estimate     {limits.rsc_fpops_est:.3g} FLOPs, aborted beyond {limits.rsc_fpops_bound:.3g}",
        (
            f"  bounds       {size(limits.rsc_memory_bound)} memory, {size(limits.rsc_disk_bound)} disk,"
            f" {limits.delay_bound / 3600:g} h to the deadline"
        ),
        f"  dispatch     {_set(_dispatch(app)) or '-'}",
    ]
    if app.versions and all(runs_modules(each) for each in app.versions):
        lines.append(
            "  results      the same bit by bit on every system (WebAssembly): no need for similar computers (--homogeneous)"
        )
    if brings_container(app.versions):
        lines.append(
            "  runs         in a container: on Linux computers whose clients report Podman or Docker"
        )
    for each in app.versions:
        state = "signed" if each.signed else "unsigned"
        names = ", ".join(file.open_name for file in each.files)
        lines.append(f"  version      {each.number} {each.platform} {each.plan_class} {state}: {names}")
    return lines


@app_commands.verb("deprecate")
def deprecate(name: o.NameArgument, common: Common) -> None:
    """Deprecate an app: send no more of its jobs, and accept none."""
    from cobblestone.api_schema.apps import AppChanges

    changed = common.ask(lambda connected: connected.change_app(name, AppChanges(deprecated=True)))
    common.out.done(
        changed, f"{name} is deprecated. Undo: cobblestone app update {name} --no-deprecated", name
    )


@app_commands.verb("deadline")
def deadline(
    name: o.NameArgument,
    apply: Annotated[bool, Option("--apply", help="Use it for jobs submitted from now on.")] = False,
    common: Common = Common(),
) -> None:
    """Propose a deadline for jobs, based on how long this app's jobs took."""
    from cobblestone.api_schema.apps import AppChanges, LimitsBody
    from cobblestone.domain.errors import ConfigError

    with common.connect() as connected:
        found = connected.propose_deadline(name)
        if apply and found.proposed is None:
            raise ConfigError(f"{name} has {several(found.n, 'good result')}; 20 are needed for a proposal.")
        if apply:
            connected.change_app(name, AppChanges(limits=LimitsBody(delay_bound=found.proposed)))
    common.out.show(found, lines=deadline_lines(found, applied=apply), essential=[found.proposed or ""])


def deadline_lines(found: DeadlineProposal, *, applied: bool) -> list[str]:
    """Return a proposed deadline for people."""
    now = f"Jobs of {found.app} have a deadline of {duration(found.delay_bound)}."
    if found.proposed is None or found.run_time is None or found.turnaround is None:
        return [now, f"It has {several(found.n, 'good result')}; a proposal needs 20."]
    took = (
        f"Of its {found.n} newest good results 95 % took at most {duration(found.run_time)} to compute, and"
        f" at most {duration(found.turnaround)} to come back."
    )
    if applied:
        return [took, f"Jobs submitted from now on get {duration(found.proposed)}."]
    if found.proposed == found.delay_bound:
        return [now, took, "That fits."]
    return [
        now,
        took,
        f"Proposed: {duration(found.proposed)}. Set it with: cobblestone app deadline {found.app} --apply",
    ]


@app_commands.verb("dispatch")
def dispatch(name: o.NameArgument, wanted: o.DispatchOptions, common: Common) -> None:
    """Show or change who gets the jobs of an app, and how many."""
    from cobblestone.api_schema.apps import AppChanges

    changes = wanted.changes()
    app = common.ask(
        lambda connected: (
            connected.app(name) if changes == AppChanges() else connected.change_app(name, changes)
        )
    )
    lines = [f"{name}:", *(f"  {key:24} {_rule_text(value)}" for key, value in _dispatch(app).items())]
    common.out.show(app, lines=lines, essential=[app.name])


def _dispatch(app: App) -> Mapping[str, object]:
    """Return who gets the jobs of an app, and how many."""
    from msgspec.structs import asdict

    from cobblestone.domain.people import KEYWORDS

    bandwidth = app.limits.rsc_bandwidth_bound
    return asdict(app.dispatch) | {
        "keywords": ", ".join(f"{number} {KEYWORDS[number].name}" for number in app.dispatch.keywords),
        "beta": app.beta,
        "show outputs": app.show_outputs,
        "bandwidth": f"{size(bandwidth)}/s" if bandwidth else 0,
    }


def _set(rules: Mapping[str, object]) -> str:
    """Return those rules of an app that are not left at nothing."""
    return ", ".join(
        f"{key} {_rule_text(value)}" for key, value in rules.items() if value and value != "none"
    )


def _output(spec: OutputSpec, printed: str) -> str:
    marks = {"what it prints": spec.name == printed, "optional": spec.optional, "compressed": spec.gzip}
    return f"{spec.name} ({', '.join([f'up to {size(spec.max_nbytes)}', *(mark for mark in marks if marks[mark])])})"


def _rule_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(f"{speed:.3g} FLOPS" for speed in value) or "-"  # pyright: ignore[reportUnknownVariableType]  # numbers
    return str(value) if value else "-"


@app_commands.verb("keywords")
def keywords(common: Common) -> None:
    """List the family's keywords, by which volunteers choose what their computers work on."""
    from cobblestone.domain.people import KEYWORDS

    found = list(KEYWORDS.values())
    common.out.table(
        found, ["keyword", "name", "part of"], [(each.id, each.name, each.parent or "-") for each in found]
    )


@app_commands.verb("runtime")
def runtime() -> None:
    """Print the launcher, which is also the runtime module, to try a program without a client."""
    import sys

    from cobblestone.launcher import launcher_bytes

    sys.stdout.buffer.write(launcher_bytes())


@app_commands.verb("plan-classes")
def plan_classes(common: Common) -> None:
    """List plan classes and how many of the known hosts each would match."""
    found = common.ask(lambda connected: connected.plan_classes())
    rows = [
        (
            each.name,
            each.gpu_type or "CPU",
            f"would match {each.hosts_matched} of {several(each.hosts_known, 'host')}",
            ", ".join(f"{code}: {count}" for code, count in each.refusals.items()) or "-",
        )
        for each in found
    ]
    common.out.table(found, ["name", "runs on", "hosts", "why not"], rows, empty="No plan classes.")


app_commands.add_command(version.commands, name="version")
