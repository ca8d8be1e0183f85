"""Options that say what an app runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

FilesOption = Annotated[
    list[Path] | None,
    typer.Option("--files", metavar="FILE…", help="Files that the command needs.", show_default=False),
]


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """The program, and what comes back."""

    command: Annotated[
        str | None,
        typer.Option(
            help='Command line with placeholders, e.g. "python3 period.py {input} {output}". An app without one is a'
            " native program: add its executables with `app version add`.",
            show_default=False,
        ),
    ] = None
    files: FilesOption = None
    wasm: Annotated[
        Path | None,
        typer.Option(
            "--wasm",
            metavar="FILE.wasm",
            help="A WebAssembly module that the command runs, the same on Windows, macOS and Linux; the command's first word is"
            " its name.",
            show_default=False,
        ),
    ] = None
    source: Annotated[
        list[Path] | None,
        typer.Option(
            "--source",
            metavar="FILE.c",
            help="C or C++ source, compiled to such a module; again for each further file.",
            show_default=False,
        ),
    ] = None
    python: Annotated[
        Path | None,
        typer.Option(
            "--python",
            metavar="FILE.py",
            help='A Python program; short for --files FILE.py and --command "python3 FILE.py {input} {output}".',
            show_default=False,
        ),
    ] = None
    portable: Annotated[
        bool,
        typer.Option(
            "--portable",
            help="Send Python along, as WebAssembly: the program runs on every Windows, macOS and Linux computer, but slower.",
        ),
    ] = False
    requirements: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.txt",
            help="Packages of pure Python that are sent along with a portable program.",
            show_default=False,
        ),
    ] = None
    in_browsers: Annotated[
        bool,
        typer.Option(
            "--browser",
            help="Visitors' browsers compute it too, on the project's page /compute; for WebAssembly and a quorum of 2 or more.",
        ),
    ] = False
    installed: Annotated[
        list[str] | None,
        typer.Option(
            "--installed",
            metavar="MODULE",
            help="A Python module that all computers of your volunteers have, so it is not sent along.",
            show_default=False,
        ),
    ] = None
    title: Annotated[str | None, typer.Option(help="Name that volunteers see.", show_default=False)] = None
    platforms: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            help="Where a command may run, e.g. x86_64-pc-linux-gnu. Not needed: it follows from the files.",
            show_default=False,
        ),
    ] = None
    plan_class: Annotated[
        str, typer.Option(help="What a command needs of a computer: a class of plan_classes.toml.")
    ] = ""
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            metavar="NAME",
            help="An output file that the program writes. Not needed for those that the command names.",
            show_default=False,
        ),
    ] = None
    stdout: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Keep what the program prints, as this output.", show_default=False
        ),
    ] = None


def complete(program: ProgramOptions, *, is_new: bool, say: Callable[[str], None]) -> ProgramOptions:
    """Return the options of a program with its module made, and what its app needs fetched: minutes the first time.

    Raises:
        JobError, ConfigError: it cannot be compiled or run, or something cannot be fetched.
    """
    if sum(map(bool, (program.wasm, program.source, program.python))) > 1:
        raise typer.BadParameter("--wasm, --source and --python exclude each other")
    if program.python is not None:
        program = replace(
            program,
            files=[program.python, *(program.files or [])],
            command=program.command
            or (f"python3 {program.python.name} {{input}} {{output}}" if is_new else None),
        )
    if program.requirements and not program.portable and is_new:
        raise typer.BadParameter("--requirements belongs to --portable")
    if program.source or program.wasm or program.portable:
        from cobblestone.sdk.wasm_package import prepare
        from cobblestone.sdk.wasm_sources import compile_source

        if program.source:
            program = replace(program, wasm=compile_source(program.source, say=say))
        prepare(program.wasm, program.platforms or [], say=say)
    return program
