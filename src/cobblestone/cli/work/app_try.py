"""``cobblestone app try``: run one job on this computer, as a volunteer's computer would."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from cobblestone.cli.options import Common
from cobblestone.cli.output import duration, size
from cobblestone.cli.parameters import Argument, Option
from cobblestone.cli.work import app_options as o
from cobblestone.cli.work.jobs import read_arguments
from cobblestone.domain.values import form_of

if TYPE_CHECKING:
    from cobblestone.client.tasks.description import TaskSpec
    from cobblestone.client.tasks.runner import Trial
    from cobblestone.sdk.packing.trial import LaidJob

EXIT_JOB_FAILED = 3
STDERR_LINES = 20
SHOWN_OUTPUT = 2000  # bytes of a text
USUAL_FLOPS = 3e9
_MEMORY = re.compile(r"^cobblestone: \d+ instructions counted, ([\d.]+) MB of memory$", re.MULTILINE)
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^'.]+)")


@dataclass(frozen=True, kw_only=True)
class TrialReport:
    """The output of ``--json``."""

    succeeded: bool
    exit_status: int
    problem: str
    seconds: float
    cpu_seconds: float
    peak_memory_bytes: float
    peak_disk_bytes: float
    instructions: int | None  #: of a WebAssembly module; the same on every computer
    module_memory_bytes: float | None  #: that it grew to
    outputs: dict[str, int]  #: bytes by name
    stderr: str
    notes: list[str]


def try_app(
    name: o.NameArgument,
    inputs: Annotated[
        list[Path] | None, Argument(metavar="INPUT", help="The input files of one job.")
    ] = None,
    arg: Annotated[list[str] | None, Option(metavar="NAME=VALUE", help="Value for {arg:NAME}.")] = None,
    to: Annotated[Path | None, Option(metavar="DIR", help="Keep the outputs in this folder.")] = None,
    timeout: Annotated[float, Option(min=1, help="Seconds until the program is aborted.")] = 600.0,
    gpu: Annotated[bool, Option("--gpu", help="The version for a GPU of this computer.")] = False,
    common: Common = Common(),
) -> None:
    """Run one job of an app on this computer as a volunteer's would, and show the result; nothing is submitted.

    The same launcher, slot, sandbox and limits; so what the program needs and volunteers do not have is missing here, too. The
    exit status is 3 if the job fails.
    """
    import asyncio
    import tempfile
    from shutil import copyfile

    from cobblestone.client.conditions.gpus import find_gpus
    from cobblestone.client.tasks.runner import run_trial
    from cobblestone.domain.errors import JobError
    from cobblestone.ops.environment import environment_without_proxies
    from cobblestone.sdk.packing.trial import lay_out

    cards = {each.type: each for each in find_gpus(environment_without_proxies())} if gpu else {}
    if gpu and not cards:
        raise JobError("No GPU was found on this computer, by the libraries of NVIDIA's driver and OpenCL.")
    with tempfile.TemporaryDirectory(prefix="cobblestone-try-") as root:
        data_dir = Path(root)
        data_dir.chmod(0o755)  # the account of the jobs must pass
        folder = data_dir / "projects" / "trial"
        folder.mkdir(parents=True)
        with common.connect() as connected:
            arguments = read_arguments(arg or [])
            app = connected.app(name)
            job = lay_out(connected.connection, app, inputs or [], arguments, folder, gpu_types=list(cards))
            if to is not None:
                to.mkdir(parents=True, exist_ok=True)
        card = cards.get(job.gpu_type)
        common.out.say(f"Running a job of {name} here, for {duration(timeout)} at most (--timeout).")
        trial = asyncio.run(run_trial(_spec(job, timeout, gpu_type=job.gpu_type if card else ""), data_dir))
        kept = [copyfile(path, to / name) for name, path in trial.outputs.items()] if to is not None else []
        report = _report(job, trial, card.peak_flops if card else 0.0)
        common.out.show(
            report,
            lines=[*_lines(job, trial, report), *(f"Kept {path}" for path in kept)],
            essential=[report.exit_status],
        )
    if not report.succeeded:
        raise click.exceptions.Exit(EXIT_JOB_FAILED)


def _spec(job: LaidJob, timeout: float, *, gpu_type: str) -> TaskSpec:
    from cobblestone.client.tasks.description import TaskInput, TaskLimits, TaskOutput, TaskSpec
    from cobblestone.sdk.packing.app_package import brings_container
    from cobblestone.wire.client.task_messages import InitData

    limits = job.app.limits
    return TaskSpec(
        name="trial_0",
        result_name="trial_0",
        project_url="http://trial.invalid/",
        project_dir=job.folder,
        main_program=job.main_program,
        arguments=tuple(shlex.split(job.command_line)),
        inputs=tuple(form_of(TaskInput, file, physical_name=file.name) for file in job.files),
        outputs=tuple(
            form_of(
                TaskOutput, output, open_name=output.name, physical_name=f"trial_output_{number}", copy=True
            )
            for number, output in enumerate(job.outputs)
        ),
        init=form_of(
            InitData,
            limits,
            app_name=job.app.name,
            app_version=job.version.version_num,
            wu_name="trial",
            gpu_type=gpu_type,
            gpu_device_num=0 if gpu_type else -1,
            gpu_usage=1.0 if gpu_type else 0.0,
        ),
        uses_gpu=bool(gpu_type),
        in_container=brings_container([job.version]),
        limits=TaskLimits(disk_bytes=limits.rsc_disk_bound, elapsed_seconds=timeout, processes=2000),
    )


def _report(job: LaidJob, trial: Trial, peak_flops: float) -> TrialReport:
    stderr = trial.end.stderr.decode(errors="replace")
    memory = _MEMORY.search(stderr)
    instructions = int(trial.end.intops_cumulative) or None
    return TrialReport(
        succeeded=trial.succeeded,
        exit_status=trial.end.exit_status,
        problem="" if trial.succeeded else trial.end.text,
        seconds=round(trial.end.elapsed, 2),
        cpu_seconds=round(trial.end.cpu_time, 2),
        peak_memory_bytes=trial.peak_memory,
        peak_disk_bytes=trial.peak_disk,
        instructions=instructions,
        module_memory_bytes=float(memory[1]) * 1e6 if memory else None,
        outputs={name: path.stat().st_size for name, path in trial.outputs.items()},
        stderr=stderr,
        notes=_notes(job, trial, stderr, instructions, peak_flops),
    )


def _notes(job: LaidJob, trial: Trial, stderr: str, instructions: int | None, peak_flops: float) -> list[str]:
    """Return notes on what to fix or to change in the app before jobs are submitted; ``peak_flops`` of its GPU."""
    from cobblestone.policy.dispatch.catalogue import GPU_FRACTION

    limits = job.app.limits
    notes: list[str] = []
    if missing := _NO_MODULE.search(stderr):
        notes.append(
            f"The program imports {missing[1]}, which is not part of Python and was not included: volunteers may not"
            " have it. Include it with --files, or do without it."
        )
    if trial.peak_memory > limits.rsc_memory_bound:
        notes.append(
            f"It used more memory than the app declares, so computers with too little memory get its jobs. cobblestone app update"
            f" {job.app.name} --memory {trial.peak_memory * 1.25 / 1e6:.0f}MB"
        )
    operations = max(trial.end.cpu_time, 0.1) * USUAL_FLOPS if instructions is None else float(instructions)
    how = "at 3 GFLOPS" if instructions is None else "its instructions"
    if peak_flops > 0:
        operations = trial.end.elapsed * GPU_FRACTION * peak_flops
        how = f"at {GPU_FRACTION:.0%} of the GPU's peak speed"
    ratio = operations / limits.rsc_fpops_est
    if trial.succeeded and not 0.1 < ratio < 10:
        notes.append(
            f"The app estimates {limits.rsc_fpops_est:.2g} operations for a job; this one took {operations:.2g} ({how})."
            f" If it is typical: cobblestone app update {job.app.name} --flops-est {operations:.2g}"
        )
    return notes


def _lines(job: LaidJob, trial: Trial, report: TrialReport) -> list[str]:
    """Return the report as lines for people."""
    limits, end = job.app.limits, trial.end
    what = "succeeded" if report.succeeded else f"failed: {report.problem}"
    lines = [
        f"A job of {job.app.name} {job.version.number} {what}",
        f"  exit status  {end.exit_status}",
        f"  time         {end.elapsed:.1f} s, {end.cpu_time:.1f} s of it on the CPU",
        f"  memory       {size(trial.peak_memory)} at most, of {size(limits.rsc_memory_bound)}",
        f"  disk         {size(trial.peak_disk)} at most, of {size(limits.rsc_disk_bound)}",
    ]
    if report.instructions is not None:
        lines.append(f"  work         {report.instructions:.4g} instructions, the same on every computer")
        lines.append(
            f"  in the box   {size(report.module_memory_bytes or 0)} of memory for the module itself"
        )
    for name, path in trial.outputs.items():
        lines.append(f"  output       {name}: {size(path.stat().st_size)}")
        lines += [f"    | {line}" for line in _head(path)]
    tail = report.stderr.strip().splitlines()[-STDERR_LINES:]
    if tail:
        lines += ["end of error output:", *(f"    | {line}" for line in tail)]
    return [*lines, *(f"  {text}" for text in trial.surroundings), *(f"  ! {note}" for note in report.notes)]


def _head(path: Path) -> list[str]:
    """Return the first lines of a text output."""
    with path.open("rb") as file:
        data = file.read(SHOWN_OUTPUT)
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        return []
    return [line[:160] for line in lines[:10] if line.isprintable() or not line.strip()]
