"""Options for the program of an app."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import click

from cobblestone.cli.parameters import Option

if TYPE_CHECKING:
    from collections.abc import Callable

FilesOption = Annotated[
    list[Path] | None, Option("--files", metavar="FILE…", help="Files that the command needs.")
]


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """The program and its outputs."""

    panel: ClassVar[str] = "Program"

    command: str | None = None
    """Command line with placeholders, e.g. "python3 period.py {input} {output}". An app without one is a native program: add
    its executables with `app version add`."""
    files: FilesOption = None
    program: Annotated[Path | None, Option(metavar="FILE")] = None
    """A program of any kind: cobblestone finds the best way to run it on volunteers' computers, gives the reason, and uses
    it if nothing more is needed."""
    wasm: Annotated[Path | None, Option(metavar="FILE.wasm")] = None
    """A WebAssembly module for the command, the same on Windows, macOS and Linux; the command's first word is its name."""
    source: Annotated[list[Path] | None, Option(metavar="FILE.c")] = None
    """C or C++ source, compiled to such a module; repeat it for more files."""
    python: Annotated[Path | None, Option(metavar="FILE.py")] = None
    """A Python program; short for --files FILE.py and --command "python3 FILE.py {input} {output}"."""
    portable: Annotated[bool, Option("--portable")] = False
    """Include Python as WebAssembly: the program runs on every Windows, macOS and Linux computer, but more slowly."""
    requirements: Annotated[Path | None, Option(metavar="FILE.txt")] = None
    """Pure Python packages to include with a portable program."""
    in_browsers: Annotated[bool, Option("--browser")] = False
    """Also compute it in visitors' browsers, on the project's page /compute; for WebAssembly or a bundle, and a quorum of 2
    or more."""
    bundle: Annotated[Path | None, Option(metavar="FILE.txt")] = None
    """Packages, also compiled ones, to include with a bundled Python: for Windows, macOS and Linux."""
    bundle_python: Annotated[str, Option(metavar="VERSION")] = "3.12"
    """Version of the bundled Python."""
    container: Annotated[Path | None, Option(metavar="IMAGE.tar")] = None
    """An image, saved by podman or docker, in which the command runs: for Linux computers that have podman or docker."""
    installed: Annotated[list[str] | None, Option(metavar="MODULE")] = None
    """A Python module that all your volunteers' computers have, so it is not included."""
    title: str | None = None
    """Name that volunteers see."""
    platforms: Annotated[list[str] | None, Option("--platform")] = None
    """Platform of the command, e.g. x86_64-pc-linux-gnu. Not needed: it follows from the files."""
    plan_class: str = ""
    """Requirements of a command: a class of plan_classes.toml."""
    gpu: Annotated[str | None, Option(metavar="nvidia|amd|intel|any")] = None
    """The command computes on a GPU; {gpu} in it is its number."""
    gpu_memory: Annotated[str | None, Option(metavar="SIZE")] = None
    """With --gpu: memory that the GPU must have."""
    gpu_share: Annotated[float | None, Option(metavar="PART")] = None
    """With --gpu: the part of it that a job uses. Default 1."""
    outputs: Annotated[list[str] | None, Option("--output", metavar="NAME")] = None
    """An output file that the program writes. Not needed for those named in the command."""
    stdout: Annotated[str | None, Option(metavar="NAME")] = None
    """Save what the program prints as this output."""


