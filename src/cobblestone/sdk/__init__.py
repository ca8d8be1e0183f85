"""Submit jobs to a project and collect their results, over HTTP.  Exports the names of :mod:`cobblestone`, and some more.

It knows the API's vocabulary; it meets the server over the network only.
"""

from __future__ import annotations

from cobblestone.api_schema.batches import BatchStatus
from cobblestone.domain.errors import CobblestoneError, ConfigError, JobError
from cobblestone.sdk.api.batch import Batch, JobResult, Outputs
from cobblestone.sdk.api.connection import (
    BusyError,
    ConflictError,
    JobFailed,
    NotFoundError,
    NotRunning,
    RequestRefused,
    Unreachable,
)
from cobblestone.sdk.api.jobs import Content, Job, json_input
from cobblestone.sdk.app_definition import AppSpec
from cobblestone.sdk.executor import JobExecutor
from cobblestone.sdk.project import Project, connect

__all__ = [
    "AppSpec",
    "Batch",
    "BatchStatus",
    "BusyError",
    "CobblestoneError",
    "ConfigError",
    "ConflictError",
    "Content",
    "Job",
    "JobError",
    "JobExecutor",
    "JobFailed",
    "JobResult",
    "NotFoundError",
    "NotRunning",
    "Outputs",
    "Project",
    "RequestRefused",
    "Unreachable",
    "connect",
    "json_input",
]
