"""Builds an app from a command and files, from executables of a native program, or with a container."""

from __future__ import annotations

import hashlib
import shlex
import tempfile
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from cobblestone.api_schema import apps as schema
from cobblestone.domain import apps as domain
from cobblestone.domain import job_form
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.launcher import APP_FILE, BUNDLE_FILE, RESERVED_OPEN_NAMES, app_description, launcher_bytes
from cobblestone.launcher.packing import DESCRIPTION_FILE, IMAGE_FILE, PYODIDE_DESCRIPTION_FILE, pack_image
from cobblestone.sdk.api.connection import Connection
from cobblestone.sdk.packing.dependencies import check_modules
from cobblestone.wire.project.templates import InputTemplate, parse_input_template, parse_output_template

S = TypeVar("S", bound=msgspec.Struct)

LAUNCHER_NAME = "cobblestone_launcher.py"
_SENT_ALONG = (APP_FILE, BUNDLE_FILE, DESCRIPTION_FILE, IMAGE_FILE, LAUNCHER_NAME, PYODIDE_DESCRIPTION_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A scientist's program: a command line and the files that it needs."""

    words: Sequence[str]
    files: Sequence[Path] = ()
    outputs: Sequence[str] = ()  #: names; those in the command need not be repeated
    optional_outputs: Sequence[str] = ()
    stdout: str = ""  #: name of the output that receives what the program prints
    installed: Collection[str] = ()  #: modules that the volunteers' computers are known to have
    platforms: Sequence[str] = ()  #: where it may run; none: wherever its files can be started
    plan_class: str = ""

    @property
    def placeholders(self) -> job_form.Placeholders:
        """Return the placeholders of the command; raises JobError."""
        return job_form.find_placeholders(self.words)

    def output_names(self) -> tuple[str, ...]:
        """Return the names of all outputs, in order; raises JobError if there is none."""
        return job_form.output_names(
            self.placeholders, [*self.outputs, *self.optional_outputs], stdout=self.stdout
        )

    def output_bodies(self, *, max_nbytes: int, gzip: bool) -> list[schema.OutputBody]:
        """Return the outputs as API bodies."""
        return [
            schema.OutputBody(
                name=name, max_nbytes=max_nbytes, gzip=gzip, optional=name in self.optional_outputs
            )
            for name in self.output_names()
        ]

    def check(self) -> None:
        """Find mistakes before anything is sent.

        Raises:
            JobError: a placeholder is unknown, a file is missing or named twice, nothing would come back …
        """
        contents = self.check_names()
        check_words(self.words, contents)
        _check_program(self.words, contents)
        check_modules(contents, installed=self.installed)
        command_platforms(self.words, contents, self.platforms)
        app_description(self.words, files=contents, stdout=self.stdout)

    def check_names(self, own: Sequence[str] = (), reserved: Sequence[str] = _SENT_ALONG) -> dict[str, bytes]:
        """Return the contents of the files; raises JobError for unreadable files and colliding names.

        ``own``: open names of further files of the scientist; ``reserved``: those of what is sent along.
        """
        contents = read_files(self.files)
        form = job_form.JobForm(
            command=tuple(self.words),
            inputs=tuple(job_form.InputSlot(name=name) for name in self.placeholders.inputs),
        )
        taken = [*RESERVED_OPEN_NAMES, *reserved]
        job_form.check_open_names([*own, *contents], form, self.output_names(), taken)
        return contents


def split_command(text: str) -> list[str]:
    """Return the words of a command line, quoted as in a shell.

    Raises:
        JobError: a quote is not closed, or it uses the shell's own syntax.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise JobError(
            f"The command {text!r} cannot be split into words: {error}. Check its quotes."
        ) from error
    if words and words[0] == "python":
        words[0] = "python3"  # the launcher's word for the interpreter that it runs under
    for word in words:
        if word in ("|", ">", ">>", "<", "&&", "||", ";", "&"):
            raise JobError(
                f"The command has {word!r}, but no shell runs it. Put such things into a script, include it"
                ' with --files, and run it: --command "sh job.sh {input} {output}" (to keep what a program prints,'
                " use --stdout NAME)"
            )
    return words


def read_files(paths: Sequence[Path]) -> dict[str, bytes]:
    """Return the contents of files by name.

    Raises:
        JobError: a file cannot be read, or two have the same name.
    """
    contents: dict[str, bytes] = {}
    for path in paths:
        if path.name in contents:
            raise JobError(
                f"Two files are called {path.name}. They would be in one folder on the volunteers' computers:"
                " rename one."
            )
        if not path.is_file():
            what = "is a folder; name its files one by one" if path.is_dir() else "does not exist"
            raise JobError(f"--files: {path} {what}. (The current folder is {Path.cwd()}.)")
        contents[path.name] = path.read_bytes()
    return contents


def check_words(words: Sequence[str], contents: Mapping[str, bytes]) -> None:
    """Require that scripts named in the command are included."""
    for word in words:
        if "{" not in word and word.endswith((".py", ".sh", ".pl", ".R", ".jl")) and "/" not in word:
            if word not in contents:
                known = f"--files has: {', '.join(contents)}." if contents else "There are no --files."
                raise JobError(f"The command uses {word}, which is not included. {known} Add: --files {word}")
        elif word.startswith("/") or "../" in word:
            raise JobError(
                f"The command uses the path {word!r}, which volunteers' computers do not have."
                " Include the file with --files and name it without its folder."
            )


_INTERPRETERS = {".py": "python3", ".sh": "sh", ".pl": "perl", ".R": "Rscript", ".jl": "julia"}


def _check_program(words: Sequence[str], contents: Mapping[str, bytes]) -> None:
    """Refuse a main program that no system can start."""
    name = words[0].removeprefix("./")
    data = contents.get(name)
    if data is None or domain.platforms_of_program(data[: domain.HEAD_NBYTES]) is not None:
        if data is not None and data.startswith(b"#!") and data.partition(b"\n")[0].endswith(b"\r"):
            raise JobError(
                f"The first line of {name} ends as Windows ends lines, so that Linux and macOS look for an interpreter of a"
                f" name that nothing has. Save it with Unix line ends (LF), e.g. by: sed -i 's/\\r$//' {name}"
            )
        return
    if interpreter := _INTERPRETERS.get(Path(name).suffix):
        rest = " ".join(words[1:])
        raise JobError(
            f"{name} does not begin with a line like #!/usr/bin/env {interpreter}, so it is unknown what starts it. Name it:"
            f' --command "{interpreter} {name} {rest}"'.rstrip()
        )
    raise JobError(
        f"{name} is neither a program (ELF, PE, Mach-O) nor a script with a first line like #!/bin/sh: no computer can start it."
    )


def command_platforms(
    words: Sequence[str], contents: Mapping[str, bytes], wanted: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the platforms that can start a command: the ``wanted`` ones, or all that its files allow.

    Where no file decides it, everything that has a Python can run it.

    Raises:
        JobError: no platform can start it, or not one of those wanted.
    """
    own = {name: domain.platforms_of_program(data[: domain.HEAD_NBYTES]) for name, data in contents.items()}
    able, why = domain.platforms_of_command(words, own)
    if able is None:
        return tuple(dict.fromkeys(wanted)) or (domain.ANY_PLATFORM,)
    if not able:
        raise JobError(f"{why} is a program for a kind of computer that no BOINC client supports.")
    if not wanted:
        return able
    for platform in wanted:
        if platform not in able:
            raise JobError(f"--platform {platform}: {why} can be started on {', '.join(able)} only.")
    return tuple(dict.fromkeys(wanted))


def uploaded(
    connection: Connection,
    name: str,
    data: bytes,
    *,
    stored_as: str = "",
    main_program: bool = False,
    executable: bool = False,
    copy_file: bool = False,
) -> schema.VersionFileBody:
    """Store a file that jobs open by this name; return it as one of an app version, with its use there."""
    stored = connection.put_file(hashlib.sha256(data).hexdigest(), data, name=stored_as or name)
    return schema.VersionFileBody(
        file=stored.name,
        open_name=name,
        main_program=main_program,
        executable=executable,
        copy_file=copy_file,
    )


def command_version(connection: Connection, command: Command) -> schema.NewVersion:
    """Upload the files of a version of a command; return the version for a request.

    The main program is the launcher; the command itself lies in a signed description beside it.
    """
    command.check()
    contents = read_files(command.files)
    first, *further = command_platforms(command.words, contents, command.platforms)
    files = command_files(connection, version_description(command), contents)
    return schema.NewVersion(platform=first, also_for=further, plan_class=command.plan_class, files=files)


def command_files(
    connection: Connection, description: bytes, contents: Mapping[str, bytes]
) -> list[schema.VersionFileBody]:
    """Upload launcher, description and files of a command."""
    main = uploaded(connection, LAUNCHER_NAME, launcher_bytes(), executable=True, main_program=True)
    return [main, *copied_files(connection, {APP_FILE: description, **contents})]


def copied_files(connection: Connection, contents: Mapping[str, bytes]) -> list[schema.VersionFileBody]:
    """Upload files that each job gets a copy of."""
    return [
        uploaded(
            connection,
            name,
            data,
            copy_file=True,
            # A script may be started by its name; that it is one is seen at its first line.
            executable=domain.platforms_of_program(data[: domain.HEAD_NBYTES]) is not None,
        )
        for name, data in contents.items()
    ]


def version_description(command: Command) -> bytes:
    """Return the description of a command for the launcher."""
    return app_description(
        command.words,
        files=read_files(command.files),
        stdout=command.stdout,
        optional_outputs=command.optional_outputs,
    )


def native_version(
    connection: Connection,
    *,
    platform: str,
    main: Path,
    files: Sequence[Path] = (),
    plan_class: str = "",
    command_line: str = "",
    copy_files: bool = False,
) -> schema.NewVersion:
    """Upload the files of a native program that uses the BOINC API; return the version for a request."""
    if platform == domain.ANY_PLATFORM:
        raise JobError(
            "A native program runs on one platform only: --platform x86_64-pc-linux-gnu, windows_x86_64 …"
        )
    contents = read_files([main, *files])
    able = domain.platforms_of_program(contents[main.name][: domain.HEAD_NBYTES])
    if able is not None and platform in domain.PLATFORMS and platform not in able:
        raise JobError(
            f"{main.name} cannot be started on {platform}, but on {', '.join(able) or 'nothing that clients run on'}."
        )
    return schema.NewVersion(
        platform=platform,
        plan_class=plan_class,
        command_line=command_line,
        files=[
            uploaded(
                connection,
                name,
                data,
                executable=name == main.name
                or domain.platforms_of_program(data[: domain.HEAD_NBYTES]) is not None,
                main_program=name == main.name,
                copy_file=copy_files and name != main.name,
            )
            for name, data in contents.items()
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Templates:
    """The content of BOINC job templates."""

    inputs: Sequence[schema.InputSlotBody] = ()
    outputs: Sequence[schema.OutputBody] = ()
    command_line: str = ""
    limits: schema.LimitsBody = schema.LimitsBody()
    rules: schema.RulesBody = schema.RulesBody()
    credit: float | None = None  #: of each job


def read_templates(input_template: Path | None, output_template: Path | None) -> Templates:
    """Read BOINC job templates.

    Elements that are ignored are told by `warnings`, with their lines.

    Raises:
        JobError: a template cannot be read, or uses something that has another place here; the text names the line.
    """
    outputs = () if output_template is None else _outputs(output_template)
    if input_template is None:
        return Templates(outputs=outputs)
    template = parse_input_template(_text(input_template), source=str(input_template))
    _warn(template.warnings)
    for file in template.files:
        if file.physical_name or file.urls:
            raise JobError(
                f"{input_template}: the input {file.open_name} is the same for every job. Include it with the program"
                " instead: --files"
            )
    return Templates(
        inputs=[
            schema.InputSlotBody(
                name=file.open_name, open_name=file.open_name, copy_file=file.copy_file, sticky=file.sticky
            )
            for file in template.files
        ],
        outputs=outputs,
        command_line=template.command_line,
        limits=_given(template, schema.LimitsBody),
        rules=_given(template, schema.RulesBody),
        credit=template.credit,
    )


def _warn(texts: Iterable[str]) -> None:
    for each in texts:
        warnings.warn(each, stacklevel=4)


def _outputs(path: Path) -> list[schema.OutputBody]:
    template = parse_output_template(_text(path), source=str(path))
    _warn(template.warnings)
    return [
        schema.OutputBody(
            name=file.open_name,
            max_nbytes=file.max_nbytes,
            gzip=file.gzip_when_done,
            optional=file.optional,
            copy_file=file.copy_file,
        )
        for file in template.files
    ]


def _given(template: InputTemplate, kind: type[S]) -> S:
    values = {name: getattr(template, name, None) for name in kind.__struct_fields__}
    return kind(**{name: value for name, value in values.items() if value is not None})


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The template {path} cannot be read: {error}.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCommand(Command):
    """A command that runs in a container: its words are looked up in the image, or among the files."""

    source: Path  #: the image as it was saved

    def check(self) -> None:
        """Find mistakes before anything is sent, except those in the image; raises JobError."""
        named = [domain.gpu_class(name) for name in self.plan_class.split(",") if name]
        if not all(each is not None and each.docker for each in named):
            raise JobError(
                f"--plan-class {self.plan_class}: containers have their own, {domain.CONTAINER_CLASS}. To require more of the"
                f" computers, put it into plan_classes.toml as [{domain.CONTAINER_CLASS}] with docker = true."
            )
        self.description({})

    @property
    def program(self) -> str:
        """Return the program that the image must have; empty: it is sent along, or differs between jobs."""
        first = self.words[0]
        sent = "{" in first or PurePosixPath(first).name in {path.name for path in self.files}
        return "" if sent else first

    def description(self, container: Mapping[str, str]) -> bytes:
        """Return the description for the launcher.  It limits memory and disk itself, in case the engine cannot."""
        return app_description(
            self.words,
            files=self.check_names(),
            stdout=self.stdout,
            optional_outputs=self.optional_outputs,
            enforce_memory=True,
            enforce_disk=True,
            container=container,
        )


def container_version(connection: Connection, command: ContainerCommand) -> schema.NewVersion:
    """Pack and upload the files of a version with a container; return the version for a request.

    Raises:
        JobError: the image cannot be used, or the options do not fit.
    """
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as folder:
        image = pack_image(command.source, Path(folder), program=command.program)
        for platform in command.platforms:
            if platform != image.platform:
                raise JobError(f"--platform {platform}: the image runs on {image.platform} only.")
        stored = connection.put_file(image.sha256, image.path, name=image.file_name)
    files = command_files(connection, command.description(image.description), command.check_names())
    archive = schema.VersionFileBody(file=stored.name, open_name=IMAGE_FILE)
    return schema.NewVersion(
        platform=image.platform,
        plan_class=command.plan_class or domain.CONTAINER_CLASS,
        files=[*files, archive],
    )


def brings_container(versions: Sequence[schema.Version]) -> bool:
    """Return whether one of the versions has a container."""
    return any(file.open_name == IMAGE_FILE for version in versions for file in version.files)
