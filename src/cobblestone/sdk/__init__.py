"""Submit jobs to a project and collect their results, over HTTP."""

from __future__ import annotations

from cobblestone.api_schema.batches import BatchStatus
from cobblestone.sdk.batch import Batch, JobResult, Outputs
from cobblestone.sdk.errors import JobFailed, NotRunning, RequestRefused, Unreachable
from cobblestone.sdk.executor import JobExecutor
from cobblestone.sdk.jobs import Content, Job, json_input
from cobblestone.sdk.project import Project, connect

__all__ = [
    "Batch",
    "BatchStatus",
    "Content",
    "Job",
    "JobExecutor",
    "JobFailed",
    "JobResult",
    "NotRunning",
    "Outputs",
    "Project",
    "RequestRefused",
    "Unreachable",
    "connect",
    "json_input",
]
