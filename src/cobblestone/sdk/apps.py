"""Apps, for programs and for the command line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from cobblestone.api_schema.apps import App, AppList, Version, VersionList
from cobblestone.api_schema.project import PlanClass, PlanClassList
from cobblestone.domain.errors import ConfigError, Conflict, JobError
from cobblestone.sdk.app_definition import Limits, ProjectFunctions
from cobblestone.sdk.app_package import (
    Command,
    command_version,
    native_version,
    read_templates,
    split_command,
)
from cobblestone.sdk.connection import Connection

APP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-]{0,59}")


class AppMethods:
    """The part of a project that is about apps."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def apps(self) -> list[App]:
        """All apps."""
        return self.connection.get("/apps", AppList).apps

    def app(self, name: str) -> App:
        """An app and its versions in use.  Raises NotFound."""
        return self.connection.get(f"/apps/{quote(name, safe='')}", App)

    def versions(self, app: str) -> list[Version]:
        """All versions of an app, deprecated ones too."""
        path = f"/apps/{quote(app, safe='')}/versions"
        return self.connection.get(path, VersionList, deprecated=True).versions

    def plan_classes(self) -> list[PlanClass]:
        """The project's plan classes, and which of the known hosts each would match."""
        return self.connection.get("/plan_classes", PlanClassList).plan_classes

    def functions(self, app: str, beside: Iterable[str | Path] = ()) -> ProjectFunctions:
        """Brings Python functions of an app into the project's folder."""
        return ProjectFunctions(self.connection.folder, app, beside=[Path(file) for file in beside])

    def create_app(
        self,
        name: str,
        command: str | Sequence[str],
        files: Iterable[str | Path] = (),
        *,
        title: str = "",
        outputs: Sequence[str] = (),
        optional_outputs: Sequence[str] = (),
        stdout: str = "",
        quorum: int = 1,
        compare: str = "bitwise",
        assimilate: str = "",
        function_files: Iterable[str | Path] = (),
        limits: Limits | None = None,
        max_output_bytes: int = 50_000_000,
        gzip_outputs: bool = False,
        credit: Mapping[str, object] | None = None,
    ) -> App:
        """Make an app of a command, with its first version.

        ``command`` has placeholders: ``"python3 period.py {input} {output}"``.  ``files`` are sent along.  ``compare``
        and ``assimilate`` are as on the command line: ``numeric:rtol=1e-6``, ``FILE.py:function``.  ``credit`` chooses the
        credit system and its options: ``{"system": "fixed", "per_job": 20}``.

        Raises:
            JobError, ConfigError: the command, a file, a comparison … is wrong; the text says what to do.
            Conflict: the name is taken.
        """
        package = _command(command, files, outputs, optional_outputs, stdout)
        package.check()
        self._refuse_taken(name)
        functions = self.functions(name, function_files)
        body: dict[str, object] = {
            "name": name,
            "title": title,
            "command": package.words,
            "stdout": stdout,
            "outputs": package.output_bodies(max_nbytes=max_output_bytes, gzip=gzip_outputs),
            "comparison": functions.comparison(compare),
            "assimilator": functions.assimilator(assimilate),
            "limits": (limits or Limits()).body(),
            "rules": {"min_quorum": quorum},
            "credit": functions.credit(credit or {}),
            "version": command_version(self.connection, package),
        }
        return self.connection.post("/apps", body, App)

    def update_app(
        self,
        name: str,
        files: Iterable[str | Path],
        *,
        command: str | Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        stdout: str | None = None,
        rollout: Sequence[float] = (),
    ) -> Version:
        """Add a version to an app that was made of a command; what is not given stays.

        ``files`` are all files of the new version; ``rollout`` are growing parts of the computers that it reaches step by
        step (empty: all at once).

        Raises:
            JobError: the command or a file is wrong, or the app is a native program.
            NotFound: there is no such app.
        """
        app = self.app(name)
        if not app.command:
            raise JobError(
                f"{name} is a native program. Add versions with: cobblestone app version add {name}"
            )
        names = [spec.name for spec in app.outputs if not spec.optional] if outputs is None else outputs
        optional = [spec.name for spec in app.outputs if spec.optional and spec.name not in names]
        package = _command(
            app.command if command is None else command,
            files,
            names,
            optional,
            app.stdout if stdout is None else stdout,
        )
        version = command_version(self.connection, package)
        largest = max(spec.max_nbytes for spec in app.outputs)
        changes = {
            "command": package.words,
            "stdout": package.stdout,
            "outputs": package.output_bodies(max_nbytes=largest, gzip=any(spec.gzip for spec in app.outputs)),
        }
        return self.connection.post(
            f"/apps/{quote(name, safe='')}/versions",
            {**version, "app_changes": changes, "rollout": list(rollout)},
            Version,
        )

    def create_native_app(
        self,
        name: str,
        *,
        title: str = "",
        inputs: Sequence[str] = (),
        outputs: Sequence[str] = (),
        optional_outputs: Sequence[str] = (),
        input_template: str | Path | None = None,
        output_template: str | Path | None = None,
        quorum: int | None = None,
        compare: str = "bitwise",
        assimilate: str = "",
        function_files: Iterable[str | Path] = (),
        limits: Limits | None = None,
        max_output_bytes: int = 50_000_000,
        gzip_outputs: bool = False,
        credit: Mapping[str, object] | None = None,
    ) -> App:
        """Make an app of a native program; add its executables with :meth:`add_native_version`.

        ``inputs`` and ``outputs`` are the names by which the program opens its files (``boinc_resolve_filename``); without
        ``inputs`` a job may have any, and the first is called ``input``.  The templates are BOINC's; what they leave open,
        and ``limits`` and ``quorum``, are as given here.

        Raises:
            JobError, ConfigError: a template or value is wrong; the text says what to do.
            Conflict: the name is taken.
        """
        self._refuse_taken(name)
        from_templates = read_templates(
            None if input_template is None else Path(input_template),
            None if output_template is None else Path(output_template),
        )
        functions = self.functions(name, function_files)
        body: dict[str, object] = {
            "name": name,
            "title": title,
            "comparison": functions.comparison(compare),
            "assimilator": functions.assimilator(assimilate),
            **from_templates,
        }
        if input_template is None:
            body["inputs"] = [{"name": each, "open_name": each} for each in inputs]
        if output_template is None:
            if not (outputs or optional_outputs):
                raise JobError(
                    "A native program needs at least one output, or nothing would come back. Name the files that it"
                    " writes: --output result.txt; or give BOINC's --output-template."
                )
            body["outputs"] = [
                {"name": each, "max_nbytes": max_output_bytes, "gzip": gzip_outputs, "optional": optional}
                for names, optional in ((outputs, False), (optional_outputs, True))
                for each in names
            ]
        body["credit"] = functions.credit(credit or {})
        body["limits"] = {**_part(from_templates, "limits"), **(limits or Limits()).body()}
        body["rules"] = _part(from_templates, "rules") if quorum is None else {"min_quorum": quorum}
        return self.connection.post("/apps", body, App)

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
    ) -> Version:
        """Add executables for one platform and plan class; ``rollout`` as in :meth:`update_app`.

        Raises:
            JobError: a file cannot be read, or the app has a command.
            NotFound: there is no such app or plan class.
        """
        if self.app(name).command:
            raise JobError(f"{name} has a command. New versions: cobblestone app update {name} --files …")
        version = native_version(
            self.connection,
            platform=platform,
            main=Path(main),
            files=[Path(file) for file in files],
            plan_class=plan_class,
            command_line=command_line,
            copy_files=copy_files,
        )
        body = {**version, "rollout": list(rollout)}
        return self.connection.post(f"/apps/{quote(name, safe='')}/versions", body, Version)

    def change_app(self, name: str, changes: Mapping[str, object]) -> App:
        """Change properties of an app; jobs that exist already keep theirs.  Raises NotFound."""
        return self.connection.patch(f"/apps/{quote(name, safe='')}", changes, App)

    def deprecate_version(self, version_id: int, *, undo: bool = False) -> Version:
        """Send a version no more, or again.  Raises NotFound."""
        return self.connection.patch(f"/versions/{version_id}", {"deprecated": not undo}, Version)

    def _refuse_taken(self, name: str) -> None:
        if not APP_NAME.fullmatch(name):
            raise ConfigError(
                f"The app name {name!r} must be 1 to 60 letters, digits, _ and -, and begin with a letter or digit."
            )
        if any(app.name == name for app in self.apps()):
            raise Conflict(
                f"There is already an app called {name}. Change it with: cobblestone app update {name} --files …"
            )


def _part(body: Mapping[str, object], name: str) -> dict[str, object]:
    part = body.get(name, {})
    return {str(key): value for key, value in part.items()} if isinstance(part, dict) else {}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # put there by read_templates


def _command(
    command: str | Sequence[str],
    files: Iterable[str | Path],
    outputs: Sequence[str],
    optional_outputs: Sequence[str],
    stdout: str,
) -> Command:
    return Command(
        words=split_command(command) if isinstance(command, str) else list(command),
        files=[Path(file) for file in files],
        outputs=outputs,
        optional_outputs=optional_outputs,
        stdout=stdout,
    )
