"""What can go wrong between a program and a project.

::

    CobblestoneError
    ├── ConfigError            a setting, folder or argument is wrong
    ├── JobError               a job description is wrong
    │   └── JobFailed          a job has no answer
    ├── Unreachable            the project does not answer
    ├── NotRunning             its server is not running, so nothing would ever finish
    └── RequestRefused         the project refused a request
        ├── NotFoundError      there is no such thing
        ├── ConflictError      it exists already, or its state does not allow this
        └── BusyError          the project cannot do this now
"""

from __future__ import annotations

from cobblestone.domain.errors import Busy, CobblestoneError, Conflict, JobError, NotFound


class RequestRefused(CobblestoneError):
    """The project refused a request.  The text says what, and what to do.

    Attributes:
        status: HTTP status.
        code: Stable, for programs.
        hint: What to do; it is also the end of the text.
        member: What of the request is wrong, as the text names it in backquotes; empty: the whole, or something else.

    >>> try:
    ...     project.submit("echo", [])
    ... except RequestRefused as error:
    ...     print(error.status, error.code)
    422 no_jobs
    """

    def __init__(self, message: str, *, status: int, code: str, hint: str = "", member: str = "") -> None:
        super().__init__(f"{message} {hint}".strip())
        self.member = member
        self.status = status
        self.code = code
        self.hint = hint


class NotFoundError(RequestRefused, NotFound):
    """There is no such app, batch, job … in the project.

    >>> try:
    ...     project.app("ecco")
    ... except NotFoundError as error:
    ...     print(error)
    There is no app called 'ecco'. Known: echo.
    """

    def __init__(self, message: str, *, status: int = 404, code: str = "not_found", hint: str = "") -> None:
        super().__init__(message, status=status, code=code, hint=hint)


class ConflictError(RequestRefused, Conflict):
    """The thing exists already, or its state does not allow this.

    >>> try:
    ...     project.create_app("echo", "cat {input}", stdout="output")
    ... except ConflictError as error:
    ...     print(error)
    There is already an app called echo. Change it with: cobblestone app update echo --files …
    """

    def __init__(self, message: str, *, status: int = 409, code: str = "conflict", hint: str = "") -> None:
        super().__init__(message, status=status, code=code, hint=hint)


class BusyError(RequestRefused, Busy):
    """The project cannot do this now: it is overloaded, or another process holds its folder.  Try again."""

    def __init__(self, message: str, *, status: int = 503, code: str = "busy", hint: str = "") -> None:
        super().__init__(message, status=status, code=code, hint=hint)


class Unreachable(CobblestoneError):
    """The project does not answer."""


class NotRunning(CobblestoneError):
    """The project's server is not running, so nothing would ever finish.  Start it with: cobblestone run"""


class JobFailed(JobError):
    """A job has no answer.

    Attributes:
        job_name: As it was submitted.
        stderr: The end of what the program wrote to its error output.

    >>> result = next(project.submit("echo", [cobblestone.Job(inputs=[b"1"], name="bad")]).results())
    >>> try:
    ...     result.json()
    ... except JobFailed as error:
    ...     print(error.job_name, bool(error.stderr))
    bad True
    """

    def __init__(self, message: str, *, job_name: str, stderr: str = "") -> None:
        super().__init__(message)
        self.job_name = job_name
        self.stderr = stderr
