"""Convert the body of a request to an app and its version, with all checks beyond the form of the JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import msgspec

from cobblestone.api_schema import apps as schema
from cobblestone.domain import job_form
from cobblestone.domain.apps import App, AppFile, AppVersion, ComparisonRule
from cobblestone.domain.errors import JobError, NotFound
from cobblestone.domain.people import with_wider
from cobblestone.domain.texts import MAX_BYTES, check_kept, name_problem, same_file
from cobblestone.domain.values import AppId, AppVersionId, form_of
from cobblestone.domain.work import HomogeneousRedundancy, JobLimits, OutputSpec, ReplicationRules
from cobblestone.launcher import RESERVED_OPEN_NAMES
from cobblestone.policy.validation.comparison import parse_comparison
from cobblestone.server.core.comparisons import comparison_kinds
from cobblestone.server.credit.systems import find_system
from cobblestone.store.catalog.files import FileRow

ASSIGNED = "assigned"
_BOUND_PER_ESTIMATE = JobLimits().rsc_fpops_bound / JobLimits().rsc_fpops_est


def limits_with(body: schema.LimitsBody, base: JobLimits) -> JobLimits:
    """Return limits with the given values changed.  An estimate without its own bound scales the bound in proportion."""
    given = {key: value for key, value in msgspec.structs.asdict(body).items() if value is not None}
    if body.rsc_fpops_est is not None and body.rsc_fpops_bound is None:
        given["rsc_fpops_bound"] = body.rsc_fpops_est * _BOUND_PER_ESTIMATE
    limits = replace(base, **given)
    if limits.rsc_fpops_bound < limits.rsc_fpops_est:
        raise JobError(
            f"limits: rsc_fpops_bound ({limits.rsc_fpops_bound:g}) is below rsc_fpops_est"
            f" ({limits.rsc_fpops_est:g}): every job would be aborted. Raise the bound to several times the estimate."
        )
    return limits


def rules_from(body: schema.RulesBody) -> ReplicationRules:
    """Return replication rules; omitted values follow from the quorum.

    Raises:
        JobError: the numbers contradict each other.
    """
    quorum = body.min_quorum
    target = body.target_nresults or quorum
    default = ReplicationRules()
    errors = default.max_error_results if body.max_error_results is None else body.max_error_results
    success = body.max_success_results or max(default.max_success_results, target + 2)
    total = body.max_total_results or max(default.max_total_results, success, target + errors + 2)
    for wrong, sentence in (
        (target < quorum, f"target_nresults ({target}) is below min_quorum ({quorum})"),
        (success < target, f"max_success_results ({success}) is below target_nresults ({target})"),
        (total < success, f"max_total_results ({total}) is below max_success_results ({success})"),
        (total < errors, f"max_total_results ({total}) is below max_error_results ({errors})"),
    ):
        if wrong:
            raise JobError(f"rules: {sentence}, so a job could not succeed. Change one of the two.")
    return ReplicationRules(
        min_quorum=quorum,
        target_nresults=target,
        max_error_results=errors,
        max_total_results=total,
        max_success_results=success,
    )


def comparison_from(body: schema.ComparisonBody) -> ComparisonRule:
    """Return a comparison rule.

    Raises:
        ConfigError: an option is unknown or has a bad value.
    """
    text = ",".join(f"{name}={value}" for name, value in body.options.items())
    rule = parse_comparison(f"{body.kind}:{text}", comparison_kinds())
    # A truth is stored as text, for JSON keeps truths and numbers apart.
    kept = {
        name: "true" if value is True else value for name, value in rule.options.items() if value is not False
    }
    return replace(rule, options=kept)


def check_function(reference: object, what: str) -> None:
    """Check the form of a reference to a function in the project's folder.

    Raises:
        JobError: it is not ``FILE.py:function``.
    """
    file_name, colon, function = str(reference).partition(":")
    parts = file_name.split("/")
    if (
        not colon
        or not file_name.endswith(".py")
        or not function.isidentifier()
        or not all(map(_plain, parts))
    ):
        raise JobError(
            f"{what} = {reference!r}: write FILE.py:function, with a file below the project's folder,"
            " e.g. functions/merge.py:assimilate"
        )


def _plain(part: str) -> bool:
    return part not in ("", ".", "..") and "\\" not in part


def check_assimilator(reference: str) -> None:
    """Check the form of an assimilator: empty, ``folder:PATH`` or ``FILE.py:function``; raises JobError."""
    if reference.startswith("folder:"):
        if not all(map(_plain, reference.removeprefix("folder:").split("/"))):
            raise JobError(
                f"assimilator = {reference!r}: the folder must be inside the project's, e.g. folder:results/period"
            )
    elif reference:
        check_function(reference, "assimilator")


def outputs_from(bodies: list[schema.OutputBody]) -> tuple[OutputSpec, ...]:
    """Return the outputs of every job.

    Raises:
        JobError: two have the same name, or one cannot be the name of a file.
    """
    seen: set[str] = set()
    for index, body in enumerate(bodies):
        name = body.name
        problem = "" if job_form.legal_name(name) else "cannot be the name of a file"
        problem = problem or name_problem(name) or ("occurs twice" if same_file(name) in seen else "")
        if problem:
            raise JobError(f"outputs[{index}]: {name!r} {problem}. Choose another name.")
        seen.add(same_file(name))
    return tuple(form_of(OutputSpec, body, open_name=body.name) for body in bodies)


def form_from(body: schema.NewApp) -> job_form.JobForm:
    """Return the form of jobs of a new app.

    Raises:
        JobError: the command has a mistake.
    """
    if body.command:
        if body.inputs or body.command_line:
            raise JobError(
                "command and inputs (or command_line) exclude each other: the inputs follow from the command."
            )
        return form_of_command(body.command, [output.name for output in body.outputs], body.stdout)
    for index, slot in enumerate(body.inputs):
        if not job_form.legal_name(slot.name) or slot.name in [
            earlier.name for earlier in body.inputs[:index]
        ]:
            raise JobError(f"inputs[{index}]: the name {slot.name!r} cannot be used, or occurs twice.")
        for name in (slot.name, slot.open_name):
            if problem := name_problem(name):
                raise JobError(f"inputs[{index}]: the name {name!r} {problem}. Choose another.")
    check_command_line(body.command_line)
    return job_form.JobForm(
        command_line=body.command_line,
        inputs=tuple(form_of(job_form.InputSlot, slot) for slot in body.inputs),
    )


def form_of_command(command: Sequence[str], outputs: Sequence[str], stdout: str) -> job_form.JobForm:
    """Return the form of jobs of a command; raises JobError if it names an output that is not declared."""
    found = job_form.find_placeholders(command)
    for name in (*found.outputs, *([stdout] if stdout else [])):
        if name not in outputs:
            raise JobError(
                f"The command refers to the output {name!r}, which outputs does not have ({', '.join(outputs)})."
            )
    slots = tuple(job_form.InputSlot(name=name) for name in found.inputs)
    return job_form.JobForm(command=tuple(command), stdout=stdout, inputs=slots)


def check_title(title: str) -> None:
    """Check that clients can store an app's title.  Raises JobError."""
    check_kept(title, "title", advice="Choose another title.", max_bytes=MAX_BYTES)


