"""Options of commands about apps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import click

from cobblestone.cli.completion import app_names
from cobblestone.cli.options import given
from cobblestone.cli.parameters import Argument, Option
from cobblestone.cli.work.program_options import ProgramOptions

if TYPE_CHECKING:
    from cobblestone.api_schema.apps import AppChanges, CreditBody, LimitsBody
    from cobblestone.sdk.app_definition import AppSpec, ProjectFunctions

NewNameArgument = Annotated[str, Argument(metavar="NAME", help="Name of the app.")]
NameArgument = Annotated[str, Argument(metavar="NAME", help="Name of the app.", complete=app_names)]
RolloutOption = Annotated[
    str | None,
    Option(
        metavar="LIST",
        help="Growing parts of the computers, in per cent, that the new version reaches step by "
        "step, such as 1,10,50,100. Default: all at once.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class FormOptions:
    """Options that are fixed when an app is created."""

    panel: ClassVar[str] = "When it is created"

    inputs: Annotated[list[str] | None, Option("--input", metavar="NAME")] = None
    """Name by which a native program opens an input. Inputs of a command follow from the command."""
    spot_checks: Annotated[bool, Option("--spot-checks")] = False
    """Compute jobs of proven computers once; someone else's computer checks 10 / W of them, where W is the number of checked
    valid results in a row. Jobs of other computers have a quorum of 2."""
    optional_outputs: Annotated[list[str] | None, Option("--optional-output", metavar="NAME")] = None
    """An output that may be missing."""
    max_output: Annotated[str, Option(metavar="SIZE")] = "50MB"
    """Maximum size of each output."""
    gzip_outputs: Annotated[bool, Option("--gzip-outputs")] = False
    """Volunteers' clients compress outputs for the upload."""
    keywords: Annotated[str | None, Option(metavar="N,N…")] = None
    """What its jobs are about: numbers of `cobblestone app keywords`."""
    input_template: Annotated[Path | None, Option(metavar="FILE.xml")] = None
    """BOINC input template of a native program."""
    output_template: Annotated[Path | None, Option(metavar="FILE.xml")] = None
    """BOINC output template of a native program."""


@dataclass(frozen=True, kw_only=True)
class CheckOptions:
    """Options for how answers are checked and assimilated."""

    panel: ClassVar[str] = "Checks of answers"

    quorum: Annotated[int | None, Option(min=1, max=100)] = None
    """Computers that must agree on each job. Default 1."""
    compare: Annotated[str | None, Option(metavar="RULE")] = None
    """bitwise, numeric:rtol=1e-6,atol=0, trivial, or python:FILE.py:function. Default bitwise."""
    assimilate: Annotated[str | None, Option(metavar="FILE.py:FUNCTION")] = None
    """Called with each agreed answer; or folder:PATH to have answers written there."""
    function_files: Annotated[list[Path] | None, Option(metavar="FILE…")] = None
    """Further files that your functions import."""


@dataclass(frozen=True, kw_only=True)
class AppLimitOptions:
    """Options for the requirements and limits of a job."""

    panel: ClassVar[str] = "Needs and limits of a job"

    flops_est: Annotated[float | None, Option(min=1)] = None
    """Floating-point operations of one job, estimated. Default 3.6e12."""
    flops_bound: Annotated[float | None, Option(min=1)] = None
    """Jobs that need more are aborted. Default 240 × the estimate."""
    memory: Annotated[str | None, Option(metavar="SIZE")] = None
    """Memory that a job needs. Default 500MB."""
    disk: Annotated[str | None, Option(metavar="SIZE")] = None
    """Disk that a job may use. Default 1GB."""
    delay_bound: Annotated[str | None, Option(metavar="TIME")] = None
    """Deadline of a job, e.g. 36h. Default 7d."""

    def body(self) -> LimitsBody:
        """Return the options as an API body; raises ConfigError."""
        from cobblestone.api_schema.apps import LimitsBody
        from cobblestone.sdk.app_definition import parse_seconds, parse_size

        deadline = self.delay_bound
        return LimitsBody(
            rsc_fpops_est=self.flops_est,
            rsc_fpops_bound=self.flops_bound,
            rsc_memory_bound=None if self.memory is None else parse_size(self.memory, "--memory"),
            rsc_disk_bound=None if self.disk is None else parse_size(self.disk, "--disk"),
            delay_bound=None if deadline is None else parse_seconds(deadline, "--delay-bound"),
        )


