"""What a host lacks that apps of every platform need, such as Python.

The launcher ends with status 195 where it finds no interpreter, within a second, so such a host would burn one job after
the other.  No app of the pseudo platform "any" is sent there again until something changed: its system or client, or the
owner or an operator resets its errors; and since installing Python changes nothing that a client reports, it is
tried again after a week.
"""

from __future__ import annotations

import hashlib

from cobblestone.domain.apps import ANY_PLATFORM, AppVersion
from cobblestone.domain.hosts import Host, HostDescription
from cobblestone.domain.states import ExitStatus

RETRY_SECONDS = 7 * 86400.0
NO_PYTHON = "no_python"


def environment_fingerprint(description: HostDescription) -> str:
    """Return what would change if somebody reinstalled the system or the client, as a short text."""
    text = f"{description.os_name}\0{description.os_version}\0{description.client_version}"
    return hashlib.md5(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:12]


def missing_runtime_after_report(
    host: Host, exit_status: int | None, *, now: float
) -> tuple[str, float] | None:
    """Return what to store as the host's missing runtime after one of its results ended so; None: nothing."""
    if exit_status != ExitStatus.NO_PYTHON:
        return None
    return f"{NO_PYTHON}:{environment_fingerprint(host.description)}", now


def lacks_interpreter(host: Host, *, now: float) -> bool:
    """Whether apps of every platform are not worth sending to this host now."""
    if not host.missing_runtime:
        return False
    still_same = host.missing_runtime == f"{NO_PYTHON}:{environment_fingerprint(host.description)}"
    return still_same and now < host.missing_since + RETRY_SECONDS


def needs_interpreter(version: AppVersion) -> bool:
    """Whether the version is run by an interpreter that the host must have."""
    return version.platform == ANY_PLATFORM
