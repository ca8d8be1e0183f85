"""Apps, for programs and for the command line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from cobblestone.api_schema import apps as schema
from cobblestone.api_schema import endpoints
from cobblestone.api_schema.project import PlanClass
from cobblestone.domain.errors import ConfigError, JobError
from cobblestone.sdk.api.connection import ConflictError, Connection

if TYPE_CHECKING:
    from cobblestone.sdk.app_definition import AppSpec, ProjectFunctions

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
        from cobblestone.sdk.app_definition import ProjectFunctions

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
        from cobblestone.sdk.app_definition import AppSpec
        from cobblestone.sdk.packing import new_app

        spec = app if isinstance(app, AppSpec) else AppSpec(name=app, command=command, files=files, **more)
        new_app.check_browsers(spec.in_browsers, spec.needed or 1, spec.compare, spec.bundle)
        package = new_app.command(spec) if spec.command or spec.wasm or spec.portable else None
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
            dispatch=schema.DispatchBody(
                adaptive=spec.spot_checks or None, keywords=list(spec.keywords) or None
            ),
            outputs=[]
            if package is None
            else package.output_bodies(max_nbytes=spec.max_output_bytes, gzip=spec.gzip_outputs),
        )
        if package is None:
            return self.connection.call(endpoints.CREATE_APP, body=new_app.native(spec, about))
        first, *others = new_app.versions(self.connection, package)
        body = replace(about, command=list(package.words), stdout=package.stdout, version=first)
        created = self.connection.call(endpoints.CREATE_APP, body=body)
        for each in others:
            self.connection.call(endpoints.ADD_VERSION, spec.name, body=each)
        return self.app(spec.name) if others else created

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
        bundle_python: str = "3.12",
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
        from cobblestone.sdk.packing import new_app

        app = self.app(name)
        kept = new_app.kept(app, command=command, outputs=outputs, stdout=stdout)
        spec = dataclasses.replace(
            kept,
            files=files,
            wasm=wasm,
            requirements=requirements,
            bundle=bundle,
            bundle_python=bundle_python,
            container=container,
            in_browsers=browsers or kept.in_browsers,
            installed=installed,
            platforms=platforms,
            plan_class=plan_class,
        )
        added = [
            self.connection.call(endpoints.ADD_VERSION, name, body=replace(each, rollout=list(rollout)))
            for each in new_app.next_versions(self.connection, app, spec)
        ]
        return added[0]

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
        from cobblestone.sdk.packing.app_package import native_version

        version = native_version(
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