@dataclass(frozen=True, kw_only=True)
class CreditOptions:
    """Options for the credit of a job."""

    panel: ClassVar[str] = "Credit"

    system: Annotated[str | None, Option("--credit", metavar="SYSTEM")] = None
    """Credit system; see `cobblestone credit systems`. Default steady."""
    per_job: Annotated[float | None, Option("--credit-per-job", min=0)] = None
    """With --credit fixed: credit of each job."""
    partial: Annotated[bool | None, Option("--partial-credit/--no-partial-credit")] = None
    """Trickle messages of running jobs grant provisional credit."""
    host_scale_check: Annotated[bool | None, Option("--host-scale-check/--no-host-scale-check")] = None
    """Use only credit scales of proven hosts (against cherry-picking)."""
    per_cpu_second: Annotated[float | None, Option("--credit-per-cpu-second", min=0)] = None
    """With --credit counted: published average for programs that cannot count. 0: from the app's own jobs."""
    function: Annotated[str | None, Option("--credit-function", metavar="FILE.py:FUNCTION")] = None
    """With --credit assigned: called with each result; returns its credit."""

    def body(self) -> CreditBody:
        """Return the options as an API body."""
        from cobblestone.api_schema.apps import CreditBody

        return CreditBody(**given(self))


@dataclass(frozen=True, kw_only=True)
class DispatchOptions:
    """Options for who gets the jobs of an app, and how many."""

    panel: ClassVar[str] = "Who gets jobs"

    adaptive: Annotated[bool | None, Option("--adaptive/--no-adaptive")] = None
    """Trusted computers compute jobs alone, with spot checks. Needs a quorum of 2 or more."""
    homogeneous_redundancy: Annotated[Literal["none", "fine", "coarse"] | None, Option("--homogeneous")] = (
        None
    )
    """Send results of a job to similar computers: none, fine or coarse."""
    homogeneous_app_version: Annotated[bool | None, Option("--one-version/--any-version")] = None
    """All results of a job use one app version."""
    locality: Annotated[bool | None, Option("--locality/--no-locality")] = None
    """Send jobs first to computers that have one of their sticky files."""
    size_class_count: Annotated[int | None, Option("--size-classes", min=1, max=21)] = None
    """Number of speed classes of computers; large jobs go to fast ones."""
    non_cpu_intensive: Annotated[bool | None, Option("--always/--not-always")] = None
    """One job on every computer at all times: it needs hardly any computing."""
    beta: Annotated[bool | None, Option("--beta/--no-beta")] = None
    """Only for volunteers who allow test applications."""
    show_outputs: Annotated[bool | None, Option("--show-outputs/--no-show-outputs")] = None
    """Volunteers may download the answers that their computers found."""
    min_version: Annotated[int | None, Option(min=0)] = None
    """Versions below this are not used (100 x major + minor)."""
    max_jobs_on_host: Annotated[int | None, Option("--max-on-host", min=0)] = None
    """Most jobs on a computer at a time; 0: no limit."""
    max_jobs_in_progress: Annotated[int | None, Option("--max-per-cpu", min=0)] = None
    """Most jobs for the CPU at a time, per CPU."""
    max_gpu_jobs_in_progress: Annotated[int | None, Option("--max-per-gpu", min=0)] = None
    """Most jobs for GPUs at a time, per GPU."""
    max_jobs_per_rpc: Annotated[int | None, Option("--max-per-reply", min=0)] = None
    """Most jobs in one reply; 0: no limit."""
    bandwidth: Annotated[str | None, Option(metavar="SIZE")] = None
    """Download speed that a computer must have, in bytes per second."""
    max_jobs_per_day_init: Annotated[int | None, Option("--first-day", min=0)] = None
    """Jobs per processor for a computer that has not returned any yet."""
    keywords: Annotated[str | None, Option(metavar="N,N…")] = None
    """What its jobs are about: numbers of `cobblestone app keywords`; 0 for nothing."""

    def changes(self) -> AppChanges:
        """Return the changes as an API body; raises ConfigError."""
        from cobblestone.api_schema.apps import AppChanges, DispatchBody, LimitsBody
        from cobblestone.sdk.app_definition import parse_size

        rules = given(self)
        if self.keywords is not None:
            rules["keywords"] = keyword_numbers(self.keywords)
        beta, show_outputs, bandwidth = (
            rules.pop(name, None) for name in ("beta", "show_outputs", "bandwidth")
        )
        limits = None
        if bandwidth is not None:
            speed = 0 if bandwidth == "0" else parse_size(bandwidth, "--bandwidth")
            limits = LimitsBody(rsc_bandwidth_bound=speed)
        return AppChanges(
            dispatch=DispatchBody(**rules) if rules else None,
            limits=limits,
            beta=beta,
            show_outputs=show_outputs,
        )


