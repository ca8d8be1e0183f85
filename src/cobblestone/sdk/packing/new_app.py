"""What is sent for a new app or version: the command that a scientist's description leads to, or a native program."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import asdict, replace

from cobblestone.api_schema import apps as schema
from cobblestone.domain.errors import JobError
from cobblestone.domain.values import form_of
from cobblestone.sdk.api.connection import Connection
from cobblestone.sdk.app_definition import AppSpec
from cobblestone.sdk.packing import app_package as packing
from cobblestone.sdk.packing import bundle as bundles
from cobblestone.sdk.packing import wasm_package


def check_browsers(in_use_there: bool, quorum: int, compare: str, bundle: object) -> None:
    """Raise `JobError` where browsers cannot take part in an app."""
    if in_use_there and quorum < 2:
        raise JobError("A browser is never trusted alone: --browser needs --quorum 2 or more.")
    if in_use_there and bundle is not None and compare == "bitwise":
        raise JobError(
            "Compiled packages give different last bits in a browser and on the computer that "
            "checks it: --bundle with --browser needs a comparison that allows for that, such "
            "as --compare numeric:rtol=1e-6"
        )


def versions(connection: Connection, package: packing.Command) -> list[schema.NewVersion]:
    """Store a command's files; return its version for each of its plan classes."""
    stored = _stored(connection, package)
    return [replace(stored, plan_class=name) for name in stored.plan_class.split(",")]


def _stored(connection: Connection, package: packing.Command) -> schema.NewVersion:
    if isinstance(package, wasm_package.WasmCommand):
        return wasm_package.wasm_version(connection, package)
    if isinstance(package, packing.ContainerCommand):
        return packing.container_version(connection, package)
    if isinstance(package, bundles.BundleCommand):
        return bundles.bundle_version(connection, package)
    return packing.command_version(connection, package)


def kept(
    app: schema.App, *, command: str | Sequence[str] | None, outputs: Sequence[str] | None, stdout: str | None
) -> AppSpec:
    """Return what the next version keeps of an app; what is given, instead.  Raises `JobError`: it is a native program."""
    if not app.command:
        raise JobError(
            f"{app.name} is a native program. Add versions with: cobblestone app version add {app.name}"
        )
    portable = any(wasm_package.runs_python(each) for each in app.versions)
    as_written = ["python3", *app.command[1:]] if portable else list(app.command)
    names = [spec.name for spec in app.outputs if not spec.optional] if outputs is None else outputs
    return AppSpec(
        name=app.name,
        command=as_written if command is None else command,
        portable=portable,
        in_browsers=wasm_package.in_browsers(app.versions),
        outputs=names,
        optional_outputs=[spec.name for spec in app.outputs if spec.optional and spec.name not in names],
        stdout=app.stdout if stdout is None else stdout,
    )


def next_versions(connection: Connection, app: schema.App, spec: AppSpec) -> list[schema.NewVersion]:
    """Store the files of an app's next version; return it, for each plan class, with what it changes of the app.

    Raises:
        JobError: the command or a file is wrong.
    """
    _check_whole(app, spec)
    check_browsers(spec.in_browsers, app.rules.min_quorum, app.comparison.kind, spec.bundle)
    package = command(spec)
    largest = max(each.max_nbytes for each in app.outputs)
    changes = schema.AppChanges(
        command=list(package.words),
        stdout=package.stdout,
        outputs=package.output_bodies(max_nbytes=largest, gzip=any(each.gzip for each in app.outputs)),
    )
    return [replace(each, app_changes=changes) for each in versions(connection, package)]


def _check_whole(app: schema.App, spec: AppSpec) -> None:
    """Raise `JobError` where the next version lacks what the versions before it run in."""
    modules = any(wasm_package.runs_modules(each) for each in app.versions)
    if spec.wasm is None and not spec.portable and modules:
        raise JobError(
            f"{app.name} runs a WebAssembly module. Also give the module of the new version: --wasm FILE"
        )
    if spec.bundle is None and any(bundles.brings_python(each) for each in app.versions):
        raise JobError(
            f"{app.name} has a bundled Python. Also give the bundle of the new version: --bundle FILE"
        )
    if spec.container is None and packing.brings_container(app.versions):
        raise JobError(
            f"{app.name} runs in a container. Also give the container of the new version: --container FILE"
        )


def command(spec: AppSpec) -> packing.Command:
    """Return the command that a description means.  Raises `JobError`."""
    words = packing.split_command(spec.command) if isinstance(spec.command, str) else list(spec.command)
    several = [spec.files] if isinstance(spec.files, str | Path) else spec.files
    files: Sequence[Path] = [Path(file) for file in several]
    if spec.wasm is None and not spec.portable:
        if spec.in_browsers and spec.bundle is None:
            raise JobError(
                "Browsers compute WebAssembly, and Python with the packages of a bundle: also "
                "give --wasm, --source, --portable or --bundle."
            )
        plain = form_of(packing.Command, spec, words=words, files=files)
        if spec.container is not None:
            return form_of(packing.ContainerCommand, plain, source=Path(spec.container))
        if spec.bundle is None:
            return plain
        return bundles.bundle_command(
            plain, Path(spec.bundle), spec.bundle_python, in_browsers=spec.in_browsers
        )
    module = None if spec.wasm is None else Path(spec.wasm)
    if module is None:
        module, words, files = wasm_package.portable_command(words, files, _path(spec.requirements))
    return form_of(
        wasm_package.WasmCommand,
        spec,
        module=module,
        runs_python=spec.portable,
        environment={"PYTHONPATH": wasm_package.PACKAGES_FILE} if spec.portable else {},
        words=words,
        files=files,
    )


def native(spec: AppSpec, about: schema.NewApp) -> schema.NewApp:
    """Return the app of a native program, from its templates and the scientist's options, which take precedence."""
    templates = packing.read_templates(_path(spec.input_template), _path(spec.output_template))
    outputs = list(templates.outputs) or [
        schema.OutputBody(
            name=name, max_nbytes=spec.max_output_bytes, gzip=spec.gzip_outputs, optional=optional
        )
        for names, optional in ((spec.outputs, False), (spec.optional_outputs, True))
        for name in names
    ]
    if not outputs:
        raise JobError(
            "A native program needs at least one output, or nothing would come back. Name the files that it"
            " writes: --output result.txt; or give BOINC's --output-template."
        )
    given = {name: value for name, value in asdict(spec.limits).items() if value is not None}
    return replace(
        about,
        command_line=templates.command_line,
        inputs=[
            *templates.inputs,
            *(schema.InputSlotBody(name=name, open_name=name) for name in spec.inputs),
        ],
        outputs=outputs,
        limits=replace(templates.limits, **given),
        rules=templates.rules if spec.needed is None else about.rules,
        credit=_credit(about.credit, templates.credit),
    )


def _credit(given: schema.CreditBody, per_job: float | None) -> schema.CreditBody:
    """Return credit options with the amount of a template, which counts unless another system was chosen."""
    if per_job is None or given.per_job is not None or given.system not in (None, "fixed"):
        return given
    return replace(given, system="fixed", per_job=per_job)


def _path(given: str | Path | None) -> Path | None:
    return None if given is None else Path(given)