def check_command_line(text: str) -> None:
    """Check that clients can store the command line of a native program.  Raises JobError."""
    check_kept(text, "command_line", advice="Put such values into an input file.")


def app_from(body: schema.NewApp) -> App:
    """Return a new app, without an id.

    Raises:
        JobError: a value is wrong.
        ConfigError: there is no such credit system.
    """
    check_assimilator(body.assimilator)
    check_title(body.title)
    app = App(
        id=AppId(0),
        name=body.name,
        user_friendly_name=body.title or body.name,
        beta=body.beta,
        comparison=comparison_from(body.comparison),
        assimilator=body.assimilator,
        limits=limits_with(body.limits, JobLimits()),
        rules=rules_from(body.rules),
        output_specs=outputs_from(body.outputs),
    )
    return with_dispatch(with_credit(app, body.credit), body.dispatch)


def with_dispatch(app: App, body: schema.DispatchBody) -> App:
    """Return an app with changed rules about who gets its jobs.

    Raises:
        JobError: the rules contradict each other.
    """
    given = {name: value for name, value in msgspec.structs.asdict(body).items() if value is not None}
    if "size_class_count" in given:
        raise JobError(
            "dispatch: size_class_count depends on the known computers; change the app after creating it:"
            f" cobblestone app dispatch {app.name} --size-classes {given['size_class_count']}"
        )
    if "homogeneous_redundancy" in given:
        given["homogeneous_redundancy"] = HomogeneousRedundancy[str(given["homogeneous_redundancy"]).upper()]
    if "size_classes" in given:
        given["size_classes"] = speeds = tuple(given["size_classes"])
        if list(speeds) != sorted(set(speeds)):
            raise JobError("dispatch: size_classes must be speeds in ascending order, each once.")
    if "keywords" in given:
        given["keywords"] = with_wider(given["keywords"])
    return check_dispatch(replace(app, dispatch=replace(app.dispatch, **given)))


