"""Volunteer computing in one ``pip install``: from a program to results of many computers.

:func:`connect` gives a :class:`Project`; ``project.submit(app, inputs)`` gives a :class:`Batch`; its ``results()`` give
a :class:`JobResult` for each :class:`Job` as it finishes.  Everything that can go wrong is a :class:`CobblestoneError`.

>>> import cobblestone
>>> with cobblestone.connect("sky") as project:  # a folder, or an address with token="cob_..."
...     batch = project.submit("period", ["inputs/a.json", "inputs/b.json"])
...     batch.status().njobs
2
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cobblestone.api_schema.batches import BatchStatus
    from cobblestone.domain.errors import CobblestoneError, ConfigError, JobError
    from cobblestone.sdk.api.batch import Batch, JobResult
    from cobblestone.sdk.api.connection import (
        BusyError,
        ConflictError,
        JobFailed,
        NotFoundError,
        NotRunning,
        RequestRefused,
        Unreachable,
    )
    from cobblestone.sdk.api.jobs import Content, Job
    from cobblestone.sdk.app_definition import AppSpec
    from cobblestone.sdk.asynchronous import connect_async
    from cobblestone.sdk.project import Project, connect

__version__ = "0.5.0"
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
    "JobFailed",
    "JobResult",
    "NotFoundError",
    "NotRunning",
    "Project",
    "RequestRefused",
    "Unreachable",
    "__version__",
    "connect",
    "connect_async",
]


#: The modules of our names; the others are errors of ``sdk.api.connection``.
_HOMES = {
    "AppSpec": "sdk.app_definition",
    "Batch": "sdk.api.batch",
    "BatchStatus": "api_schema.batches",
    "CobblestoneError": "domain.errors",
    "ConfigError": "domain.errors",
    "Content": "sdk.api.jobs",
    "Job": "sdk.api.jobs",
    "JobError": "domain.errors",
    "JobResult": "sdk.api.batch",
    "Project": "sdk.project",
    "connect": "sdk.project",
    "connect_async": "sdk.asynchronous",
}


def __getattr__(name: str) -> Any:  # modules look up attributes of any type
    # The SDK brings an HTTP client along; whoever only wants the version does not wait for it.
    if name in __all__:
        home = import_module(f"{__name__}.{_HOMES.get(name, 'sdk.api.connection')}")
        value = globals()[name] = getattr(home, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
