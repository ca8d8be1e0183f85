"""Questions of projects about the files that they asked us to keep."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from cobblestone.policy.contribution.storage import answer_of
from cobblestone.wire.client_records import FileAnswer, FileStatus, ProjectContent
from cobblestone.wire.scheduler_reply import FileChallenge


def answer_challenge(content: ProjectContent, folder: Path, challenge: FileChallenge) -> FileAnswer | None:
    """Answer a question from what lies in the project's folder; None: there is no such file, or it is not to be kept.

    Only files that the project sent us are read, and no links: the answer must not tell a project anything about other files.
    """
    file = content.files.get(challenge.file_name)
    if (
        file is None
        or not file.keep
        or file.own
        or file.status not in (FileStatus.PRESENT, FileStatus.UPLOADED)
    ):
        return None
    try:
        descriptor = os.open(folder / challenge.file_name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            found = os.pread(descriptor, challenge.length, challenge.offset)
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return FileAnswer(
        file_name=challenge.file_name, nonce=challenge.nonce, answer=answer_of(challenge.nonce, found)
    )
