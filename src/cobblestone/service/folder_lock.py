"""The folder of a service belongs to the process that has it open."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from cobblestone.domain.errors import Busy


def take_folder(root: Path, lock_file: Path, *, what: str, shared: bool = False) -> IO[str]:
    """Take a folder; the lock is held until the returned file is closed (or the process dies).

    ``what``: the kind of service, for the message.  ``shared``: with others that say the same.

    Raises:
        Busy: another process has it.
    """
    handle = lock_file.open("a+")
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        handle.seek(0)
        owner = handle.read().strip() or "another process"
        handle.close()
        raise Busy(
            f"The {what} in {root} is already open in {owner}. Stop that one first, or use its address."
        ) from error
    handle.seek(0)
    handle.truncate()
    handle.write(f"process {os.getpid()}")
    handle.flush()
    return handle
