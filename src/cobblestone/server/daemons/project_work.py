"""Code that runs in worker processes: comparisons of outputs, and the project's own functions.

A worker has a limit on memory, and its caller one on time; a function that hangs, eats memory or dies takes
down only its worker.
"""

from __future__ import annotations

import contextlib
import io
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.errors import CobblestoneError, JobError, words_of
from cobblestone.domain.reasons import Reason, joined, phrase, sayable_reason
from cobblestone.domain.values import ResultId, form_of
from cobblestone.domain.work import OutputSpec
from cobblestone.ops.policies import load_file
from cobblestone.policy.validation import comparison as comparing
from cobblestone.policy.validation.archives import MalformedOutput, ReadLimits
from cobblestone.policy.validation.canonical import OutputCheck, Pair, ValidationReport
from cobblestone.server.core.comparisons import comparison_kinds
from cobblestone.store.work.uploads import StoredOutput, output_content

MAX_COMPARED_BYTES = 256_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultOutputs:
    """The outputs of one result."""

    result_id: ResultId
    outputs: tuple[StoredOutput, ...]
    name: str = ""
    elapsed_time: float = 0.0
    cpu_time: float = 0.0
    peak_flops: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidationTask:
    """One workunit's results to be compared."""

    rule: ComparisonRule
    specs: tuple[OutputSpec, ...]
    results: tuple[ResultOutputs, ...]
    pairs: tuple[Pair, ...]
    upload_folder: Path
    project_folder: Path
    credit_function: str = ""
    limits: ReadLimits = comparing.DEFAULT_LIMITS


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditedResult:
    """The argument of the project's credit function, for each result with usable outputs; it returns an amount of credit.

    It may be called again for the same result, so it must give the same amount twice.
    """

    id: int
    name: str  #: unique in the project
    outputs: Mapping[str, Path]  #: by the name under which the program wrote them
    elapsed_time: float  #: seconds, as reported and bounded
    cpu_time: float  #: seconds, as reported and bounded
    peak_flops: float  #: of the devices that it used


@dataclass(frozen=True, slots=True, kw_only=True)
class AssimilationTask:
    """A finished workunit for the project's own function."""

    function: str
    id: int
    name: str
    label: str
    batch_id: int | None
    error: str
    outputs: tuple[StoredOutput, ...]
    specs: tuple[OutputSpec, ...]
    app_folder: Path
    upload_folder: Path
    project_folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AssimilatedWorkunit:
    """The argument of the project's ``assimilate(workunit)``.

    It may be called again for the same workunit after a crash, so it must give the same outcome twice; ``id`` never repeats.
    """

    id: int
    name: str  #: unique in the project
    label: str  #: the submitter's own name of the job
    batch_id: int | None
    succeeded: bool
    error: str | None  #: why there is no answer
    outputs: Mapping[str, Path]  #: by the name under which the program wrote them
    folder: Path  #: the app's own folder for answers


def limit_memory(memory_bytes: int) -> None:
    """Set the memory limit of a new worker."""
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def project_function(project_folder: Path, reference: str) -> Callable[..., Any]:
    """Load ``FILE.py:function`` from the project's folder; reload it after a change.

    Raises:
        JobError: there is no such file or function, or the file fails to load.
    """
    file_name, _, function_name = reference.partition(":")
    path = (project_folder / file_name).resolve()
    if not path.is_relative_to(project_folder.resolve()) or not path.is_file():
        raise JobError(f"There is no file {file_name} in the project's folder.")
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        module = load_file(path, path.stat().st_mtime_ns)
    except BaseException as error:  # sys.exit too
        raise JobError(f"{file_name} fails to load:\n{_short_traceback(error)}") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        raise JobError(f"{file_name} has no function called {function_name}.")
    return function


def validate(task: ValidationTask) -> ValidationReport:
    """Read outputs and compare them in pairs."""
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as folder:
        comparison = _Comparison(task, Path(folder))
        checked = tuple(comparison.look(result) for result in task.results)
        usable_ids = {each.result_id for each in checked if each.usable}
        matches: set[Pair] = set()
        differences: dict[Pair, Reason] = {}
        for one, other in task.pairs:
            if one in usable_ids and other in usable_ids:
                problem = comparison.difference(one, other)
                if problem is None:
                    matches.add((one, other))
                else:
                    differences[one, other] = problem
        if task.credit_function:
            checked = tuple(
                replace(found, assigned_credit=comparison.credit(result)) if found.usable else found
                for found, result in zip(checked, task.results, strict=True)
            )
        return ValidationReport(checked=checked, matches=frozenset(matches), differences=differences)


