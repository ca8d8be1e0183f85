"""Options of ``app create`` and ``app update``."""

from __future__ import annotations

from collections.abc import Sequence
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


def limits(
    flops_est: float | None,
    flops_bound: float | None,
    memory: str | None,
    disk: str | None,
    delay_bound: str | None,
) -> Limits:
    """Limits from the options; raises ConfigError."""
    from cobblestone.sdk.app_definition import Limits, parse_seconds, parse_size

    return Limits(
        flops_est=flops_est,
        flops_bound=flops_bound,
        memory=None if memory is None else parse_size(memory),
        disk=None if disk is None else parse_size(disk),
        delay_bound=None if delay_bound is None else parse_seconds(delay_bound),
    )


def credit(
    system: str | None,
    per_job: float | None,
    partial: bool | None,
    host_scale_check: bool | None,
    per_cpu_second: float | None,
    function: str | None,
) -> dict[str, object]:
    """What the options say of credit, as the API takes it."""
    given: dict[str, object | None] = {
        "system": system,
        "per_job": per_job,
        "partial": partial,
        "host_scale_check": host_scale_check,
        "per_cpu_second": per_cpu_second,
        "function": function,
    }
    return {key: value for key, value in given.items() if value is not None}


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