def with_size_classes(body: schema.DispatchBody, speeds: Sequence[float]) -> schema.DispatchBody:
    """Return the rules with the requested number of size classes, each for equally many computers.

    Raises:
        JobError: too few computers are known, or both forms are given.
    """
    count = body.size_class_count
    if count is None:
        return body
    if body.size_classes is not None:
        raise JobError("dispatch: give size_classes or size_class_count, not both.")
    ordered = sorted(speeds)
    if len(set(ordered)) < count:
        raise JobError(
            f"dispatch: {count} size classes need computers of at least {count} different speeds; the project knows"
            f" {len(set(ordered))}. Give the speeds that separate the classes yourself: size_classes."
        )
    bounds = {ordered[place * len(ordered) // count] for place in range(1, count)}
    return msgspec.structs.replace(body, size_classes=sorted(bounds), size_class_count=None)


def check_dispatch(app: App) -> App:
    """Return the app if its rules are consistent.

    Raises:
        JobError: they do not.
    """
    rules = app.dispatch
    if rules.adaptive and app.rules.min_quorum < 2:
        raise JobError(
            "dispatch: adaptive replication needs a quorum of 2 or more for untrusted computers"
            " and for spot checks. Set rules.min_quorum (--quorum 2)."
        )
    if rules.adaptive and rules.non_cpu_intensive:
        raise JobError("dispatch: an app that always runs on every computer cannot be adaptive.")
    return app


def with_credit(app: App, body: schema.CreditBody) -> App:
    """Return an app with changed credit.

    Raises:
        ConfigError: there is no such credit system; the text lists those that there are.
        JobError: the credit function is none, or the system needs one.
    """
    if body.system is not None:
        find_system(body.system)
    if body.function:
        check_function(body.function, "credit.function")
    if body.system == ASSIGNED and not (app.credit_function if body.function is None else body.function):
        raise JobError(
            f'credit.system = "{ASSIGNED}": also give the function that returns the credit of a result, credit.function ='
            ' "FILE.py:function"'
        )
    given = {
        "credit_system": body.system,
        "fixed_credit": body.per_job,
        "host_scale_check": body.host_scale_check,
        "partial_credit": body.partial,
        "credit_per_cpu_second": body.per_cpu_second,
        "credit_function": body.function,
    }
    return replace(app, **{key: value for key, value in given.items() if value is not None})


def version_from(
    body: schema.NewVersion,
    app: App,
    form: job_form.JobForm,
    *,
    stored: Mapping[str, FileRow],
    plan_classes: Collection[str],
) -> AppVersion:
    """Return a new version, without an id; signatures are taken over.

    Raises:
        JobError: files are missing from the list, or collide.
        NotFound: a file is not in the store, or there is no such plan class.
    """
    missing = [file.file for file in body.files if file.file not in stored]
    if missing:
        text = f"Not in the file store: {', '.join(missing[:5])}. Upload first: PUT /api/v1/files/SHA256"
        raise NotFound(text)
    if body.plan_class and body.plan_class not in plan_classes:
        known = ", ".join(sorted(plan_classes)) or "none yet"
        raise NotFound(
            f"There is no plan class {body.plan_class!r}. Describe it in plan_classes.toml in the project's folder"
            f" (known: {known})."
        )
    if sum(file.main_program for file in body.files) != 1:
        raise JobError("files: exactly one must have main_program = true.")
    names = [file.open_name for file in body.files if not file.main_program]
    job_form.check_open_names(names, form, [spec.open_name for spec in app.output_specs], RESERVED_OPEN_NAMES)
    advice = "Put such values into a file of the version."
    check_kept(body.command_line, "command_line", advice=advice, max_bytes=MAX_BYTES)
    return form_of(
        AppVersion,
        body,
        id=AppVersionId(0),
        app_id=app.id,
        files=tuple(
            form_of(AppFile, file, stored[file.file], signature=file.signature.strip()) for file in body.files
        ),
    )


def changed_app(app: App, form: job_form.JobForm, changes: schema.AppChanges) -> tuple[App, job_form.JobForm]:
    """Return an app with changes.

    Raises:
        JobError: a value is wrong, or the app's kind would change.
    """
    if changes.outputs is not None:
        app = replace(app, output_specs=outputs_from(changes.outputs))
    if changes.command is not None and not form.command:
        raise JobError(f"{app.name} is a native program; it has no command. Create another app.")
    if form.command:
        form = form_of_command(
            changes.command or form.command,
            [spec.open_name for spec in app.output_specs],
            form.stdout if changes.stdout is None else changes.stdout,
        )
    if changes.title is not None:
        check_title(changes.title)
    if changes.assimilator is not None:
        check_assimilator(changes.assimilator)
        app = replace(app, assimilator=changes.assimilator)
    if changes.comparison is not None:
        app = replace(app, comparison=comparison_from(changes.comparison))
    if changes.limits is not None:
        app = replace(app, limits=limits_with(changes.limits, app.limits))
    if changes.credit is not None:
        app = with_credit(app, changes.credit)
    if changes.rules is not None:
        app = check_dispatch(replace(app, rules=rules_from(changes.rules)))
    if changes.dispatch is not None:
        app = with_dispatch(app, changes.dispatch)
    simple = {
        "user_friendly_name": changes.title,
        "deprecated": changes.deprecated,
        "beta": changes.beta,
        "show_outputs": changes.show_outputs,
    }
    return replace(app, **{key: value for key, value in simple.items() if value is not None}), form
