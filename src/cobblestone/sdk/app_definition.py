"""A scientist's description of an app as API bodies: comparison, limits, functions of the project."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import msgspec

from cobblestone.api_schema.apps import ComparisonBody, CreditBody, LimitsBody
from cobblestone.domain.errors import ConfigError
from cobblestone.policy.validation.comparison import COMPARISON_KINDS, parse_comparison

FUNCTIONS_FOLDER = "functions"

_SIZES = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}
_TIMES = {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppSpec:
    """A scientist's description of an app: how its program is run, what it returns, and how answers are checked.

    With a ``command`` the program and its ``files`` run wherever the launcher does.  Without one the app is a native
    program that uses the BOINC API; its executables are added with :meth:`Project.add_native_version`.

    Attributes:
        name: 1 to 60 letters, digits, _ and -.
        command: Words with placeholders: ``"python3 period.py {input} {output}"``.
        files: What the command needs; sent along.
        wasm: A WebAssembly module that the command runs, on Windows, macOS and Linux alike: its path.
        portable: Run the Python program of the command in WebAssembly, where Python is part of what is sent.
        requirements: For such a program, a file that names packages of pure Python that are sent along.
        in_browsers: Have visitors' browsers compute it too, on the project's page; for WebAssembly.
        bundle: A file that names packages, compiled ones too, which are sent along with a Python of their own.
        bundle_python: Version of that Python.
        container: An image that the command runs in, as ``podman save`` writes it; for Linux computers with Podman or Docker.
        installed: Python modules that are not sent along because all computers of your volunteers have them.
        title: The name that volunteers see.
        platforms: Where a command may run; none: wherever its files can be started.
        plan_class: What a command needs of a computer: a class of plan_classes.toml, or one of `gpu_class_names`; several
            with commas between them make a version for each.
        inputs: Names by which a native program opens its inputs; none: a job may have any.
        outputs: Names of output files; those in the command need not be repeated.
        optional_outputs: Outputs that may be missing.
        stdout: Keep what the program prints, as this output.
        max_output_bytes: Largest size of each output.
        gzip_outputs: Whether clients compress outputs for the upload.
        input_template: BOINC's description of a native program's inputs, a path.
        output_template: BOINC's description of its outputs, a path.
        quorum: Computers that must agree on each job; None: 1, or as the template says.
        spot_checks: Compute jobs of proven computers once, with spot checks by other people's; others need a quorum of 2.
        compare: ``bitwise``, ``numeric:rtol=1e-6``, ``trivial`` or ``python:FILE.py:function``.
        assimilate: ``FILE.py:function`` that is called with each agreed answer, or ``folder:PATH``.
        function_files: Further files that your functions import.
        limits: Estimates and hard limits of a job.
        credit: The credit system and its options.
        keywords: What its jobs are about and where they come from: numbers of the family's list (``cobblestone app keywords``).

    >>> spec = AppSpec(name="sum", command="cat {input}", stdout="output", quorum=2, compare="numeric:rtol=1e-6")
    >>> project.create_app(spec).rules.min_quorum
    2
    """

    name: str
    command: str | Sequence[str] = ""
    files: Iterable[str | Path] = ()
    wasm: str | Path | None = None
    portable: bool = False
    requirements: str | Path | None = None
    in_browsers: bool = False
    bundle: str | Path | None = None
    bundle_python: str = "3.12"
    container: str | Path | None = None
    installed: Collection[str] = ()
    title: str = ""
    platforms: Sequence[str] = ()
    plan_class: str = ""
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    optional_outputs: Sequence[str] = ()
    stdout: str = ""
    max_output_bytes: int = 50_000_000
    gzip_outputs: bool = False
    input_template: str | Path | None = None
    output_template: str | Path | None = None
    quorum: int | None = None
    spot_checks: bool = False
    compare: str = "bitwise"
    assimilate: str = ""
    function_files: Iterable[str | Path] = ()
    limits: LimitsBody = LimitsBody()
    credit: CreditBody = CreditBody()
    keywords: Sequence[int] = ()

    @property
    def needed(self) -> int | None:
        """Return how many computers must agree on a job that is checked; None: as the template says."""
        return max(self.quorum or 0, 2) if self.spot_checks else self.quorum


def parse_size(text: str, option: str) -> float:
    """Return bytes from an option's value such as ``500MB``, ``2GiB`` or ``1000``.

    Raises:
        ConfigError: it is none.
    """
    match = re.fullmatch(r"([0-9.eE+]+)\s*([KMGT]i?)?B?", text.strip(), re.IGNORECASE)
    return _number(f"{option}: {text!r}", match, _SIZES, "a size such as 500MB or 2GiB", upper=True)


def parse_seconds(text: str, option: str) -> float:
    """Return seconds from an option's value such as ``7d``, ``36h``, ``90min`` or ``3600``.

    Raises:
        ConfigError: it is none.
    """
    match = re.fullmatch(r"([0-9.eE+]+)\s*(s|min|m|h|d|w)?", text.strip())
    return _number(f"{option}: {text!r}", match, _TIMES, "a time such as 7d, 36h or 90min")


def _number(
    given: str, match: re.Match[str] | None, units: Mapping[str, float], what: str, *, upper: bool = False
) -> float:
    try:
        if match is None:
            raise ValueError
        unit = match[2] or ""
        value = float(match[1]) * units[unit.upper() if upper else unit]
        if not 0 < value < 1e18:
            raise ValueError
    except ValueError:
        raise ConfigError(f"{given} is not {what}.") from None
    return value


class ProjectFunctions:
    """Copies a scientist's Python functions into the project's folder, where the server finds them."""

    def __init__(self, folder: Path | None, app: str, *, beside: Sequence[Path] = ()) -> None:
        """``beside``: further files that the functions import."""
        self._folder = folder
        self._app = app
        self._beside = beside

    def comparison(self, text: str) -> ComparisonBody:
        """Return a comparison as an API body: ``bitwise``, ``numeric:rtol=1e-6``, or a function; see :meth:`place`.

        Raises:
            ConfigError: it is none; the text says what is possible.
        """
        name, _, rest = text.strip().partition(":")
        if name not in COMPARISON_KINDS and not get_close_matches(name, COMPARISON_KINDS):
            # of a package that the server may have
            pairs = [each.partition("=") for each in rest.split(",") if each]
            return ComparisonBody(kind=name, options={option: value for option, _, value in pairs})
        rule = parse_comparison(text)
        if COMPARISON_KINDS[rule.kind].project_function(rule.options):
            function = self.place(rest, f"--compare {rule.kind}:")
            return ComparisonBody(kind=rule.kind, options={"function": function})
        options: dict[str, float | str] = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in rule.options.items()
        }
        return ComparisonBody(kind=rule.kind, options=options)

    def assimilator(self, text: str) -> str:
        """Return an assimilator for the API: empty, ``folder:PATH``, or a function; see :meth:`place`."""
        return text if not text or text.startswith("folder:") else self.place(text, "--assimilate")

    def credit(self, options: CreditBody) -> CreditBody:
        """Return credit options as an API body; for ``function`` see :meth:`place`."""
        if not options.function:
            return options
        return msgspec.structs.replace(options, function=self.place(options.function, "--credit-function"))

    def place(self, reference: str, option: str) -> str:
        """Return the reference as the server expects it; copies the file if it is in another folder.

        Raises:
            ConfigError: there is no such file or function, or the project is not on this machine.
        """
        file_name, colon, function = reference.partition(":")
        if not colon or not file_name.endswith(".py") or not function.isidentifier():
            raise ConfigError(f"{option} {reference!r}: write FILE.py:function, e.g. merge.py:assimilate")
        if self._folder is None:
            return reference  # the server checks it, and runs only what its operator has put there
        here, there = Path(file_name).absolute(), self._folder / file_name
        if here.is_file() and here.is_relative_to(self._folder):
            source, relative = here, here.relative_to(self._folder)
        elif here.is_file():
            source, relative = here, Path(FUNCTIONS_FOLDER, self._app, here.name)
        elif there.is_file():
            source, relative = there, Path(file_name)
        else:
            raise ConfigError(
                f"{option}: there is no file {file_name}, neither in {Path.cwd()} nor in the project's folder."
            )
        _check_function(source, function, option)
        target = self._folder / relative
        if source != target:
            target.parent.mkdir(parents=True, exist_ok=True)
            for path in (source, *self._beside):
                if not path.is_file():
                    raise ConfigError(f"--function-files: {path} does not exist.")
                shutil.copyfile(path, target.parent / path.name)
        return f"{relative.as_posix()}:{function}"


def _check_function(path: Path, function: str, option: str) -> None:
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except (SyntaxError, ValueError, OSError) as error:
        raise ConfigError(f"{option}: {path} is not a Python file that can be read: {error}.") from error
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    imported = [
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assigned = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    if function not in (*names, *imported, *assigned):
        known = f"It has: {', '.join(names)}." if names else "It has none."
        raise ConfigError(f"{option}: {path} has no function called {function}. {known}")
