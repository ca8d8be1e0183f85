"""What can go wrong between a program and a project."""

from __future__ import annotations

from cobblestone.domain.errors import CobblestoneError, JobError


class RequestRefused(CobblestoneError):
    """The project refused a request."""

    def __init__(self, message: str, *, status: int, code: str, hint: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.status = status  #: HTTP status
        self.code = code  #: stable, for programs
        self.hint = hint


class Unreachable(CobblestoneError):
    """The project does not answer."""


class NotRunning(CobblestoneError):
    """The project's server is not running, so nothing would ever finish."""


class JobFailed(JobError):
    """A job has no answer."""

    def __init__(self, message: str, *, job_name: str, stderr: str = "") -> None:
        super().__init__(message)
        self.job_name = job_name
        self.stderr = stderr  #: the end of what the program wrote to its error output
