"""A job of an app as a volunteer's client would get it, prepared in a folder of this machine; nothing is submitted."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cobblestone.api_schema import endpoints
from cobblestone.api_schema.apps import App, OutputSpec, Version
from cobblestone.domain.apps import ANY_PLATFORM
from cobblestone.domain.errors import JobError
from cobblestone.domain.job_form import DEFAULT_INPUT, InputSlot, find_placeholders, open_name_for
from cobblestone.launcher import job_command_line
from cobblestone.sdk.api.connection import Connection

NATIVE = {"aarch64": "aarch64-unknown-linux-gnu"}.get(
    platform.machine(), f"{platform.machine()}-pc-linux-gnu"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidFile:
    """A file in the folder, and the name under which the job opens it."""

    name: str
    open_name: str
    copy: bool
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaidJob:
    """A job, ready to run."""

    app: App
    version: Version
    gpu_type: str  #: that the version needs; empty: none
    folder: Path  #: has the files under their names
    main_program: str
    command_line: str
    files: tuple[LaidFile, ...]  #: but for the main program
    outputs: tuple[OutputSpec, ...]


def lay_out(
    connection: Connection,
    app: App,
    inputs: Sequence[Path],
    args: Mapping[str, str],
    folder: Path,
    *,
    gpu_types: Collection[str] = (),
) -> LaidJob:
    """Download the newest version of an app for this machine, and put it and the inputs into a folder.

    With ``gpu_types`` it is the newest version for one of these GPUs, else one that needs none if there is any.

    Raises:
        JobError: the app has no version for this machine, or the inputs or arguments are not those of its jobs.
    """
    classes: dict[str, str] = {}
    if any(each.plan_class for each in app.versions):
        known = connection.call(endpoints.LIST_PLAN_CLASSES).plan_classes
        classes = {each.name: each.gpu_type for each in known}
    version = version_here(app, classes, gpu_types)
    slots = _slots(app, inputs)
    names = [open_name_for(slot, path.name) for slot, path in zip(slots, inputs, strict=True)]
    files: list[LaidFile] = []
    for file in version.files:
        connection.save_url(file.path, folder / file.file)
        if not file.main_program:
            files.append(
                LaidFile(
                    name=file.file, open_name=file.open_name, copy=file.copy_file, executable=file.executable
                )
            )
    for number, (path, slot, open_name) in enumerate(zip(inputs, slots, names, strict=True)):
        physical = f"trial_input_{number}"
        shutil.copyfile(path, folder / physical)
        files.append(LaidFile(name=physical, open_name=open_name, copy=slot.copy_file))
    return LaidJob(
        app=app,
        version=version,
        gpu_type=classes.get(version.plan_class, ""),
        folder=folder,
        main_program=next(file.file for file in version.files if file.main_program),
        command_line=_command_line(app, version, slots, names, args),
        files=tuple(files),
        outputs=tuple(app.outputs),
    )


def version_here(app: App, classes: Mapping[str, str], gpu_types: Collection[str]) -> Version:
    """Return the version to try; ``classes`` are the GPU types of plan classes.  Raises `JobError`, see `lay_out`."""
    fitting = [each for each in app.versions if each.platform in (ANY_PLATFORM, NATIVE)]
    if not fitting:
        known = ", ".join(sorted({each.platform for each in app.versions})) or "none"
        raise JobError(
            f"{app.name} has no version that runs on this computer ({NATIVE}); there are: {known}."
        )
    wanted = gpu_types or ("",)
    chosen = [each for each in fitting if classes.get(each.plan_class, "") in wanted]
    if gpu_types and not chosen:
        raise JobError(f"{app.name} has no version for the GPUs of this computer: {', '.join(gpu_types)}.")
    return max(chosen or fitting, key=lambda each: each.version_num)


def _slots(app: App, inputs: Sequence[Path]) -> list[InputSlot]:
    """Return the place of each input, in the order of the app."""
    if app.command:
        placeholders = find_placeholders(app.command)
        slots = [InputSlot(name=name) for name in placeholders.inputs]
        any_number = placeholders.all_inputs
    else:
        slots = [InputSlot(name=slot.name, open_name=slot.open_name) for slot in app.inputs]
        any_number = not slots
    if len(inputs) < len(slots) or (len(inputs) > len(slots) and not any_number):
        names = f" ({', '.join(slot.name for slot in slots)})" if slots else ""
        raise JobError(
            f"A job of {app.name} has {len(slots)} input files{names}; {len(inputs)} were given."
            f" Write: cobblestone app try {app.name} {' '.join(slot.name.upper() for slot in slots)}".rstrip()
        )
    missing = [path for path in inputs if not path.is_file()]
    if missing:
        raise JobError(f"The input file {missing[0]} does not exist.")
    return slots + [
        InputSlot(name=f"{DEFAULT_INPUT}_{number}" if number or app.command else DEFAULT_INPUT)
        for number in range(len(slots), len(inputs))
    ]


def _command_line(
    app: App, version: Version, slots: Sequence[InputSlot], names: Sequence[str], args: Mapping[str, str]
) -> str:
    if not app.command:
        if args:
            raise JobError("--arg is for apps with a command.")
        return f"{app.command_line} {version.command_line}".strip()
    wanted = find_placeholders(app.command).arguments
    for name in sorted(set(wanted) ^ set(args)):
        if name in wanted:
            raise JobError(f"The command uses {{arg:{name}}}. Give it: --arg {name}=VALUE")
        raise JobError(f"The command does not use {{arg:{name}}}, which was given with --arg.")
    return job_command_line(
        inputs={slot.name: name for slot, name in zip(slots, names, strict=True)},
        outputs={spec.name: spec.name for spec in app.outputs},
        arguments=args,
    )
