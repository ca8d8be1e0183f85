"""``snakemake --executor cobblestone --cobblestone-app APP``: rules with ``shell:`` run on volunteers' computers.

Snakemake finds the package by its name.  ``rule_jobs`` says which rules can run there, what is sent, and what comes back.
"""
# Snakemake says little of its types.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

import hashlib
import socket
from collections.abc import AsyncGenerator
from concurrent.futures import CancelledError
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from cobblestone.domain.errors import CobblestoneError, JobError
from cobblestone.sdk.api.connection import NotRunning
from cobblestone.sdk.executor import JobExecutor
from cobblestone.sdk.project import connect
from snakemake_executor_plugin_cobblestone import rule_jobs


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """Options of Snakemake's command line, ``--cobblestone-…``.  The token comes by ``COBBLESTONE_TOKEN`` only."""

    app: str | None = field(
        default=None, metadata={"help": "App that runs the rules.", "type": str, "required": True}
    )
    url: str | None = field(
        default=None,
        metadata={"help": "Address or folder of the project; else COBBLESTONE_PROJECT.", "type": str},
    )


common_settings = CommonSettings(
    non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False, can_transfer_local_files=True
)  # Snakemake itself may take the folder for shared: the files are here before a job counts as done


class Executor(RemoteExecutor):
    """Runs jobs of a workflow as jobs of one open batch, which a workflow that was killed goes on with."""

    def __post_init__(self) -> None:
        """Look at all jobs before anything is sent.

        Raises:
            WorkflowError: a rule or the app cannot be used.
        """
        workflow: Any = self.workflow
        settings: ExecutorSettings = workflow.executor_settings
        self._app = settings.app or ""
        self._pool: JobExecutor | None = None
        problems: dict[str, str] = {
            job.name: why
            for job in workflow.dag.needrun_jobs()
            if not job.is_local and (why := rule_jobs.why_not(job))
        }
        if workflow.deployment_settings.deployment_method:
            problems["--software-deployment-method"] = "The programs of a rule come with the app."
        if problems:
            text = "\n".join(f"  {name}: {why}" for name, why in problems.items())
            raise WorkflowError(
                f"Volunteers' computers cannot run this workflow; nothing was sent.\n{text}\n"
                "Rules named by `localrules:` run here."
            )
        try:
            self._project = connect(settings.url)
            if not self._project.running:
                raise NotRunning("The project does not run. Start it with: cobblestone run")
            self._words = rule_jobs.checked_command(self._project.app(self._app))
        except CobblestoneError as error:
            raise WorkflowError(str(error)) from error

    def run_job(self, job: Any) -> None:
        """Send a job, unless the batch has it already."""
        try:
            if why := rule_jobs.why_not(job):  # of a checkpoint's jobs only now is known what they are
                raise JobError(why)
            sent = rule_jobs.sent_job(job, self._words)
            pool = self._opened()
            future = pool.earlier.pop(sent.name, None) or pool.submit(sent)
        except (CobblestoneError, OSError) as error:
            self.report_job_error(SubmittedJobInfo(job), msg=f"{error} ")
            return
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=sent.name, aux={"future": future}))

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo]:
        """Report jobs that have ended; one request for the whole batch, in another thread, hears of them."""
        for info in active_jobs:
            if (info.aux or {})["future"].done():
                self._end(info)
            else:
                yield info

    def _end(self, info: SubmittedJobInfo) -> None:
        job: Any = info.job
        try:
            rule_jobs.fetch(job, (info.aux or {})["future"].result())
        except (CobblestoneError, CancelledError, OSError) as error:
            stderr = str(getattr(error, "stderr", ""))
            if job.log and stderr:
                path = Path(job.log[0])
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(stderr, encoding="utf-8")
            self.report_job_error(info, msg=f"{error} ")
        else:
            self.report_job_success(info)

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Leave it to :meth:`shutdown`, which cancels the whole batch."""

    def shutdown(self) -> None:
        """End the batch: what it computed is here, or not wanted any more."""
        super().shutdown()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(cancel_futures=True)
            pool.batch.retire()
        self._project.close()

    def _opened(self) -> JobExecutor:
        if self._pool is None:
            here = Path.cwd()
            place = hashlib.sha256(f"{socket.gethostname()}:{here}".encode()).hexdigest()[:16]
            name = f"snakemake {here.name[:100]} {place}"
            wanted = (name, self._app, "open")
            left = [
                each.id for each in self._project.batches() if (each.name, each.app, each.state) == wanted
            ]
            batch = self._project.batch(left[0]) if left else None
            self._pool = self._project.executor(self._app, name=name, batch=batch)
        return self._pool
