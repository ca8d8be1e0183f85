"""Apps, for programs and for the command line."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from cobblestone.api_schema import apps as schema
from cobblestone.api_schema import endpoints
from cobblestone.api_schema.project import PlanClass
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.domain.values import form_of
from cobblestone.sdk.api.connection import ConflictError, Connection
from cobblestone.sdk.app_definition import AppSpec, ProjectFunctions
from cobblestone.sdk.packing import app_package as packing
from cobblestone.sdk.packing import bundle as bundles
from cobblestone.sdk.packing import wasm_package

APP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]{0,59}")


class AppMethods:
    """The calls of a project about apps."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def apps(self) -> list[schema.App]:
        """Return all apps."""
        return self.connection.call(endpoints.LIST_APPS).apps

    def app(self, name: str) -> schema.App:
        """Return an app and its versions in use.  Raises NotFoundError."""
        return self.connection.call(endpoints.GET_APP, name)

    def versions(self, app: str) -> list[schema.Version]:
        """Return all versions of an app, including deprecated ones."""
        return self.connection.call(endpoints.LIST_VERSIONS, app, deprecated=True).versions

    def plan_classes(self) -> list[PlanClass]:
        """Return the project's plan classes, and which of the known hosts each would match."""
        return self.connection.call(endpoints.LIST_PLAN_CLASSES).plan_classes

    def functions(self, app: str, beside: Iterable[str | Path] = ()) -> ProjectFunctions:
        """Return a helper that copies Python functions of an app into the project's folder."""
        return ProjectFunctions(self.connection.folder, app, beside=[Path(file) for file in beside])

    def create_app(
        self,
        app: str | AppSpec,
        command: str | Sequence[str] = "",
        files: Iterable[str | Path] = (),
        **more: Any,
    ) -> schema.App:
        """Create an app; with a command, also its first version.

        Give an :class:`AppSpec`, or its members one by one:
        ``create_app("period", "python3 period.py {input} {output}", ["period.py"], quorum=2)``.

        Raises:
            JobError, ConfigError: the command, a file, a comparison … is wrong; the text says what to do.
            ConflictError: the name is taken.
        """
        spec = app if isinstance(app, AppSpec) else AppSpec(name=app, command=command, files=files, **more)
        _check_browsers(spec.in_browsers, spec.needed or 1, spec.compare, spec.bundle)
        package = _command(spec) if spec.command or spec.wasm or spec.portable else None
        if package is not None:
            package.check()
        self._refuse_taken(spec.name)
        functions = self.functions(spec.name, spec.function_files)
        about = schema.NewApp(
            name=spec.name,
            title=spec.title,
            comparison=functions.comparison(spec.compare),
            assimilator=functions.assimilator(spec.assimilate),
            credit=functions.credit(spec.credit),
            limits=spec.limits,
            rules=schema.RulesBody(min_quorum=spec.needed or 1),
            dispatch=schema.DispatchBody(adaptive=spec.spot_checks or None),
            outputs=[]
            if package is None
            else package.output_bodies(max_nbytes=spec.max_output_bytes, gzip=spec.gzip_outputs),
        )
        if package is None:
            return self.connection.call(endpoints.CREATE_APP, body=_native(spec, about))
        body = replace(
            about,
            command=list(package.words),
            stdout=package.stdout,
            version=_version(self.connection, package),
        )
        return self.connection.call(endpoints.CREATE_APP, body=body)

    def update_app(
        self,
        name: str,
        files: Iterable[str | Path],
        *,
        command: str | Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        stdout: str | None = None,
        wasm: str | Path | None = None,
        requirements: str | Path | None = None,
        bundle: str | Path | None = None,
        bundle_python: str = bundles.DEFAULT_PYTHON,
        container: str | Path | None = None,
        browsers: bool = False,
        installed: Collection[str] = (),
        platforms: Sequence[str] = (),
        plan_class: str = "",
        rollout: Sequence[float] = (),
    ) -> schema.Version:
        """Add a version to an app that was made from a command; options not given keep their values.

        ``files`` are all files of the new version; ``rollout`` are growing parts of the computers that it reaches step by
        step (empty: all at once).  With ``browsers`` visitors' browsers compute it too; they go on doing so if they did.

        Raises:
            JobError: the command or a file is wrong, or the app is a native program.
            NotFoundError: there is no such app.
        """
        app = self.app(name)
        if not app.command:
            raise JobError(
                f"{name} is a native program. Add versions with: cobblestone app version add {name}"
            )
        portable = any(wasm_package.runs_python(each) for each in app.versions)
        if wasm is None and not portable and any(wasm_package.runs_modules(each) for each in app.versions):
            raise JobError(
                f"{name} runs a WebAssembly module. Also give the module of the new version: --wasm FILE"
            )
        if bundle is None and any(bundles.brings_python(each) for each in app.versions):
            raise JobError(
                f"{name} has a bundled Python. Also give the bundle of the new version: --bundle FILE"
            )
        if container is None and packing.brings_container(app.versions):
            raise JobError(
                f"{name} runs in a container. Also give the container of the new version: --container FILE"
            )
        names = [spec.name for spec in app.outputs if not spec.optional] if outputs is None else outputs
        optional = [spec.name for spec in app.outputs if spec.optional and spec.name not in names]
        in_use_there = browsers or wasm_package.in_browsers(app.versions)
        _check_browsers(in_use_there, app.rules.min_quorum, app.comparison.kind, bundle)
        package = _command(
            AppSpec(
                name=name,
                command=_python_words(app.command, portable) if command is None else command,
                files=files,
                outputs=names,
                optional_outputs=optional,
                stdout=app.stdout if stdout is None else stdout,
                wasm=wasm,
                portable=portable,
                requirements=requirements,
                bundle=bundle,
                bundle_python=bundle_python,
                container=container,
                in_browsers=in_use_there,
                installed=installed,
                platforms=platforms,
                plan_class=plan_class,
            )
        )
        version = _version(self.connection, package)
        largest = max(spec.max_nbytes for spec in app.outputs)
        changes = schema.AppChanges(
            command=list(package.words),
            stdout=package.stdout,
            outputs=package.output_bodies(max_nbytes=largest, gzip=any(spec.gzip for spec in app.outputs)),
        )
        body = replace(version, app_changes=changes, rollout=list(rollout))
        return self.connection.call(endpoints.ADD_VERSION, name, body=body)

    def add_native_version(
        self,
        name: str,
        *,
        platform: str,
        main: str | Path,
        files: Iterable[str | Path] = (),
        plan_class: str = "",
        command_line: str = "",
        copy_files: bool = False,
        rollout: Sequence[float] = (),
    ) -> schema.Version:
        """Add executables for one platform and plan class; ``rollout`` as in :meth:`update_app`.

        Raises:
            JobError: a file cannot be read, or the app has a command.
            NotFoundError: there is no such app or plan class.
        """
        if self.app(name).command:
            raise JobError(f"{name} has a command. New versions: cobblestone app update {name} --files …")
        version = packing.native_version(
            self.connection,
            platform=platform,
            main=Path(main),
            files=[Path(file) for file in files],
            plan_class=plan_class,
            command_line=command_line,
            copy_files=copy_files,
        )
        body = replace(version, rollout=list(rollout))
        return self.connection.call(endpoints.ADD_VERSION, name, body=body)

    def change_app(self, name: str, changes: schema.AppChanges) -> schema.App:
        """Change properties of an app; existing jobs keep theirs.  Raises NotFoundError."""
        return self.connection.call(endpoints.CHANGE_APP, name, body=changes)

    def propose_deadline(self, name: str) -> schema.DeadlineProposal:
        """Return a deadline for an app's jobs, based on how long its good results took.  Raises NotFoundError."""
        return self.connection.call(endpoints.PROPOSE_DEADLINE, name)

    def deprecate_version(self, version_id: int, *, undo: bool = False) -> schema.Version:
        """Stop sending a version, or send it again.  Raises NotFoundError."""
        return self.connection.call(
            endpoints.CHANGE_VERSION, version_id, body=schema.VersionChanges(deprecated=not undo)
        )

    def _refuse_taken(self, name: str) -> None:
        if not APP_NAME.fullmatch(name):
            raise ConfigError(
                f"The app name {name!r} must be 1 to 60 letters, digits, _ and -, and begin with a letter or digit."
            )
        if any(app.name == name for app in self.apps()):
            raise ConflictError(
                f"There is already an app called {name}. Change it with: cobblestone app update {name} --files …"
            )


