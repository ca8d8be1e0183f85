"""States of workunits and results, with the numbers that the family uses.

Source: BOINC's ``boinc_db_types.h``, ``common_defs.h`` and ``error_numbers.h`` (facts only).
"""

from __future__ import annotations

from enum import IntEnum, IntFlag, StrEnum


class ServerState(IntEnum):
    """Where a result stands on the server."""

    INACTIVE = 1  #: exists, not released
    UNSENT = 2  #: may be sent to a host
    IN_PROGRESS = 4  #: sent to a host
    OVER = 5  #: reported, timed out or not needed


class Outcome(IntEnum):
    """How a result ended; meaningful when it is OVER."""

    INIT = 0
    SUCCESS = 1
    COULDNT_SEND = 2
    CLIENT_ERROR = 3
    NO_REPLY = 4
    DIDNT_NEED = 5
    VALIDATE_ERROR = 6
    CLIENT_DETACHED = 7


class ValidateState(IntEnum):
    """What validation said about a result."""

    INIT = 0  #: not looked at
    VALID = 1
    INVALID = 2
    NO_CHECK = 3  #: the workunit failed; nobody will look
    INCONCLUSIVE = 4  #: looked at, no quorum yet
    TOO_LATE = 5  #: cannot be compared: the canonical output is deleted, or the comparison fails


class ClientState(IntEnum):
    """Where a result stands on the client (reported by it)."""

    NEW = 0
    FILES_DOWNLOADING = 1
    FILES_DOWNLOADED = 2
    COMPUTE_ERROR = 3
    FILES_UPLOADING = 4
    FILES_UPLOADED = 5
    ABORTED = 6
    UPLOAD_FAILED = 7


class AssimilateState(IntEnum):
    """Whether the answer was handed to the project."""

    INIT = 0
    READY = 1
    DONE = 2


class FileDeleteState(IntEnum):
    """Whether files may go (READY) or are gone (DONE)."""

    INIT = 0
    READY = 1
    DONE = 2
    ERROR = 3


class WorkunitError(IntFlag):
    """Why a workunit failed."""

    NONE = 0
    COULDNT_SEND_RESULT = 1
    TOO_MANY_ERROR_RESULTS = 2
    TOO_MANY_SUCCESS_RESULTS = 4
    TOO_MANY_TOTAL_RESULTS = 8
    CANCELLED = 16
    NO_CANONICAL_RESULT = 32


class BatchState(IntEnum):
    """Where a batch stands."""

    INIT = 0  #: jobs are still being added
    IN_PROGRESS = 1
    COMPLETE = 2
    ABORTED = 3
    RETIRED = 4  #: outputs are gone, rows may be purged


class HomogeneousRedundancy(IntEnum):
    """How alike the hosts of one workunit must compute (the family's numbers)."""

    NONE = 0
    FINE = 1  #: same operating system and processor family
    COARSE = 2  #: same operating system and kind of processor


class ExitStatus(IntEnum):
    """Exit statuses that a rule looks at (the client's numbers)."""

    SUCCESS = 0
    ABORTED_BY_PROJECT = 202
    ABORTED_BY_USER = 203
    NO_PYTHON = 195  #: the launcher found no interpreter on the host


class JobState(StrEnum):
    """Where a job stands, as its submitter sees it."""

    WAITING = "waiting"
    RUNNING = "running"  #: a result of it is on a host
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskState(StrEnum):
    """How volunteers sort their tasks."""

    IN_PROGRESS = "in_progress"
    WAITING = "waiting"  #: reported, not validated yet
    VALID = "valid"
    INVALID = "invalid"
    ERROR = "error"  #: failed, not returned, or not needed any more
