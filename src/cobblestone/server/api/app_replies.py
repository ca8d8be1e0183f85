"""How apps and their versions are described in replies."""

from __future__ import annotations

import msgspec

from cobblestone.api_schema import apps as schema
from cobblestone.domain.apps import App, AppDispatch, AppVersion
from cobblestone.domain.job_form import JobForm
from cobblestone.store.work.files import fan_out


def version_reply(version: AppVersion, app_name: str) -> schema.Version:
    """Describe a version."""
    return schema.Version(
        id=version.id,
        app=app_name,
        platform=version.platform,
        version_num=version.version_num,
        plan_class=version.plan_class,
        deprecated=version.deprecated,
        beta=version.beta,
        signed=version.signed,
        command_line=version.command_line,
        files=[
            schema.VersionFile(
                file=file.name,
                open_name=file.open_name,
                nbytes=file.nbytes,
                md5=file.md5,
                executable=file.executable,
                main_program=file.main_program,
                copy_file=file.copy_file,
                signed=bool(file.signature),
                path=f"/download/{fan_out(file.name)}/{file.name}",
            )
            for file in version.files
        ],
    )


def dispatch_reply(rules: AppDispatch) -> schema.Dispatch:
    """Describe who gets the jobs of an app."""
    values = {name: getattr(rules, name) for name in schema.Dispatch.__struct_fields__}
    values["homogeneous_redundancy"] = rules.homogeneous_redundancy.name.lower()
    values["size_classes"] = list(rules.size_classes)
    return schema.Dispatch(**values)


def app_reply(app: App, form: JobForm, versions: list[AppVersion]) -> schema.App:
    """Describe an app."""
    return schema.App(
        id=app.id,
        name=app.name,
        title=app.user_friendly_name,
        deprecated=app.deprecated,
        beta=app.beta,
        show_outputs=app.show_outputs,
        command=list(form.command),
        stdout=form.stdout,
        command_line=form.command_line,
        inputs=[schema.Slot(name=slot.name, open_name=slot.open_name) for slot in form.inputs],
        outputs=[
            schema.OutputSpec(
                name=spec.open_name, max_nbytes=spec.max_nbytes, gzip=spec.gzip, optional=spec.optional
            )
            for spec in app.output_specs
        ],
        comparison=schema.Comparison(kind=app.comparison.kind, options=dict(app.comparison.options)),
        assimilator=app.assimilator,
        credit=schema.AppCredit(
            system=app.credit_system,
            per_job=app.fixed_credit,
            host_scale_check=app.host_scale_check,
            partial=app.partial_credit,
            per_cpu_second=app.credit_per_cpu_second,
            function=app.credit_function,
        ),
        limits=msgspec.convert(app.limits, schema.Limits, from_attributes=True),
        rules=msgspec.convert(app.rules, schema.Rules, from_attributes=True),
        dispatch=dispatch_reply(app.dispatch),
        created=app.create_time,
        versions=[version_reply(version, app.name) for version in versions],
    )