def spec(
    name: str,
    program: ProgramOptions,
    form: FormOptions,
    checks: CheckOptions,
    limits: AppLimitOptions,
    credit: CreditOptions,
) -> AppSpec:
    """Return the description of a new app; raises ConfigError."""
    from cobblestone.sdk.app_definition import AppSpec, parse_size

    members = given(program, form, checks)
    for source in ("source", "python", "program"):  # by now they are a module, or a command with files
        members.pop(source, None)
    if program.command is None:
        if program.files or program.stdout or program.wasm or program.portable or program.container:
            raise click.BadParameter(
                "--files, --wasm, --container and --stdout need --command. For a native program:"
                " cobblestone app version add NAME"
            )
    elif form.inputs:
        raise click.BadParameter(
            "--input is for native programs; write {input} or {input:NAME} into --command"
        )
    elif form.input_template or form.output_template:
        raise click.BadParameter(
            "templates are for native programs; inputs and outputs follow from --command"
        )
    max_output_bytes = int(parse_size(members.pop("max_output"), "--max-output"))
    members["keywords"] = keyword_numbers(members.pop("keywords", ""))
    return AppSpec(
        name=name, max_output_bytes=max_output_bytes, limits=limits.body(), credit=credit.body(), **members
    )


def changes(
    program: ProgramOptions,
    checks: CheckOptions,
    limits: AppLimitOptions,
    credit: CreditOptions,
    *,
    deprecated: bool | None,
    functions: ProjectFunctions,
) -> AppChanges:
    """Return the changes to an app; raises ConfigError."""
    from cobblestone.api_schema.apps import AppChanges, CreditBody, LimitsBody, RulesBody

    if checks.function_files and not (checks.compare or checks.assimilate or credit.function):
        raise click.BadParameter(
            "--function-files needs --assimilate, --compare python:… or --credit-function"
        )
    bounds, worth = limits.body(), functions.credit(credit.body())
    return AppChanges(
        title=program.title,
        deprecated=deprecated,
        rules=None if checks.quorum is None else RulesBody(min_quorum=checks.quorum),
        comparison=None if checks.compare is None else functions.comparison(checks.compare),
        assimilator=None if checks.assimilate is None else functions.assimilator(checks.assimilate),
        limits=None if bounds == LimitsBody() else bounds,
        credit=None if worth == CreditBody() else worth,
    )


def keyword_numbers(text: str) -> list[int]:
    """Return the numbers of keywords from a list with commas; none for 0."""
    try:
        return [int(number) for number in text.split(",") if int(number)] if text else []
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 14,21") from error


def parts(text: str | None) -> list[float]:
    """Return parts of the computers from a list of percentages with commas."""
    try:
        return [float(part) / 100 for part in text.split(",")] if text else []
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is not a list of numbers such as 1,10,50,100") from error