def complete(program: ProgramOptions, *, is_new: bool, say: Callable[[str], None]) -> ProgramOptions:
    """Return the options with the module built and all that the app needs downloaded: minutes the first time.

    Raises:
        JobError, ConfigError: it cannot be compiled or run, or something cannot be fetched.
    """
    if sum(map(bool, (program.program, program.wasm, program.source, program.python))) > 1:
        raise click.BadParameter("--program, --wasm, --source and --python exclude each other")
    if program.program is not None:
        program = _chosen(program, program.program, say)
    if program.python is not None:
        program = replace(
            program,
            files=[program.python, *(program.files or [])],
            command=program.command
            or (f"python3 {program.python.name} {{input}} {{output}}" if is_new else None),
        )
    if program.bundle and (program.portable or program.wasm or program.source):
        raise click.BadParameter(
            "--bundle is for a command that runs Python: without --portable, --wasm and --source"
        )
    if program.container and (program.bundle or program.portable or program.wasm or program.source):
        raise click.BadParameter(
            "--container includes all that the command needs: without --bundle, --portable, "
            "--wasm and --source"
        )
    if (program.gpu, program.gpu_memory, program.gpu_share) != (None, None, None):
        program = _on_gpu(program)
    if program.requirements and not program.portable and is_new:
        raise click.BadParameter("--requirements needs --portable")
    if program.source or program.wasm or program.portable:
        from cobblestone.sdk.packing.wasm_package import compile_source, prepare

        if program.source:
            program = replace(program, wasm=compile_source(program.source, say=say))
        prepare(program.wasm, program.platforms or [], say=say)
    return program


def _on_gpu(program: ProgramOptions) -> ProgramOptions:
    """Return the options with the plan classes of the GPUs.  Raises ConfigError."""
    from cobblestone.domain.apps import gpu_class_names
    from cobblestone.sdk.app_definition import parse_size

    if program.gpu is None:
        raise click.BadParameter("--gpu-memory and --gpu-share need --gpu")
    if program.plan_class:
        raise click.BadParameter("--gpu is a plan class by itself: without --plan-class")
    if program.wasm or program.source or program.portable or program.in_browsers:
        raise click.BadParameter("WebAssembly and browsers see no GPU: without --gpu")
    names = gpu_class_names(
        program.gpu,
        memory_bytes=0 if program.gpu_memory is None else parse_size(program.gpu_memory, "--gpu-memory"),
        share=1.0 if program.gpu_share is None else program.gpu_share,
        in_container=program.container is not None,
    )
    return replace(program, plan_class=",".join(names), gpu=None, gpu_memory=None, gpu_share=None)


def _chosen(program: ProgramOptions, path: Path, say: Callable[[str], None]) -> ProgramOptions:
    """Return the options of the best way to run a program.  Raises JobError if it needs more than the program."""
    from cobblestone.domain.errors import JobError
    from cobblestone.sdk.packing.program_advice import Way, advise

    advice = advise(path)
    command = program.command or f"{path.stem} {{input}} {{output}}"
    if advice.way is Way.PORTABLE and not advice.packages:
        chosen = replace(program, program=None, python=path, portable=True)
    elif advice.way is Way.SOURCE:
        chosen = replace(program, program=None, source=[path], command=command)
    elif advice.way is Way.MODULE and path.suffix == ".wasm":
        chosen = replace(program, program=None, wasm=path, command=command)
    elif advice.way is Way.COMMAND:
        files = [path, *(program.files or [])]
        start = f"python3 {path.name}" if path.suffix == ".py" else f"./{path.name}"
        command = program.command or f"{start} {{input}} {{output}}"
        chosen = replace(program, program=None, files=files, command=command)
    else:
        raise JobError(f"The program alone is not enough. {advice.text}")
    say(advice.reason)
    return chosen


def hint(program: ProgramOptions, say: Callable[[str], None]) -> None:
    """Suggest what would reach more computers than a Python command."""
    from cobblestone.domain.errors import JobError
    from cobblestone.sdk.packing.program_advice import Way, advise

    words = (program.command or "").split()
    scripts = [file for file in program.files or [] if file.name in words[1:2]]
    if (
        program.program
        or program.portable
        or program.installed
        or program.bundle
        or program.container
        or not scripts
        or words[0] not in ("python3", "python")
    ):
        return
    try:
        advice = advise(scripts[0])
    except JobError:  # said where files are read
        return
    if advice.way is Way.PORTABLE:
        say(f"Computers without Python, such as most with Windows, get no jobs of this app. {advice.reason}")