def _check_browsers(in_use_there: bool, quorum: int, compare: str, bundle: object) -> None:
    if in_use_there and quorum < 2:
        raise JobError("A browser is never trusted alone: --browser needs --quorum 2 or more.")
    if in_use_there and bundle is not None and compare == "bitwise":
        raise JobError(
            "Compiled packages give different last bits in a browser and on the computer that "
            "checks it: --bundle with --browser needs a comparison that allows for that, such "
            "as --compare numeric:rtol=1e-6"
        )


def _version(connection: Connection, package: packing.Command) -> schema.NewVersion:
    if isinstance(package, wasm_package.WasmCommand):
        return wasm_package.wasm_version(connection, package)
    if isinstance(package, packing.ContainerCommand):
        return packing.container_version(connection, package)
    if isinstance(package, bundles.BundleCommand):
        return bundles.bundle_version(connection, package)
    return packing.command_version(connection, package)


def _python_words(command: Sequence[str], portable: bool) -> list[str]:
    """Return the words of an app's command as a scientist writes them."""
    return ["python3", *command[1:]] if portable else list(command)


def _command(spec: AppSpec) -> packing.Command:
    words = packing.split_command(spec.command) if isinstance(spec.command, str) else list(spec.command)
    files: Sequence[Path] = [Path(file) for file in spec.files]
    if spec.wasm is None and not spec.portable:
        if spec.in_browsers and spec.bundle is None:
            raise JobError(
                "Browsers compute WebAssembly, and Python with the packages of a bundle: also "
                "give --wasm, --source, --portable or --bundle."
            )
        command = form_of(packing.Command, spec, words=words, files=files)
        if spec.container is not None:
            return form_of(packing.ContainerCommand, command, source=Path(spec.container))
        if spec.bundle is None:
            return command
        return bundles.bundle_command(
            command, Path(spec.bundle), spec.bundle_python, in_browsers=spec.in_browsers
        )
    module = None if spec.wasm is None else Path(spec.wasm)
    if module is None:
        module, words, files = wasm_package.portable_command(words, files, _path(spec.requirements))
    return wasm_package.WasmCommand(
        module=module,
        runs_python=spec.portable,
        in_browsers=spec.in_browsers,
        environment={"PYTHONPATH": wasm_package.PACKAGES_FILE} if spec.portable else {},
        words=words,
        files=files,
        outputs=spec.outputs,
        optional_outputs=spec.optional_outputs,
        stdout=spec.stdout,
        platforms=spec.platforms,
        plan_class=spec.plan_class,
    )


def _native(spec: AppSpec, about: schema.NewApp) -> schema.NewApp:
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
