"""Options of commands about apps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from cobblestone.sdk.app_definition import Limits, ProjectFunctions

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the app.", show_default=False)]
FilesOption = Annotated[
    list[Path] | None,
    typer.Option("--files", metavar="FILE…", help="Files that the command needs.", show_default=False),
]
TitleOption = Annotated[str | None, typer.Option(help="Name that volunteers see.", show_default=False)]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="NAME",
        help="Name by which a native program opens an input. Inputs of a command follow from the command.",
        show_default=False,
    ),
]
OutputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--output",
        metavar="NAME",
        help="An output file that the program writes. Not needed for those that the command names.",
        show_default=False,
    ),
]
OptionalOutputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--optional-output", metavar="NAME", help="An output that may be missing.", show_default=False
    ),
]
StdoutOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Keep what the program prints, as this output.", show_default=False),
]
MaxOutputOption = Annotated[str, typer.Option(metavar="SIZE", help="Largest size of each output.")]
CompareOption = Annotated[
    str | None,
    typer.Option(
        metavar="RULE",
        help="bitwise, numeric:rtol=1e-6,atol=0, trivial, or python:FILE.py:function. Default bitwise.",
        show_default=False,
    ),
]
AssimilateOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        help="Called with each agreed answer; or folder:PATH to have answers written there.",
        show_default=False,
    ),
]
FunctionFilesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--function-files",
        metavar="FILE…",
        help="Further files that your functions import.",
        show_default=False,
    ),
]
FlopsEstOption = Annotated[
    float | None,
    typer.Option(
        min=1, help="Floating-point operations of one job, estimated. Default 3.6e12.", show_default=False
    ),
]
FlopsBoundOption = Annotated[
    float | None,
    typer.Option(
        min=1, help="Jobs that need more are ended. Default 240 × the estimate.", show_default=False
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory that a job needs. Default 500MB.", show_default=False),
]
DiskOption = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Disk that a job may use. Default 1GB.", show_default=False)
]
DelayBoundOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Time until a job must come back, e.g. 36h. Default 7d.", show_default=False
    ),
]
CreditOption = Annotated[
    str | None,
    typer.Option(
        "--credit",
        metavar="SYSTEM",
        help="Credit system; see `cobblestone credit systems`. Default benchmark.",
        show_default=False,
    ),
]
CreditPerJobOption = Annotated[
    float | None,
    typer.Option(min=0, help="With --credit fixed: credit of each job.", show_default=False),
]
PartialCreditOption = Annotated[
    bool | None,
    typer.Option(
        "--partial-credit/--no-partial-credit",
        help="Trickle messages of running jobs bring provisional credit.",
        show_default=False,
    ),
]
PerCpuSecondOption = Annotated[
    float | None,
    typer.Option(
        "--credit-per-cpu-second",
        min=0,
        help="With --credit counted: published average for programs that cannot count. 0: from the app's own jobs.",
        show_default=False,
    ),
]
CreditFunctionOption = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.py:FUNCTION",
        help="With --credit assigned: called with each result; returns what it is worth.",
        show_default=False,
    ),
]
HostScaleCheckOption = Annotated[
    bool | None,
    typer.Option(
        "--host-scale-check/--no-host-scale-check",
        help="Use credit scales of proven hosts only (against cherry picking).",
        show_default=False,
    ),
]
InputTemplateOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.xml", help="BOINC input template of a native program.", show_default=False),
]
OutputTemplateOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE.xml", help="BOINC output template of a native program.", show_default=False),
]


@dataclass(frozen=True, kw_only=True)
class LimitOptions:
    """What a job needs and may use."""

    flops_est: FlopsEstOption = None
    flops_bound: FlopsBoundOption = None
    memory: MemoryOption = None
    disk: DiskOption = None
    delay_bound: DelayBoundOption = None

    def limits(self) -> Limits:
        """The limits; raises ConfigError."""
        from cobblestone.sdk.app_definition import Limits, parse_seconds, parse_size

        return Limits(
            flops_est=self.flops_est,
            flops_bound=self.flops_bound,
            memory=None if self.memory is None else parse_size(self.memory),
            disk=None if self.disk is None else parse_size(self.disk),
            delay_bound=None if self.delay_bound is None else parse_seconds(self.delay_bound),
        )


@dataclass(frozen=True, kw_only=True)
class CreditOptions:
    """What a job is worth."""

    credit: CreditOption = None
    credit_per_job: CreditPerJobOption = None
    partial_credit: PartialCreditOption = None
    host_scale_check: HostScaleCheckOption = None
    credit_per_cpu_second: PerCpuSecondOption = None
    credit_function: CreditFunctionOption = None

    def body(self) -> dict[str, object]:
        """What the options say, as the API takes it."""
        given: dict[str, object | None] = {
            "system": self.credit,
            "per_job": self.credit_per_job,
            "partial": self.partial_credit,
            "host_scale_check": self.host_scale_check,
            "per_cpu_second": self.credit_per_cpu_second,
            "function": self.credit_function,
        }
        return {key: value for key, value in given.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class DispatchOptions:
    """Who gets the jobs of an app, and how many."""

    adaptive: Annotated[
        bool | None,
        typer.Option(
            "--adaptive/--no-adaptive",
            help="Trusted computers compute jobs alone, with spot checks. Needs a quorum of 2 or more.",
            show_default=False,
        ),
    ] = None
    redundancy: Annotated[
        str | None,
        typer.Option(
            "--homogeneous",
            metavar="KIND",
            help="Results of a job go to computers that compute alike: none, fine or coarse.",
            show_default=False,
        ),
    ] = None
    one_version: Annotated[
        bool | None,
        typer.Option(
            "--one-version/--any-version", help="Results of a job use one app version.", show_default=False
        ),
    ] = None
    locality: Annotated[
        bool | None,
        typer.Option(
            "--locality/--no-locality",
            help="Jobs go first to computers that have one of their sticky files.",
            show_default=False,
        ),
    ] = None
    size_classes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=21,
            help="Classes of computers by speed; large jobs go to fast ones.",
            show_default=False,
        ),
    ] = None
    always: Annotated[
        bool | None,
        typer.Option(
            "--always/--not-always",
            help="One job on every computer at all times: it hardly computes.",
            show_default=False,
        ),
    ] = None
    beta: Annotated[
        bool | None,
        typer.Option(
            "--beta/--no-beta", help="Only for volunteers who allow test applications.", show_default=False
        ),
    ] = None
    min_version: Annotated[
        int | None,
        typer.Option(min=0, help="Versions below are not used (100 x major + minor).", show_default=False),
    ] = None
    max_on_host: Annotated[
        int | None, typer.Option(min=0, help="Most jobs on a computer at a time; 0: any.", show_default=False)
    ] = None
    max_per_cpu: Annotated[
        int | None, typer.Option(min=0, help="… for the CPU, per CPU.", show_default=False)
    ] = None
    max_per_gpu: Annotated[
        int | None, typer.Option(min=0, help="… for GPUs, per GPU.", show_default=False)
    ] = None
    max_per_reply: Annotated[
        int | None, typer.Option(min=0, help="Most jobs in one reply; 0: any.", show_default=False)
    ] = None
    bandwidth: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="Bytes per second that a computer must download with.", show_default=False
        ),
    ] = None
    first_day: Annotated[
        int | None,
        typer.Option(
            min=0, help="Jobs per processor of a computer that has returned none yet.", show_default=False
        ),
    ] = None

    def changes(self) -> dict[str, object]:
        """What shall be different, as the API takes it; raises ConfigError."""
        from cobblestone.sdk.app_definition import parse_size

        given = {
            "adaptive": self.adaptive,
            "homogeneous_redundancy": self.redundancy,
            "homogeneous_app_version": self.one_version,
            "locality": self.locality,
            "size_class_count": self.size_classes,
            "non_cpu_intensive": self.always,
            "min_version": self.min_version,
            "max_jobs_on_host": self.max_on_host,
            "max_jobs_in_progress": self.max_per_cpu,
            "max_gpu_jobs_in_progress": self.max_per_gpu,
            "max_jobs_per_rpc": self.max_per_reply,
            "max_jobs_per_day_init": self.first_day,
        }
        rules = {key: value for key, value in given.items() if value is not None}
        changes: dict[str, object] = {"dispatch": rules} if rules else {}
        if self.bandwidth is not None:
            changes["limits"] = {
                "rsc_bandwidth_bound": 0 if self.bandwidth == "0" else parse_size(self.bandwidth)
            }
        if self.beta is not None:
            changes["beta"] = self.beta
        return changes


def changes(
    *,
    title: str | None,
    quorum: int | None,
    compare: str | None,
    assimilate: str | None,
    function_files: Sequence[Path] | None,
    deprecated: bool | None,
    limits: Limits,
    functions: ProjectFunctions,
    credit: dict[str, object],
) -> dict[str, object]:
    """What of an app shall be different, as the API takes it; raises ConfigError."""
    if function_files and not (compare or assimilate or credit.get("function")):
        raise typer.BadParameter(
            "--function-files belong to --assimilate, --compare python:… or --credit-function"
        )
    found: dict[str, object] = {"title": title, "deprecated": deprecated}
    if quorum is not None:
        found["rules"] = {"min_quorum": quorum}
    if compare is not None:
        found["comparison"] = functions.comparison(compare)
    if assimilate is not None:
        found["assimilator"] = functions.assimilator(assimilate)
    if limits.body():
        found["limits"] = limits.body()
    if credit:
        found["credit"] = functions.credit(credit)
    return {key: value for key, value in found.items() if value is not None}


def refuse_with_native(*, files: Sequence[Path] | None, stdout: str | None) -> None:
    """Options of commands make no sense for native programs."""
    if files or stdout:
        raise typer.BadParameter(
            "--files and --stdout belong to --command. For a native program: cobblestone app version add NAME --files …"
        )


def refuse_with_command(
    inputs: Sequence[str] | None, input_template: Path | None, output_template: Path | None
) -> None:
    """Templates and names of inputs make no sense for commands."""
    if inputs:
        raise typer.BadParameter(
            "--input is for native programs; write {input} or {input:NAME} into --command"
        )
    if input_template or output_template:
        raise typer.BadParameter(
            "templates are for native programs; inputs and outputs follow from --command"
        )


RolloutOption = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Growing parts of the computers, in per cent, that the new version reaches step by step, such as 1,10,50,100."
        " Else all at once.",
        show_default=False,
    ),
]


def parts(text: str | None) -> list[float]:
    """Parts of the computers from a list of per cent with commas."""
    try:
        return [float(part) / 100 for part in text.split(",")] if text else []
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a list of numbers such as 1,10,50,100") from error