class _Comparison:
    """The outputs of one workunit's results, read once."""

    def __init__(self, task: ValidationTask, folder: Path) -> None:
        self._task = task
        self._folder = folder
        self._files: dict[ResultId, dict[str, bytes]] = {}

    def look(self, result: ResultOutputs) -> OutputCheck:
        task, unusable = self._task, partial(OutputCheck, result_id=result.result_id, usable=False)
        try:
            present = {output.index for output in result.outputs}
            for index, spec in enumerate(task.specs):
                if index not in present and not spec.optional:
                    return unusable(problem=comparing.missing_output(spec.open_name))
            files = {
                task.specs[output.index].open_name: output_content(
                    output, task.upload_folder, max_nbytes=MAX_COMPARED_BYTES
                )
                for output in result.outputs
                if output.index < len(task.specs)
            }
        except CobblestoneError as error:
            return unusable(problem=phrase("{problem}", problem=words_of(error)))
        except OSError as error:  # the disk is away: that is not the volunteer's fault
            return unusable(transient=True, problem=phrase("{problem}", problem=words_of(error)))
        try:
            with _blamed_on(task.rule.kind):
                problem = comparing.usable(
                    task.rule, files, task.specs, limits=task.limits, kinds=comparison_kinds()
                )
                problem = problem and sayable_reason(problem)
        except MalformedOutput as error:
            problem = unreadable(error.why)
        if problem is not None:
            return unusable(problem=problem)
        self._files[result.result_id] = files
        return OutputCheck(result_id=result.result_id, usable=True)

    def difference(self, one: ResultId, other: ResultId) -> Reason | None:
        """Return where two results differ, or None."""
        task = self._task
        kinds = comparison_kinds()
        reference = comparing.kind_named(task.rule.kind, kinds).project_function(task.rule.options)
        if not reference:
            with _blamed_on(task.rule.kind):
                agreement = comparing.compare(
                    task.rule, self._files[one], self._files[other], limits=task.limits, kinds=kinds
                )
                return None if agreement.match else sayable_reason(joined(agreement.reasons))
        function = project_function(task.project_folder, reference)
        outcome = _call(function, self._paths(one), self._paths(other))
        if not isinstance(outcome, bool):
            raise JobError(f"{reference} must return True or False, not {outcome!r}.")
        return None if outcome else phrase("{function} says that they differ", function=reference)

    def credit(self, result: ResultOutputs) -> float:
        """Return the credit that the project's function gives to a result."""
        task = self._task
        amount = _call(
            project_function(task.project_folder, task.credit_function),
            form_of(CreditedResult, result, id=result.result_id, outputs=self._paths(result.result_id)),
        )
        if isinstance(amount, bool) or not isinstance(amount, int | float):
            raise JobError(f"{task.credit_function} must return an amount of credit, not {amount!r}.")
        return float(amount)

    def _paths(self, result_id: ResultId) -> dict[str, Path]:
        folder = self._folder / str(result_id)
        return _write_outputs(folder, self._files[result_id])


def assimilate(task: AssimilationTask) -> float | None:
    """Pass a workunit to the project's function; return the number that it gives (credit after assimilation), if any."""
    function = project_function(task.project_folder, task.function)
    task.app_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as folder:
        contents = {
            task.specs[output.index].open_name: output_content(
                output, task.upload_folder, max_nbytes=MAX_COMPARED_BYTES
            )
            for output in task.outputs
        }
        answer = _call(
            function,
            form_of(
                AssimilatedWorkunit,
                task,
                succeeded=not task.error,
                error=task.error or None,
                outputs=_write_outputs(Path(folder), contents),
                folder=task.app_folder,
            ),
        )
    return float(answer) if isinstance(answer, int | float) and not isinstance(answer, bool) else None


def unreadable(why: Reason | str) -> Reason:
    """Return the reason for outputs that cannot be read and so are unusable."""
    return phrase("its outputs cannot be read: {problem}", problem=why)


@contextlib.contextmanager
def _blamed_on(kind: str) -> Generator[None]:
    """Attribute an exception of a comparison to the comparison: it says nothing about the outputs."""
    try:
        yield
    except (CobblestoneError, MemoryError):  # these say what is wrong
        raise
    except BaseException as error:
        raise JobError(f"The comparison {kind} failed:\n{_short_traceback(error)}") from error


def _write_outputs(folder: Path, contents: Mapping[str, bytes]) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for open_name, data in contents.items():
        path = folder / open_name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        paths[open_name] = path
    return paths


def _call(function: Callable[..., Any], *arguments: object) -> Any:  # whatever the function returns
    """Call a project's function; discard its prints, and wrap its errors in ours."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return function(*arguments)
    except MemoryError as error:
        raise JobError("The function exceeded the memory limit of a worker.") from error
    # sys.exit and KeyboardInterrupt too: it is the function that ends, nothing else
    except BaseException as error:
        raise JobError(_short_traceback(error)) from error


def _short_traceback(error: BaseException) -> str:
    """Return the last frames of an error, for the operator."""
    return "".join(traceback.format_exception(error)[-4:]).strip()
